"""Models split into several files: names of the parts, and which are present."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from app.core.regular_file import is_file

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


class Part(NamedTuple):
    """Position of a file in a split model.

    Attributes:
        stem: Common beginning of the names, with the folder.
        number: Number of the part, from 1.
        n_parts: Number of parts, up to 99,999.
    """

    stem: str
    number: int
    n_parts: int


def part_of(name: str) -> Part | None:
    """Return the position of a file by its name; None for a whole model."""
    found = _PART.fullmatch(name)
    return Part(found["stem"], int(found["number"]), int(found["count"])) if found else None


def part_names(name: str) -> list[str]:
    """Return the names of all parts by the name of one; a whole model is its only part."""
    found = part_of(name)
    if found is None:
        return [name]
    ending = name[-len(".gguf") :]
    return [f"{found.stem}-{number:05}-of-{found.n_parts:05}{ending}" for number in range(1, found.n_parts + 1)]


def missing_part(path: Path) -> str:
    """Return the name of the first missing part; "" without one."""
    return next((name for name in part_names(path.name) if not is_file(path.with_name(name))), "")


def parts_here(path: Path) -> list[Path]:
    """Return the present parts of a model by any part; of a whole model its path."""
    if part_of(path.name) is None:
        return [path]
    return [file for file in map(path.with_name, part_names(path.name)) if is_file(file)]
