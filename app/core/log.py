"""The log file for warnings, tracebacks and native output, which do not belong on the terminal."""

import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.core import regular_file

_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_TIMED_MESSAGE = re.compile(r"\d{4}-\d\d-\d\d \d\d:")
_RECENT_S = 5
"""Older messages do not explain the end of a process."""
MAX_BYTES = 1 << 20
"""Larger logs are renamed at the start."""


@contextmanager
def logged_to(file: Path) -> Iterator[int]:
    """Append messages of Tandem's loggers to a file; yield its descriptor. If it cannot be opened, discard them."""
    log = _open(file)
    with suppress(OSError):
        os.write(log, f"{time.strftime(_TIME_FORMAT)} tandem: process {os.getpid()}\n".encode())
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


def written_by(process: int, file: Path, began: float) -> str:
    """Return what a process wrote to the log file in its last seconds.

    Process numbers are reused, so only messages after `began`, in seconds of `time.time`, count.
    """
    try:
        text = regular_file.read_bytes(file).decode("utf-8", errors="replace")
    except OSError:
        return ""
    first, oldest = (time.strftime(_TIME_FORMAT, time.localtime(at)) for at in (began, time.time() - _RECENT_S))
    head, mark, rest = text.rpartition(f" tandem: process {process}\n")
    if not mark or head[-len(first) :] < first:
        return ""
    lines = rest.splitlines(keepends=True)
    return "".join(line for line in lines if not _TIMED_MESSAGE.match(line) or line >= oldest)


@contextmanager
def guarded_stderr(file: Path, shown_on: int = 2) -> Iterator[None]:
    """Send file descriptor 2, which native code writes to, to a log file; Python's stderr goes to `shown_on`.

    Messages of Tandem's loggers go to the same file. If it cannot be opened, the output is discarded.

    Textual draws on `sys.__stderr__` (Linux and macOS), so both names of the stream use a duplicate of a descriptor.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    shown = os.fdopen(os.dup(shown_on), "w", encoding="utf-8", errors="replace", buffering=1)
    streams = sys.stderr, sys.__stderr__
    try:
        with logged_to(file) as log:
            os.dup2(log, 2)
            if sys.stderr is sys.__stderr__:
                sys.stderr = shown
            sys.__stderr__ = shown  # type: ignore[misc]
            yield
    finally:
        sys.stderr, sys.__stderr__ = streams  # type: ignore[misc]
        os.dup2(saved, 2)
        os.close(saved)
        with suppress(OSError):
            shown.close()
