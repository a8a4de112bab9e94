"""The folder of saved KV caches, written by `app.llama.state_files`: a file per conversation, a folder per pair."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from app.core.paths import states_dir

SUFFIX, PARTIAL = ".state", ".partial"
_ABANDONED_S = 3600.0
"""Age at which an unfinished file counts as abandoned."""


def state_files(suffix: str = SUFFIX) -> dict[Path, os.stat_result]:
    """Return the saved states of all pairs with size and last use; skip unreadable files."""
    found: dict[Path, os.stat_result] = {}
    with suppress(OSError):
        for path in states_dir().glob(f"*/*{suffix}"):
            found[path] = path.stat()
    return found


def remove_orphans(conversations: Collection[int]) -> None:
    """Delete the states of conversations that are not listed, and unfinished files."""
    gone = [path for path in state_files() if path.stem.isdecimal() and int(path.stem) not in conversations]
    gone += [path for path, status in state_files(PARTIAL).items() if time.time() - status.st_mtime > _ABANDONED_S]
    for path in gone:
        with suppress(OSError):
            path.unlink()
