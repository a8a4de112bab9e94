"""The locks of the hub's cache, one for each content: every client of the cache takes it before writing that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from app.models.hub.folder import content_of


@contextmanager
def locked_content(content: Path) -> Iterator[bool]:
    """Hold the lock of one content; False if another has it.

    Args:
        content: Where it lies, or will lie.

    Raises:
        OSError: The disk refuses.
    """
    repo = content.parents[1]
    path = repo.parent / ".locks" / repo.name / f"{content.name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0, mode=0o664)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def still_comes(unfinished: Path) -> bool:
    """Whether some program is bringing what a file lacks.

    Raises:
        OSError: The disk refuses to tell.
    """
    with locked_content(content_of(unfinished)) as ours:
        return not ours
