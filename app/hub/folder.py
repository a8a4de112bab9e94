"""Where the hub's client keeps what it downloads, as it decides it itself; importing it for one path takes long."""

from __future__ import annotations

import os
from pathlib import Path

from app.regular_file import is_folder
from app.source import home_expanded


def folder() -> Path:
    """The cache, from HF_HUB_CACHE, its older name, HF_HOME or the client's default."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    return home_expanded(os.path.expandvars(named or f"{home}/hub"))


def may_hold(repo: str) -> bool:
    """Whether anything of a repository, by its name, has ever been put there."""
    return is_folder(folder() / f"models--{repo.replace('/', '--')}")
