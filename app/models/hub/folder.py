"""Where the hub's client keeps what it downloads, as it decides it itself; importing it for one path takes long."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from app.core.regular_file import is_folder
from app.models.source import home_expanded

PARTIAL = ".incomplete"
"""Ends the name of what has come of a file, until all has."""


def folder() -> Path:
    """The cache, from HF_HUB_CACHE, its older name, HF_HOME or the client's default."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return home_expanded(os.path.expandvars(named or f"{home}/hub"))


def may_hold(repo: str) -> bool:
    """Whether anything of a repository, by its name, has ever been put there."""
    return is_folder(folder() / _repo_folder(repo))


def unfinished(repo: str = "*") -> dict[Path, int]:
    """What has come of files that have not come whole, by whatever program, in bytes, as far as can be seen.

    Args:
        repo: Their repository; without it, of all.
    """
    found = {}
    with suppress(OSError):
        for path in sorted(folder().glob(f"{_repo_folder(repo)}/blobs/*{PARTIAL}")):
            # It may have come whole by now, or be somebody else's.
            with suppress(OSError):
                found[path] = path.stat().st_size
    return found


def is_ours(unfinished: Path) -> bool:
    """Whether downloads go on behind what has come of a file: the hub's client names its own after each try anew."""
    return unfinished.name.removesuffix(PARTIAL).isalnum()


def content_of(unfinished: Path) -> Path:
    """Where a file that has not come whole will lie; who brings it has the lock of that."""
    return unfinished.with_name(unfinished.name.partition(".")[0])


def _repo_folder(repo: str) -> str:
    return f"models--{repo.replace('/', '--')}"
