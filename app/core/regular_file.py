"""Reading files. What stands in the place of one is told by its kind, and not waited for as opening a pipe would be."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How to open what may be a pipe. Windows has no such pipes among its files, and would translate line ends."""
MAX_BYTES = 16 << 20
"""No file that Tandem keeps is a hundredth as long; one without end would fill the memory."""


class PipeOrDeviceError(OSError):
    """What was to be read as a file has no end, or waits for somebody to write."""


def is_file(path: Path) -> bool:
    """Whether there is a file, as far as can be seen: a name that none can have, and a disk that is gone, have none."""
    return _seen(path.is_file)


def is_folder(path: Path) -> bool:
    """Whether there is a folder, as far as can be seen."""
    return _seen(path.is_dir)


def exists(path: Path) -> bool:
    """Whether there is anything, as far as can be seen."""
    return _seen(path.exists)


def is_gone(path: Path, *, follow_links: bool = True) -> bool:
    """Whether there is surely nothing: what one may not look at may well be there, and opening it says why not.

    Args:
        path: Of a file or a folder.
        follow_links: Whether a link that leads nowhere is nothing.
    """
    try:
        path.stat(follow_symlinks=follow_links)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False


def is_closed(path: Path) -> bool:
    """Whether one may not look at what is there, if anything is."""
    try:
        path.stat()
    except PermissionError:
        return True
    except (OSError, ValueError):
        pass
    return False


def _seen(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except (OSError, ValueError):
        return False


def resolved(path: Path) -> Path:
    """The path without links; as it is written where they lead in a circle, or where no file can have that name."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path


def status(path: Path) -> os.stat_result:
    """What the system knows of a file, without opening it.

    Raises:
        IsADirectoryError: It is a folder. What that says is the middle of a sentence, as in `PipeOrDeviceError`.
        PipeOrDeviceError: It is no regular file either.
        OSError: There is none.
    """
    found = path.stat()
    _check(found, path)
    return found


def _check(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is no regular file but a folder", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(path)


def _not_regular(path: Path) -> PipeOrDeviceError:
    return PipeOrDeviceError(errno.EINVAL, "it is no regular file but a pipe or a device", str(path))


def read_bytes(path: Path, most: int = -1) -> bytes:
    """What is in a file, or so many bytes of it.

    Raises:
        OSError: It cannot be read, or as `status` does.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | AT_ONCE)
    except PermissionError:
        # So Windows says that it is a folder.
        status(path)
        raise
    try:
        _check(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as file:
        data: bytes | None = file.read(most)
    if data is None:
        # The kernel's own log says that it is a file, and lets its readers wait.
        raise _not_regular(path)
    return data


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The text in a file, its line ends as Python has them.

    Raises:
        OSError: As `read_bytes` does; also for one that is longer than any of Tandem's.
        UnicodeDecodeError: It is no text in this encoding.
    """
    data = read_bytes(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_BYTES >> 20} MiB", str(path))
    return with_line_feeds(data.decode(encoding))


def with_line_feeds(text: str) -> str:
    """A text whose lines end as they do everywhere in this program."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
