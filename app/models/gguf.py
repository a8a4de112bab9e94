"""Read the header of a GGUF file without loading the model.

This reader exists because headers must be readable from a part of a file and from hostile files, in a fraction of the
load time. The format is described in ggml's docs/gguf.md; versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple, cast

from app.core import regular_file
from app.core.errors import DamagedFileError, ModelFileError
from app.core.printable import printable
from app.models.model_names import part_names

Scalar = int | float | bool | str
Value = Scalar | list[bytes] | list[int] | None
"""A metadata value. Only tokens, token types and short arrays of integers are stored; other arrays are None."""

MAGIC = b"GGUF"
TOKENS_KEY = "tokenizer.ggml.tokens"
TYPES_KEY = "tokenizer.ggml.token_type"
_MAX_KEY_BYTES = 65_535
_MAX_VALUES = 65_536
_MAX_TENSORS = 65_536
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32
_MAX_ELEMENTS = 1 << 22
_DOWNLOAD_AGAIN_FIX = "Download it again; ⟨setup⟩ does that for a pair from Hugging Face."
MAX_HEADER_BYTES = 1 << 28
"""Limit for a header, because a sparse file of terabytes costs nothing to create. The largest vocabularies have a
quarter of a million tokens, as many merges, and headers of 16 MB."""
_FOREIGN_BYTES = 64
_FOREIGN_MAGIC = {
    b"version https://git-lfs": "it is a Git LFS pointer, and git lfs pull downloads the file",
    b"<!doctype html": "it is a web page",
    b"<html": "it is a web page",
}
"""Other formats by their first bytes."""
_STRING_TYPE, _ARRAY_TYPE = 8, 9
_INTEGER_TYPES = (4, 5, 7)
_MAX_KEPT_ARRAY = 512
"""Longest stored array: one number per layer, for the most layers that llama.cpp allows."""
_STRUCT_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_U32, _U64 = _STRUCT_FORMATS[4], _STRUCT_FORMATS[10]


class HeaderError(Exception):
    """The bytes are not a valid GGUF header; the message says why."""


class ForeignHeaderError(HeaderError):
    """Another format, or a version of GGUF that llama.cpp does not read."""


class HeaderIncompleteError(HeaderError):
    """The header needs more bytes."""


class Tensor(NamedTuple):
    """A tensor in the header: dimensions, GGML type, and byte offset from the start of the data."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """Metadata of a GGUF file.

    Attributes:
        n_parameters: Elements of all tensors in this file, if their list was read.
        n_bytes: Length of the header with that list, without padding; 0 if it was not read.
        tensors: Tensors in this file by name; empty if their list was not read.
    """

    metadata: Mapping[str, Value] = field(repr=False)
    n_parameters: int | None = None
    n_bytes: int = 0
    tensors: Mapping[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def data_start(self) -> int:
        """Return the byte offset of the tensor data in the file."""
        alignment = self.metadata.get("general.alignment")
        size = alignment if isinstance(alignment, int) and alignment > 0 else _DEFAULT_ALIGNMENT
        return -(-self.n_bytes // size) * size

    def tensor_bytes(self, file_bytes: int) -> Iterator[tuple[str, int]]:
        """Yield the name and size of each tensor in a file of this size."""
        offsets = sorted(tensor.offset for tensor in self.tensors.values())
        ends = dict(pairwise([*offsets, max(0, file_bytes - self.data_start)]))
        for name, tensor in self.tensors.items():
            yield name, max(0, ends[tensor.offset] - tensor.offset)

    @property
    def architecture(self) -> str:
        """Return llama.cpp's name of the architecture, or ""."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else ""

    def of_architecture(self, key: str) -> Value:
        """Return the value of `<architecture>.<key>`, if any."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str) -> int:
        """Return the value of `<architecture>.<key>` as a positive number, the largest of an array; else 0."""
        value = self.of_architecture(key)
        if isinstance(value, list):
            value = max((n for n in value if isinstance(n, int)), default=0)
        return value if isinstance(value, int) and value > 0 else 0

    @cached_property
    def tokens(self) -> list[bytes]:
        """Return the texts of the vocabulary by id; empty without a tokenizer."""
        value = self.metadata.get(TOKENS_KEY)
        return [token for token in value if isinstance(token, bytes)] if isinstance(value, list) else []

    @cached_property
    def token_types(self) -> list[int]:
        """Return llama.cpp's token types by id; empty if the file has none."""
        value = self.metadata.get(TYPES_KEY)
        return [kind for kind in value if isinstance(kind, int)] if isinstance(value, list) else []


class _Reader:
    """A cursor over bytes that never reads past their end."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._end = min(len(data), MAX_HEADER_BYTES)
        self._strings_left = _MAX_ELEMENTS
        self.at = 0

    def take(self, n: int) -> bytes:
        self.skip(n)
        return self._data[self.at - n : self.at]

    def skip(self, n: int) -> None:
        if n > self._end - self.at:
            raise self._too_short()
        self.at += n

    def _too_short(self) -> HeaderError:
        if self._end < len(self._data):
            return HeaderError("its header is longer than that of any model")
        return HeaderIncompleteError("the file ends inside its header")

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def strings(self, count: int, *, keep: bool) -> list[bytes] | None:
        """Read `count` strings; the loop is inlined for speed."""
        if count > (self._end - self.at) // 8:
            raise self._too_short()
        self._strings_left -= count
        if self._strings_left < 0:
            raise HeaderError("its arrays hold more texts than any model needs")
        data, at, end, unpack = self._data, self.at, self._end, struct.Struct(_U64).unpack_from
        out: list[bytes] = []
        try:
            for _ in repeat(None, count):
                start = at + 8
                at = start + unpack(data, at)[0]
                if at > end:
                    raise self._too_short()
                if keep:
                    out.append(data[start:at])
        except struct.error:
            raise self._too_short() from None
        self.at = at
        return out if keep else None


def parse_header(data: bytes | mmap.mmap, *, tensors: bool = False, vocabulary: bool = True) -> GgufHeader:
    """Read a header from the beginning of a GGUF file.

    Args:
        tensors: Also read the list of tensors after the metadata, for the number of parameters.
        vocabulary: Store the texts and types of the tokens, which takes most of the time.

    Raises:
        HeaderIncompleteError: More bytes are needed.
        ForeignHeaderError: It is no GGUF header, or a version that llama.cpp does not read.
        HeaderError: It is damaged.
    """
    reader = _Reader(data)
    if (magic := reader.take(4)) != MAGIC:
        if not any(magic):
            raise HeaderError("it begins with zeros, perhaps after a power cut")
        beginning = data[:_FOREIGN_BYTES].lstrip().lower()
        known = (what for start, what in _FOREIGN_MAGIC.items() if beginning.startswith(start))
        raise ForeignHeaderError(next(known, "it does not begin with GGUF"))
    version = reader.number(_U32)
    if version not in (2, 3):
        raise ForeignHeaderError(f"it has the GGUF version {version}; versions 2 and 3 can be read")
    n_tensors, n_values = reader.number(_U64), reader.number(_U64)
    if n_values > _MAX_VALUES:
        raise HeaderError(f"it claims {n_values:,} metadata values")
    metadata: dict[str, Value] = {}
    for _ in range(n_values):
        key = _key(reader)
        if key in metadata:
            raise HeaderError(f"it has the key {key[:80]!r} twice")
        metadata[key] = _value(reader, key, vocabulary=vocabulary)
    if not tensors:
        return GgufHeader(metadata)
    found = _tensors(reader, n_tensors)
    n_parameters = sum(math.prod(tensor.shape) for tensor in found.values())
    return GgufHeader(metadata, n_parameters, reader.at, found)


def _tensors(reader: _Reader, n_tensors: int) -> dict[str, Tensor]:
    if n_tensors > _MAX_TENSORS:
        raise HeaderError(f"it claims {n_tensors:,} tensors")
    found: dict[str, Tensor] = {}
    for _ in range(n_tensors):
        name = reader.take(reader.number(_U64)).decode("utf-8", errors="replace")
        n_dimensions = reader.number(_U32)
        if n_dimensions > _MAX_DIMENSIONS:
            raise HeaderError(f"a tensor has {n_dimensions} dimensions")
        shape = tuple(reader.number(_U64) for _ in range(n_dimensions))
        found[name] = Tensor(shape, reader.number(_U32), reader.number(_U64))
    return found


def _key(reader: _Reader) -> str:
    length = reader.number(_U64)
    if not 0 < length <= _MAX_KEY_BYTES:
        raise HeaderError("a key is empty, or longer than the format allows")
    key = reader.take(length)
    # llama.cpp compares keys as C strings, which end at a zero byte.
    if b"\0" in key:
        raise HeaderError("a key has a zero byte")
    return key.decode("utf-8", errors="replace")


def _value(reader: _Reader, key: str, *, vocabulary: bool) -> Value:
    kind = reader.number(_U32)
    if kind == _STRING_TYPE:
        return reader.take(reader.number(_U64)).decode("utf-8", errors="replace")
    if kind in _STRUCT_FORMATS:
        return cast("Scalar", reader.number(_STRUCT_FORMATS[kind]))
    if kind != _ARRAY_TYPE:
        raise HeaderError(f"a value has the unknown type {kind}")
    element, count = reader.number(_U32), reader.number(_U64)
    if element == _STRING_TYPE:
        return reader.strings(count, keep=vocabulary and key == TOKENS_KEY)
    if element in _INTEGER_TYPES and (count <= _MAX_KEPT_ARRAY or (vocabulary and key == TYPES_KEY)):
        if count > _MAX_ELEMENTS:
            raise HeaderError("an array is longer than any model needs")
        layout = f"<{count}{_STRUCT_FORMATS[element][1]}"
        return list(struct.unpack(layout, reader.take(struct.calcsize(layout))))
    if element not in _STRUCT_FORMATS:
        raise HeaderError(f"an array has elements of the unknown type {element}")
    reader.skip(count * struct.calcsize(_STRUCT_FORMATS[element]))
    return None


def read_header(path: Path, *, tensors: bool = False, vocabulary: bool = True) -> GgufHeader:
    """Read the header of a file on disk; see `parse_header`.

    Raises:
        ModelFileError: It is missing, not a regular file, or not GGUF.
        DamagedFileError: It is empty, truncated or damaged, or lacks a part.
    """
    with file_errors(path):
        # Check before opening: opening a pipe waits for a writer.
        if regular_file.status(path).st_size == 0:
            raise DamagedFileError(f"{path} is empty.", _DOWNLOAD_AGAIN_FIX)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = parse_header(data, tensors=tensors, vocabulary=vocabulary)
    n_parts = header.metadata.get("split.count")
    missing = next((name for name in part_names(path.name) if not regular_file.is_file(path.with_name(name))), "")
    if isinstance(n_parts, int) and n_parts > 1 and missing:
        raise DamagedFileError(
            f"{path} is one of {n_parts} parts, and {missing} is not beside it.",
            "Get all parts; ⟨setup⟩ does that for a pair from Hugging Face.",
        )
    return header


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert errors of a model file to `ModelFileError`s."""
    try:
        yield
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}.", "Check the path.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a folder, not a model file.", "Name the .gguf file inside it.") from None
    except regular_file.PipeOrDeviceError:
        raise ModelFileError(f"{path} is not a regular file.", "A model must be a .gguf file on disk.") from None
    except HeaderIncompleteError:
        raise DamagedFileError(f"{path} is cut short: it ends inside its header.", _DOWNLOAD_AGAIN_FIX) from None
    except ForeignHeaderError as error:
        raise ModelFileError(f"{path} is not a GGUF model: {error}.", "llama.cpp runs GGUF files only.") from None
    except HeaderError as error:
        raise DamagedFileError(f"{path} is damaged: {error}.", _DOWNLOAD_AGAIN_FIX) from None
    except (OSError, ValueError) as error:
        # A name with a zero byte raises ValueError.
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{printable(str(path))} cannot be read: {reason}.", "Check the path.") from None
