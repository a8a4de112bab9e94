"""Write files whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import regular_file

_PATIENCE_S, _LOOK_S = 0.5, 0.01
"""Reading such a file takes milliseconds."""
_LARGE_PATIENCE_S = 10.0
"""Virus scanners hold large files longer."""
_INVALID_ON_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"
    r'|.*[<>:"|?*\x00-\x1f].*'
    r"|.*[. ]",
    re.IGNORECASE | re.DOTALL,
)
"""Device names and invalid characters; a colon would name a hidden stream of another file."""


def write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically.

    A new file is private to its owner; an existing one keeps its permissions, and a link stays a link. The folder must
    exist.

    Args:
        path: The file.
        data: Its new content.
        durable: Flush to disk, so that it survives a power cut.

    Raises:
        OSError: It cannot be written; the old content is unchanged.
    """
    _check_name(path)
    path = Path(os.path.realpath(path))
    exists = os.path.lexists(path)
    if exists:
        regular_file.status(path)
    with _beside(path, data, durable=durable) as new:
        if exists:
            shutil.copymode(path, new)
        _take_the_place(new, path, _PATIENCE_S)


@contextmanager
def _beside(path: Path, data: bytes, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary file with the data in the same folder; the block moves it away."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}-", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield Path(name)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def move_large(new: Path, path: Path) -> None:
    """Rename a large file that was just written, also over another one.

    Raises:
        OSError: The disk refuses, or on Windows another program holds one of them for long.
    """
    _take_the_place(new, path, _LARGE_PATIENCE_S)


def _take_the_place(new: Path, path: Path, patience_s: float) -> None:
    """Rename a file over another."""
    _patiently(lambda: new.replace(path), patience_s)


def _patiently(change: Callable[[], object], patience_s: float) -> None:
    """Retry a change; Windows refuses it while any program has the file open."""
    until = time.monotonic() + patience_s
    while True:
        try:
            change()
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > until:
                raise
        time.sleep(_LOOK_S)


def create(path: Path, data: bytes) -> None:
    """Write a new file atomically, never over an existing one.

    Raises:
        FileExistsError: There is something of that name already.
        OSError: The disk refuses; nothing is left behind.
        ValueError: The name cannot be that of a file.
    """
    _check_name(path)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    with _beside(path, data) as new:
        _take_a_free_place(new, path)


def _take_a_free_place(new: Path, path: Path) -> None:
    """Rename a file, never over another; of two programs only one gets the name."""
    try:
        # Whole from the first moment, also where the process ends in the next one.
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:
        # Not every disk has such links.
        path.touch(mode=0o600, exist_ok=False)
        try:
            _take_the_place(new, path, _PATIENCE_S)
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise
    else:
        # The file is there; of a name too many nothing depends.
        with suppress(OSError):
            _patiently(new.unlink, _PATIENCE_S)


def _check_name(path: Path) -> None:
    if reason := invalid_name(path.name):
        raise OSError(errno.EINVAL, reason, str(path))


def is_valid_name(name: str) -> bool:
    """Return whether this system can have a file of this name."""
    return not (sys.platform == "win32" and _INVALID_ON_WINDOWS.fullmatch(name))


def invalid_name(name: str) -> str:
    """Return why no file can have this name, as the end of a sentence; "" if it can."""
    return "" if is_valid_name(name) else "Windows has no files of that name"
