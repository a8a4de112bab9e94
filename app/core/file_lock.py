"""Lock files that several programs change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.errors import AppError


@contextmanager
def exclusive(
    file: Path, failure: type[AppError], *, timeout_s: float, waits: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Hold the lock of a file; its folder is created if needed.

    Args:
        file: The lock is a file with the suffix .lock beside it.
        failure: Error to raise.
        timeout_s: Longest wait for another program; negative for no limit.
        waits: Called before a wait.

    Raises:
        AppError: `failure`, if another program holds the lock for longer, or the file cannot be written.
    """
    # Few commands write.
    from filelock import FileLock, Timeout

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file.with_suffix(".lock"))
        try:
            acquired = lock.acquire(timeout=0)
        except Timeout:
            waits()
            acquired = lock.acquire(timeout=timeout_s)
        with acquired:
            yield
    except Timeout:
        raise failure(f"{file} is locked by another program.", "Wait until it is done.") from None
    except OSError as error:
        raise failure(
            f"{file} cannot be written: {error.strerror or error}.", "Check the disk and its permissions."
        ) from error
