"""Downloads in `tandem doctor`: where they come from, and files that no pair needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from app.cli.known_pairs import registry
from app.core.errors import CatalogError, HubError
from app.core.regular_file import resolved
from app.core.units import gigabytes
from app.hardware.checks import Line, Section
from app.models.hub.cache import is_downloading, is_resumable, unfinished
from app.models.hub.environment import check_environment, hub_address, named_by, offline_by

_SHOWN = 5
_GO_ON = (
    "Setting up the same pair resumes it. Otherwise delete it, by its pair or by hand:",
    "  tandem pairs remove NAME",
)


def hub_section() -> Section:
    """Check downloads without network access."""
    return Section("downloads", (_way(), *_unfinished(), *_unused()))


def _way() -> Line:
    try:
        check_environment()
    except HubError as error:
        return Line("warning", "hub", error.message, hint=(error.hint,))
    if offline := offline_by():
        return Line("warning", "hub", f"{offline} disables downloads", hint=("Unset it to download a pair.",))
    named = named_by()
    return Line("untried", "hub", hub_address() + (f", by {named}" if named else ""))


def _unfinished() -> list[Line]:
    left = _stopped(unfinished())
    ours = {path: size for path, size in left.items() if is_resumable(path)}
    return _lines(ours, *_GO_ON) + _lines(
        {path: size for path, size in left.items() if path not in ours}, "It cannot be resumed. Delete it:"
    )


def _unused() -> list[Line]:
    try:
        left = registry().read().unused
    except CatalogError:
        # That is told beside the other files.
        return []
    if not left:
        return []
    # Two names may lead to one content.
    n_bytes = sum({resolved(path): size for path, size in left.items()}.values())
    hint = ("Delete unused files:", "  tandem pairs remove --unused", *_paths(left))
    return [Line("warning", "unused", f"{gigabytes(n_bytes)} downloaded, used by no pair", hint=hint)]


def _stopped(begun: dict[Path, int]) -> dict[Path, int]:
    """Leave out files that are being downloaded now."""
    left = {}
    for path, size in begun.items():
        with suppress(OSError):
            if is_downloading(path):
                continue
        left[path] = size
    return left


def _lines(left: dict[Path, int], *what_to_do: str) -> list[Line]:
    if not left:
        return []
    files = f"{len(left)} files" if len(left) > 1 else "a file"
    hint = (*what_to_do, *_paths(left))
    return [Line("warning", "begun", f"{gigabytes(sum(left.values()))} of {files} not complete", hint=hint)]


def _paths(left: Iterable[Path]) -> Iterator[str]:
    return (f"  {path}" for path in islice(left, _SHOWN))
