"""Native libraries write to file descriptor 2 whenever they like; on a full screen that is noise over the text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import regular_file

MAX_LOG_BYTES = 1 << 20
"""A larger log makes way when the program begins; the one before it is kept beside it."""


@contextmanager
def guarded_stderr(log_file: Path) -> Iterator[None]:
    """Send file descriptor 2 to a file, while Python's own standard error keeps the terminal.

    Textual draws on `sys.__stderr__` (Linux and macOS), so both Python names move to a duplicate. The duplicate is of
    standard output where standard error is not the terminal, so that `tandem 2>file` still has a screen.

    Args:
        log_file: Where the noise goes; nowhere if it cannot be opened.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    screen = os.fdopen(os.dup(2 if os.isatty(2) else 1), "w", encoding="utf-8", errors="replace", buffering=1)
    streams = sys.stderr, sys.__stderr__
    noise = _open(log_file)
    try:
        os.dup2(noise, 2)
        sys.stderr = sys.__stderr__ = screen  # type: ignore[misc]
        yield
    finally:
        sys.stderr, sys.__stderr__ = streams  # type: ignore[misc]
        os.dup2(saved, 2)
        for descriptor in (saved, noise):
            os.close(descriptor)
        with suppress(OSError):
            screen.close()


def _open(file: Path) -> int:
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and regular_file.status(file).st_size > MAX_LOG_BYTES:
            file.replace(file.with_name(file.name + ".1"))
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.open(os.devnull, os.O_WRONLY)
