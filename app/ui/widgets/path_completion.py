"""Completion of file paths. Reads folders; call it on a worker thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from mimetypes import guess_type
from pathlib import Path

from app.core.included import PICTURE_SUFFIXES
from app.core.printable import printable
from app.core.regular_file import home_expanded

MOST = 50
_UNPRINTABLE_SPACES = re.compile("[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}]")
"""Spaces in file names that Python considers unprintable."""
_BINARY_TYPES = ("audio/", "font/", "image/", "video/")
"""Types that are not offered, except readable pictures."""


def matching_paths(typed: str, base: Path, ending: str = "") -> tuple[str, ...]:
    """Return paths of files and folders in the typed form; folders end with a slash.

    Names that begin as typed come before those that contain it. Hidden names need their dot.

    Relative paths start from `base`. Files have the lower-case `ending`; "" offers all readable files.
    """
    if typed == "~":
        return ("~/",)
    head, slash, tail = _slashed(typed).rpartition("/")
    folder, prefix = base / home_expanded(head + slash or "."), tail.casefold()
    entries = [entry for entry in _entries(folder) if prefix in entry.name.casefold()]
    entries = [entry for entry in entries if tail.startswith(".") or not entry.name.startswith(".")]
    entries.sort(key=lambda e: (not e.name.casefold().startswith(prefix), not e.is_dir(), e.name.casefold()))
    names = (e.name + "/" * e.is_dir() for e in entries if e.is_dir() or _is_offered(e, ending))
    return tuple(head + slash + name for name in islice(names, MOST))


def continued_path(typed: str, base: Path, ending: str = "") -> str | None:
    """Return the first path that begins as typed, if any."""
    first = next(iter(matching_paths(typed, base, ending)), "")
    return first if len(first) > len(typed) and first.casefold().startswith(_slashed(typed).casefold()) else None


def _is_offered(entry: os.DirEntry[str], ending: str) -> bool:
    return entry.name.lower().endswith(ending) if ending else is_readable(entry)


def is_readable(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a file that may be text or a picture, by its name."""
    is_binary = (guess_type(entry.name)[0] or "").startswith(_BINARY_TYPES)
    return entry.is_file() and (entry.name.lower().endswith(PICTURE_SUFFIXES) or not is_binary)


def can_be_typed(name: str) -> bool:
    """Return whether a prompt can hold all characters of a name."""
    return _UNPRINTABLE_SPACES.sub(" ", name).isprintable() and printable(name) == name


def _slashed(path: str) -> str:
    return path.replace("\\", "/") if os.sep == "\\" else path


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder, except names that cannot be typed; nothing if it is unreadable."""
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in entries:
            if can_be_typed(entry.name):
                yield entry
