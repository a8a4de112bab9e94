"""The folder of saved KV caches, which `app.llama.state_files` writes: a file per conversation, a folder per pair."""

from __future__ import annotations

import time
from collections.abc import Collection
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


def state_files(suffix: str = SUFFIX) -> list[StateFile]:
    """Return the saved states of all pairs, as far as they can be read."""
    found: list[StateFile] = []
    with suppress(OSError):
        for path in states_dir().glob(f"*/*{suffix}"):
            status = path.stat()
            found.append(StateFile(path, status.st_size, status.st_mtime))
    return found


def remove_orphans(conversations: Collection[int]) -> None:
    """Delete the states of conversations that are not among these, and files that were not finished."""
    gone = [f for f in state_files() if f.path.stem.isdecimal() and int(f.path.stem) not in conversations]
    gone += [file for file in state_files(PARTIAL) if time.time() - file.used > _ABANDONED_S]
    for file in gone:
        with suppress(OSError):
            file.path.unlink()
