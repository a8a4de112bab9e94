"""Find files below the working folder by a part of their path, respecting .gitignore."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

from app.core.regular_file import home_expanded
from app.ui.widgets.path_completion import can_be_typed, is_readable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_FILES = 20_000
"""Number of files in the index of a folder; a home folder has millions."""
MAX_SHOWN = 50

_Rules: TypeAlias = "Sequence[tuple[Path, GitIgnoreSpec]]"
"""The .gitignore files that apply in a folder, each with its own folder, outermost first."""


def index_files(base: Path) -> tuple[str, ...]:
    """Return the relative paths of the text files below a folder, with slashes, nearest folders first.

    Hidden names, files excluded by .gitignore and linked folders are left out. Call it on a worker thread.
    """
    base = base.absolute()
    rules: _Rules = ()
    for folder in _from(_repository(base) or base, base)[:-1]:
        rules = _with_rules_of(folder, rules)
    return tuple(islice(_walk(base, rules), MAX_FILES))


def not_ignored(paths: Sequence[str], base: Path) -> list[str]:
    """Return the paths in a folder that .gitignore does not exclude, by the rules of `index_files`.

    Relative paths start from `base`; paths of folders end with a slash.
    """
    if not paths:
        return []
    base = base.absolute()
    folder = Path(os.path.normpath(base / home_expanded(paths[0]))).parent
    top = _repository(folder) or (base if folder.is_relative_to(base) else folder)
    rules: _Rules = ()
    for each in _from(top, folder):
        if not base.is_relative_to(each) and _is_ignored(each, True, rules):
            return []
        rules = _with_rules_of(each, rules)
    return [path for path in paths if not _is_ignored(folder / PurePath(path).name, path.endswith("/"), rules)]


def _repository(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def _from(top: Path, folder: Path) -> list[Path]:
    """Return the folders from one folder to another below it."""
    return [each for each in (*reversed(folder.parents), folder) if each.is_relative_to(top)]


def search_files(typed: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that contain the typed text, or its characters in order, best first."""
    wanted = typed.casefold().replace("\\", "/")
    in_order = re.compile(".*?".join(map(re.escape, wanted)))
    ranked = ((_rank(wanted, in_order, path.casefold()), len(path), path) for path in paths)
    found = sorted((rank, length, path) for rank, length, path in ranked if rank is not None)
    return tuple(path for _, _, path in found[:MAX_SHOWN])


def _rank(wanted: str, in_order: re.Pattern[str], path: str) -> int | None:
    if not in_order.search(path):
        return None
    name = path.rpartition("/")[2]
    matches = name.startswith(wanted), wanted in name, wanted in path, bool(in_order.search(name)), True
    return matches.index(True)


def _walk(base: Path, rules: _Rules) -> Iterator[str]:
    """Yield files breadth first, so that a limit cuts the deepest files."""
    folders = [(base, rules)]
    for folder, outer in folders:
        inner = _with_rules_of(folder, outer)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name.casefold()):
                path = folder / entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.name.startswith(".") or not can_be_typed(entry.name) or _is_ignored(path, is_folder, inner):
                    continue
                if is_folder:
                    folders.append((path, inner))
                elif is_readable(entry):
                    yield path.relative_to(base).as_posix()


def _with_rules_of(folder: Path, rules: _Rules) -> _Rules:
    with suppress(OSError, ValueError):
        lines = (folder / ".gitignore").read_text(encoding="utf-8").splitlines()
        # The first frame does not need this import.
        from pathspec import GitIgnoreSpec

        return (*rules, (folder, GitIgnoreSpec.from_lines(lines)))
    return rules


def _is_ignored(path: Path, is_folder: bool, rules: _Rules) -> bool:
    for folder, spec in reversed(rules):
        relative = PurePosixPath(path.relative_to(folder).as_posix())
        found = spec.check_file(f"{relative}/" if is_folder else relative).include
        if found is not None:
            return found
    return False
