"""Models in several files: what llama.cpp calls the parts, and which of them are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from app.core.regular_file import is_file

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


class Part(NamedTuple):
    """Position of a file in a split model.

    Attributes:
        stem: What all parts have in common, with the folder if the name has one.
        number: Which part it is; the first is 1.
        n_parts: How many the name claims, up to 99,999.
    """

    stem: str
    number: int
    n_parts: int


def part_of(name: str) -> Part | None:
    """Return which part of a split model a file is, by its name; None of a whole one."""
    found = _PART.fullmatch(name)
    return Part(found["stem"], int(found["number"]), int(found["count"])) if found else None


def part_names(name: str) -> list[str]:
    """The names of all parts, by the name of one of them; of a whole model its own."""
    found = part_of(name)
    if found is None:
        return [name]
    ending = name[-len(".gguf") :]
    return [f"{found.stem}-{number:05}-of-{found.n_parts:05}{ending}" for number in range(1, found.n_parts + 1)]


def missing_part(path: Path) -> str:
    """The name of the first part that is not beside the others, by the name of any part; "" where none is missing."""
    return next((name for name in part_names(path.name) if not is_file(path.with_name(name))), "")


def parts_here(path: Path) -> list[Path]:
    """The files of a model that are there, by the name of any part; of a whole one the file, there or not."""
    if part_of(path.name) is None:
        return [path]
    return [file for file in map(path.with_name, part_names(path.name)) if is_file(file)]
