"""The log file: warnings and tracebacks that do not belong on the terminal."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import regular_file

MAX_BYTES = 1 << 20
"""A larger log is renamed at the start."""


@contextmanager
def logged_to(file: Path) -> Iterator[int]:
    """Append messages of Tandem's loggers to a file; yield its descriptor. Discard them if it cannot be opened."""
    log = _open(file)
    handler = logging.StreamHandler(os.fdopen(os.dup(log), "w", encoding="utf-8", errors="replace", buffering=1))
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logging.getLogger("tandem").addHandler(handler)
    try:
        yield log
    finally:
        logging.getLogger("tandem").removeHandler(handler)
        with suppress(OSError):
            handler.stream.close()
        os.close(log)


def _open(file: Path) -> int:
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and regular_file.status(file).st_size > MAX_BYTES:
            file.replace(file.with_name(file.name + ".1"))
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.open(os.devnull, os.O_WRONLY)
