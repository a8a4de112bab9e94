"""Reads the header of a GGUF file: what a model is, without loading it.

Written by hand because the header must be readable from a part of a file and from hostile ones, in a fraction of the
load time. The format is described in ggml's docs/gguf.md; versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import ModelFileError

Scalar = int | float | bool | str
Value = Scalar | list[bytes] | None
"""A metadata value; arrays other than the token texts are None, only their place is skipped."""

MAGIC = b"GGUF"
TOKENS_KEY = "tokenizer.ggml.tokens"
_MAX_KEY_BYTES = 65_535
_STRING, _ARRAY, _BOOL = 8, 9, 7
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")


class HeaderError(Exception):
    """The bytes are not a GGUF header; the message says where it stops making sense."""


class HeaderIncompleteError(HeaderError):
    """The header goes on after the bytes that are there."""


@dataclass(frozen=True)
class GgufHeader:
    """Metadata of one GGUF file.

    Attributes:
        version: Of the format.
        n_tensors: Tensors the file claims to hold.
        metadata: Key to value, in the file's order.
    """

    version: int
    n_tensors: int
    metadata: Mapping[str, Value] = field(repr=False)

    @property
    def architecture(self) -> str:
        """llama.cpp's name of the architecture, or "" where it is missing."""
        value = self.metadata.get("general.architecture")
        return value if isinstance(value, str) else ""

    def of_architecture(self, key: str) -> Value:
        """The value of `<architecture>.<key>`, or None."""
        return self.metadata.get(f"{self.architecture}.{key}")

    @property
    def tokens(self) -> list[bytes]:
        """The vocabulary's texts by id; empty in a file without a tokenizer."""
        value = self.metadata.get(TOKENS_KEY)
        return value if isinstance(value, list) else []


class _Reader:
    """A cursor over bytes that never reads past their end."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._end = len(data)
        self.at = 0

    def take(self, n: int) -> bytes:
        if n > self._end - self.at:
            raise HeaderIncompleteError("the file ends inside its header")
        self.at += n
        return self._data[self.at - n : self.at]

    def skip(self, n: int) -> None:
        if n > self._end - self.at:
            raise HeaderIncompleteError("the file ends inside its header")
        self.at += n

    def u32(self) -> int:
        value: int = _U32.unpack(self.take(4))[0]
        return value

    def u64(self) -> int:
        value: int = _U64.unpack(self.take(8))[0]
        return value

    def scalar(self, kind: int) -> Scalar:
        layout = _FORMATS.get(kind)
        if layout is None:
            raise HeaderError(f"a value has the unknown type {kind}")
        if kind == _BOOL:
            return self.take(1) != b"\0"
        value: Scalar = struct.unpack(layout, self.take(struct.calcsize(layout)))[0]
        return value

    def strings(self, count: int) -> list[bytes]:
        """`count` length-prefixed strings; the inner loop of every load, so it is written out."""
        data, at, end, unpack = self._data, self.at, self._end, _U64.unpack_from
        out = []
        for _ in range(count):
            if end - at < 8:
                raise HeaderIncompleteError("the file ends inside its header")
            length = unpack(data, at)[0]
            at += 8
            if length > end - at:
                raise HeaderIncompleteError("the file ends inside its header")
            out.append(data[at : at + length])
            at += length
        self.at = at
        return out


def parse_header(data: bytes | mmap.mmap) -> GgufHeader:
    """Read a header from the beginning of a GGUF file.

    Raises:
        HeaderIncompleteError: More bytes are needed.
        HeaderError: It is no GGUF header, or one of a version that llama.cpp does not read.
    """
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise HeaderError("it does not begin with GGUF")
    version = reader.u32()
    if version not in (2, 3):
        raise HeaderError(f"it has the GGUF version {version}; versions 2 and 3 can be read")
    n_tensors, n_values = reader.u64(), reader.u64()
    metadata: dict[str, Value] = {}
    for _ in range(n_values):
        length = reader.u64()
        if length > _MAX_KEY_BYTES:
            raise HeaderError("a key is longer than the format allows")
        key = reader.take(length).decode("utf-8", errors="replace")
        metadata[key] = _value(reader, key)
    return GgufHeader(version, n_tensors, metadata)


def _value(reader: _Reader, key: str) -> Value:
    kind = reader.u32()
    if kind == _STRING:
        return reader.take(reader.u64()).decode("utf-8", errors="replace")
    if kind != _ARRAY:
        return reader.scalar(kind)
    element, count = reader.u32(), reader.u64()
    if element == _STRING:
        texts = reader.strings(count)
        return texts if key == TOKENS_KEY else None
    if element not in _FORMATS:
        raise HeaderError(f"an array has elements of the unknown type {element}")
    reader.skip(count * struct.calcsize(_FORMATS[element]))
    return None


def read_header(path: Path) -> GgufHeader:
    """Read the header of a file on disk.

    Raises:
        ModelFileError: It is missing, not a regular file, not GGUF, or cut short.
    """
    try:
        if path.is_dir():
            raise ModelFileError(f"{path} is a folder, not a model file.", "Name the .gguf file inside it.")
        if path.exists() and not path.is_file():
            raise ModelFileError(f"{path} is not a regular file.", "A model must be a .gguf file on disk.")
        with path.open("rb") as file:
            if path.stat().st_size == 0:
                raise ModelFileError(f"{path} is empty.", "Download it again.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return parse_header(data)
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {path}.", "Check the path, or choose a pair with --pair.") from None
    except HeaderIncompleteError:
        raise ModelFileError(f"{path} is cut short: it ends inside its header.", "Download it again.") from None
    except HeaderError as error:
        raise ModelFileError(f"{path} is not a GGUF model: {error}.", "llama.cpp runs GGUF files only.") from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}.", "Check the path and its permissions.") from None
