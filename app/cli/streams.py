"""Standard streams: open, in UTF-8, and checked for write errors."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys

from app.core.errors import AppError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

    from _typeshed import ReadableBuffer

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO)


def prepare() -> None:
    """Reopen closed standard streams, and encode output as UTF-8.

    The number of a closed stream would go to the next opened file, perhaps the database, and messages into it.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one.
            os.open(os.devnull, flags)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    # Windows' console is written to in another way.
    given = sys.__stderr__
    if given is not None and sys.stderr is given and not (sys.platform == "win32" and given.isatty()):
        raw = io.BufferedWriter(_Forgiving(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=given.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        # A console of another encoding shows a mark instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8" if not stream.isatty() else None, errors="replace")


class _Forgiving(io.FileIO):
    """Stderr that drops text when it cannot be written, such as on a full disk."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def read_input() -> str:
    """Return stdin as text; raises as `read_whole`."""
    return read_whole(sys.stdin.buffer, "Standard input")


def has_unread_input() -> bool:
    """Return whether a pipe on stdin has data, without reading it; always False on Windows."""
    try:
        number = sys.stdin.fileno()
        kind = os.fstat(number).st_mode
    except (OSError, ValueError):
        return False
    if sys.platform == "win32" or not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        return False
    import fcntl
    import struct
    import termios

    try:
        # One that has ended is ready as well; only this tells how much there is.
        return bool(struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))[0])
    except OSError:
        return False


def read_whole(stream: BinaryIO, name: str) -> str:
    """Return the text of a file or pipe, up to a limit.

    Args:
        stream: Where it comes from.
        name: What to call that.

    Raises:
        UsageError: It is not text, or more of it than any context holds.
        AppError: It cannot be read.
    """
    from app.conversations.textfile import MAX_BYTES, marked_encoding
    from app.core.regular_file import with_line_feeds

    try:
        data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(f"{name} is larger than {MAX_BYTES >> 20} MB.", "Give a part of it.")
        # PowerShell marks what it writes, in UTF-16 where nothing else was asked for.
        return with_line_feeds(data.decode(marked_encoding(data) or "utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text.", "Give a text, not a binary file.") from None
    except OSError as error:
        raise AppError(
            f"{name} cannot be read: {error.strerror or error}.", "Check the path and its permissions."
        ) from error


def is_nowhere(error: OSError) -> bool:
    """Return whether the current folder was deleted."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return False
    try:
        os.getcwd()  # noqa: PTH109 - pathlib takes long to import
    except FileNotFoundError:
        return True
    return False


def is_unread(error: OSError) -> bool:
    """Return whether the reader of stdout closed the pipe; Windows reports EINVAL."""
    if isinstance(error, BrokenPipeError):
        return True
    if sys.platform != "win32" or error.errno != errno.EINVAL or error.filename is not None:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def is_refusal(error: OSError) -> bool:
    """Return whether a standard stream cannot be written."""
    return error.filename is None and error.errno in _REFUSALS


def let_go_of_output() -> None:
    """Redirect stdout to the null device, so that Python's final flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
