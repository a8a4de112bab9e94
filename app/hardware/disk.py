"""Folders of the program: can they be written, and how much room is there?"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, which need not exist yet.

    Attributes:
        label: What it is for, in a word or two.
        path: Where it is.
        writable: Whether it can be written, or made.
        free_bytes: Room on its disk; None if the system does not say.
    """

    label: str
    path: Path
    writable: bool
    free_bytes: int | None


def place(label: str, path: Path) -> Place:
    """Look at a folder, or at the nearest one above it that exists."""
    there = path
    # Path.exists raises where a folder above may not be entered.
    while not os.path.exists(there) and there != there.parent:  # noqa: PTH110
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = None
    return Place(label, path, there.is_dir() and os.access(there, os.W_OK | os.X_OK), free)
