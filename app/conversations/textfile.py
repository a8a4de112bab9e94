"""Read a text file that the user names; never open what could block or has no end."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core import regular_file
from app.core.errors import AppError

MAX_BYTES = 8 << 20

_LOOK = 8192
"""Bytes that decide whether a file is text."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class MissingFile(AppError):  # noqa: N818 - what is missing is the file
    """There is no such file."""


class FolderNamed(AppError):  # noqa: N818 - what it names is a folder
    """There is a folder of that name."""


def text_size(path: Path, name: str) -> int:
    """Return the bytes of a regular file, called `name` in errors, without opening it. Raises AppError."""
    with file_errors(name):
        return regular_file.status(path).st_size


def read_text(path: Path, name: str, most_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file, called `name` in errors, with normalized line ends. Raises AppError."""
    with file_errors(name):
        data = regular_file.read_bytes(path, most_bytes + 1)
    if len(data) > most_bytes:
        raise AppError(f"{name} is larger than {most_bytes / (1 << 20):.0f} MB.", "Include a part of it.")
    try:
        text = data.decode(marked_encoding(data) or "utf-8")
    except UnicodeDecodeError:
        # Text that is not UTF-8 is most often Windows-1252.
        text = data.decode("cp1252", "replace")
    if "\0" in text[:_LOOK]:
        raise AppError(f"{name} is not text.", "Include a text file.")
    return regular_file.with_line_feeds(text)


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding of a byte order mark; None without one."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Raise errors of reading a file as `AppError`."""
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
