"""Keep what native libraries write to file descriptor 2 off the screen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import regular_file

MAX_LOG_BYTES = 1 << 20
"""A larger log is renamed at the start."""


@contextmanager
def guarded_stderr(log_file: Path) -> Iterator[None]:
    """Send file descriptor 2 to a file, or nowhere without it, while Python's own standard error keeps the terminal.

    Textual draws on `sys.__stderr__` (Linux and macOS), so both Python names move to a duplicate: of standard output
    where standard error is not the terminal, so that `tandem 2>file` still has a screen.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    screen = os.fdopen(os.dup(2 if os.isatty(2) else 1), "w", encoding="utf-8", errors="replace", buffering=1)
    streams = sys.stderr, sys.__stderr__
    log = _open(log_file)
    try:
        os.dup2(log, 2)
        sys.stderr = sys.__stderr__ = screen  # type: ignore[misc]
        yield
    finally:
        sys.stderr, sys.__stderr__ = streams  # type: ignore[misc]
        os.dup2(saved, 2)
        for descriptor in (saved, log):
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
