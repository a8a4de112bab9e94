"""Reading a file that the user names as text. Nothing is opened that could block or that has no end."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.core import regular_file
from app.core.errors import AppError

MAX_BYTES = 8 << 20

_LOOK = 8192
"""Bytes that tell text from anything else."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = frozenset(range(32)) - set(b"\t\n\r\f\x1b\b")


class MissingFile(AppError):  # noqa: N818 - what is missing is the file
    """There is no such file; the name may not have been meant as one."""


class FolderNamed(AppError):  # noqa: N818 - what it names is a folder
    """There is a folder of that name; the name may not have been meant as a path."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text that was read.

    Attributes:
        text: With line feeds only.
        encoding: What it was read as.
    """

    text: str
    encoding: str


def text_size(path: Path, name: str) -> int:
    """Bytes of a regular file, without opening it.

    Args:
        path: The file.
        name: What to call it.

    Raises:
        MissingFile: It is absent.
        FolderNamed: It is a folder.
        AppError: It is no regular file either.
    """
    with sentences(name):
        return regular_file.status(path).st_size


def read_text(path: Path, name: str, most_bytes: int = MAX_BYTES) -> TextFile:
    """All of a text file.

    Args:
        path: The file.
        name: What to call it.
        most_bytes: A larger one is refused.

    Raises:
        AppError: It is absent, not a regular file, not to be read, too large, or not text.
    """
    # Before it is opened: a device may do something about that.
    text_size(path, name)
    with sentences(name):
        data = regular_file.read_bytes(path, most_bytes + 1)
    if len(data) > most_bytes:
        raise AppError(f"{name} is larger than {most_bytes / (1 << 20):.0f} MB.", "Include a part of it.")
    text, encoding = _decode(data, name)
    return TextFile(regular_file.with_line_feeds(text), encoding)


def marked_encoding(data: bytes) -> str | None:
    """The encoding that a text's first bytes name; None if they name none."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def looks_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not those of a text."""
    if marked_encoding(head):
        return False
    head = head[:_LOOK]
    return 0 in head or sum(byte in _CONTROLS for byte in head) * 100 > len(head)


def _decode(data: bytes, name: str) -> tuple[str, str]:
    marked = marked_encoding(data)
    # Windows-1252 is what text without a mark and not in UTF-8 most often is.
    encodings = (marked,) if marked else ("utf-8", "cp1252")
    if looks_binary(data):
        raise AppError(f"{name} is not text.", "Include a text file.")
    for encoding in encodings:
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    raise AppError(f"{name} is not text in an encoding that Tandem knows.", "Save it as UTF-8.")


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Whatever keeps a file from being read, in words."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFile(f"There is no file {name}.") from None
    except IsADirectoryError:
        raise FolderNamed(f"{name} is a folder.", "Name a file in it.") from None
    except regular_file.PipeOrDeviceError:
        raise AppError(f"{name} is a device or a pipe, not a file.", "Name a text file.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AppError(f"{name} cannot be read: {reason}.", "Check the path and its permissions.") from error
