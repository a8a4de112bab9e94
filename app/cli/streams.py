"""The standard streams of a command: there, in an encoding that holds every answer, and written to their end."""

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
    """Open what the caller has closed, and let answers hold any character.

    A closed stream's number would go to the next file that is opened, the database perhaps, and whatever a library
    says on standard error into it. What is asked for then fails as on a full disk.
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
    """Standard error: what it cannot take, as a full disk or a closed window, is lost, and what it is about is not."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def read_input() -> str:
    """All of standard input as text; raises as `read_whole`."""
    return read_whole(sys.stdin.buffer, "Standard input")


def has_unread_input() -> bool:
    """Whether a pipe on standard input has something to say, which nobody has asked for; nothing of it is read.

    It may belong to whoever started the command, as the rest of a script does, or the other lines of a loop. Windows
    does not tell.
    """
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
    """All of a prompt, from a file or a pipe that may have no end.

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
    """Whether an error is that the folder which the program was started in has gone since."""
    if not isinstance(error, FileNotFoundError) or error.filename is not None:
        return False
    try:
        os.getcwd()  # noqa: PTH109 - pathlib takes long to import
    except FileNotFoundError:
        return True
    return False


def is_unread(error: OSError) -> bool:
    """Whether an error is that whoever read the output has gone; of a pipe Windows has no word of its own for that."""
    if isinstance(error, BrokenPipeError):
        return True
    if sys.platform != "win32" or error.errno != errno.EINVAL or error.filename is not None:
        return False
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def is_refusal(error: OSError) -> bool:
    """Whether an error is of a stream that cannot be written any more, and not of a file or the network."""
    return error.filename is None and error.errno in _REFUSALS


def let_go_of_output() -> None:
    """Drop what could not be written; Python would complain once more when it flushes at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
