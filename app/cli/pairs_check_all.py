"""`tandem pairs check --all`: which files of the catalog are gone from Hugging Face, changed or newer."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import Any

from app.cli.output import ProgressLine, for_reading, json_for
from app.cli.streams import cancel_on_interrupt
from app.core.printable import printable
from app.models.pinned_files import NEWER, RENAMED, STATES, UNCHANGED, FileCheck, check_files, sources_of
from app.models.source import DEFAULT_REVISION
from app.worker.known_pairs import catalog

_STATE_COLUMNS = 10
"""Columns of a state."""


def check_all(*, as_json: bool) -> int:
    """Print what differs; exit 1 if a file is gone or changed, or could not be asked for."""
    known, stop, status = catalog(), threading.Event(), ProgressLine(sys.stderr)
    if known.unread is not None:
        raise known.unread
    sources = sources_of(known.pairs.values())
    found: list[FileCheck] = []
    with cancel_on_interrupt(stop.set):
        status.show(f"Asking Hugging Face for {len(sources)} files")
        for one in check_files(sources, stop):
            found.append(one)
            status.show(f"Asking Hugging Face: {len(found)} of {len(sources)} files")
    status.clear()
    found.sort(key=lambda one: (STATES.index(one.state), one.pairs, str(one.source)))
    if as_json:
        print(json_for(sys.stdout, [_as_json(one) for one in found]))
    else:
        print(for_reading("\n".join(_lines(found)), sys.stdout, _STATE_COLUMNS))
    return 0 if all(one.state in (UNCHANGED, NEWER, RENAMED) for one in found) else 1


def _lines(found: list[FileCheck]) -> list[str]:
    different = [one for one in found if one.state != UNCHANGED]
    lines = []
    for one in different:
        # A commit would take half of a line.
        model = replace(one.source, revision=DEFAULT_REVISION)
        lines.append(f"{one.state:{_STATE_COLUMNS}}{', '.join(one.pairs)}: {model}: {one.detail}")
    counts = [(sum(one.state == state for one in found), state) for state in reversed(STATES)]
    summary = ", ".join(f"{n} {state}" for n, state in counts if n) or "none"
    n_hashes = sum(one.source.sha256 is not None for one in found)
    lines.append(f"{len(found)} files: {summary}; {n_hashes} with a checksum in the catalog, the others by size.")
    return list(map(printable, lines))


def _as_json(one: FileCheck) -> dict[str, Any]:
    return {"pairs": list(one.pairs), "model": str(one.source), "state": one.state, "detail": one.detail}
