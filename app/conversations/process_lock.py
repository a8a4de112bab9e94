"""Whether the process that writes an answer still runs: it holds a lock on a file, which its end releases, however it
ends. A process number would not do: the system gives it to somebody else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from app.core.regular_file import AT_ONCE

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, alone: bool) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int, *, alone: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


_MORE_LOOKS, _LOOK_S = 3, 0.005
"""A look takes microseconds."""


class ProcessLock:
    """Held from construction to `close`, or to the end of the process.

    A disk without locks gives none. Another Tandem then takes an answer on its way for a cut one, and sees it whole
    when it has ended.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None
        self.holds = False
        """Whether others can tell that this process runs."""
        with suppress(OSError):
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            _lock(self._descriptor, alone=True)
            self.holds = True

    def close(self) -> None:
        """End it and remove the file; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor, self.holds = None, False
            with suppress(OSError):
                self._file.unlink()


def is_held(file: Path) -> bool:
    """Whether a process holds the lock. Who only looks at the same moment is not taken for it."""
    try:
        descriptor = os.open(file, os.O_RDONLY | AT_ONCE)
    except OSError:
        return False
    try:
        return not any(_is_free(descriptor) for _ in _looks())
    finally:
        os.close(descriptor)


def _looks() -> Iterator[None]:
    """One, or on Windows, whose locks let nobody look beside another, several."""
    yield
    if sys.platform == "win32":
        for _ in range(_MORE_LOOKS):
            time.sleep(_LOOK_S)
            yield


def _is_free(descriptor: int) -> bool:
    try:
        _lock(descriptor, alone=False)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True
