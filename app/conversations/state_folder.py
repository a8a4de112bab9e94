"""The folder of saved KV caches, which `app.llama.state_files` writes: a file per conversation, a folder per pair."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.core.paths import states_dir

SUFFIX, PARTIAL = ".state", ".partial"
_ABANDONED_S = 3600.0
"""Age of a file whose program ended while it was written."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A saved state, with its bytes and the time of its last use."""

    path: Path
    size: int
    used: float


def state_files() -> Iterator[StateFile]:
    """Yield the saved states of all pairs."""
    for path in states_dir().glob(f"*/*{SUFFIX}"):
        with suppress(OSError):
            status = path.stat()
            yield StateFile(path, status.st_size, status.st_mtime)


def remove_orphans(conversations: Collection[int]) -> None:
    """Delete the states of conversations that are not among these, and files that were not finished."""
    for file in state_files():
        if file.path.stem.isdecimal() and int(file.path.stem) not in conversations:
            with suppress(OSError):
                file.path.unlink()
    for path in states_dir().glob(f"*/*{PARTIAL}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink()
