"""Write files atomically, lock shared files, and store small caches as JSON."""

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from app.core import regular_file
from app.core.errors import STRUCTURE_ERRORS, AppError

T = TypeVar("T")


@contextmanager
def exclusive(file: Path, failure: type[AppError], *, timeout_s: float) -> Iterator[None]:
    """Hold the lock of a file, a .lock file beside it; create its folder if needed.

    Raises `failure` if another program holds the lock for longer, or the file cannot be written.
    """
    # Few commands write files, so others need not wait for this import.
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock"), timeout=timeout_s):
            yield
    except Timeout:
        raise failure(f"{file} is locked by another program.", "Wait until it is done.") from None
    except OSError as error:
        text = f"{file} cannot be written: {error.strerror or error}."
        raise failure(text, "Check the disk and its permissions.") from error


_RETRY_S, _PAUSE_S = 10.0, 0.01
"""Windows refuses to replace a file while any program reads it; virus scanners read large files for seconds."""
_INVALID_ON_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"
    r'|.*[<>:"|?*\x00-\x1f].*'
    r"|.*[. ]",
    re.IGNORECASE | re.DOTALL,
)
"""Device names and invalid characters; a colon would name a hidden stream of another file."""


def write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically; a durable write is flushed to disk, so that it survives a power cut.

    A new file is private to its owner; an existing file keeps its permissions, and a link stays a link. The folder must
    exist. Raises OSError if writing fails; then the old content is unchanged.
    """
    path = Path(os.path.realpath(path))
    exists = os.path.lexists(path)
    if exists:
        regular_file.status(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}-", suffix=".partial")
    new = Path(name)
    try:
        _fill(descriptor, data, durable=durable)
        if exists:
            shutil.copymode(path, new)
        replace(new, path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def create(path: Path, data: bytes) -> None:
    """Write a new file. Raises FileExistsError, another OSError or ValueError; then nothing is left behind."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        _fill(descriptor, data)
    except BaseException:
        path.unlink()
        raise


def _fill(descriptor: int, data: bytes, *, durable: bool = True) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def replace(new: Path, path: Path) -> None:
    """Rename a file, replacing any existing file.

    Raises OSError if the disk refuses, or on Windows if another program holds one of the files for long.
    """
    end = time.monotonic() + _RETRY_S
    while True:
        try:
            new.replace(path)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_S)


def is_valid_name(name: str) -> bool:
    """Return whether this system can have a file of this name."""
    return not (sys.platform == "win32" and _INVALID_ON_WINDOWS.fullmatch(name))


# Caches: discarded if broken


def read_json(path: Path, version: int, convert: Callable[[Any], T]) -> T | None:
    """Read an object from a JSON file; return None if it is missing, broken, or its "format" is not `version`.

    Also returns None if `convert` fails.
    """
    try:
        raw = json.loads(regular_file.read_text(path))
        return convert(raw) if raw["format"] == version else None
    except (OSError, *STRUCTURE_ERRORS):
        return None


def write_json(path: Path, raw: object) -> None:
    """Write a JSON file atomically, and create its folder. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(raw).encode(), durable=False)
