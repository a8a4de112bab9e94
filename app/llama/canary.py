"""Load unknown model files in a child process first, without their memory.

llama.cpp asserts on much of what a damaged or hostile header can say, and an assertion ends the process. The most
frequent cases are refused by `app.llama.checks` with a better message. Files that llama.cpp survived are remembered, so
the third of a second is spent once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core import json_file, regular_file
from app.core.errors import DamagedFileError
from app.llama import library
from app.llama.child import ChildError, ask
from app.models.split_model import parts_here

log = logging.getLogger("tandem.canary")
log.addHandler(logging.NullHandler())

FORMAT = 2
_MAX_FILES = 500


class Survivors:
    """Remember the files that llama.cpp survived; a changed file, or another llama.cpp, counts as new.

    Args:
        file: Where they are stored; None remembers nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __contains__(self, path: Path) -> bool:
        return self._read().get(_name(path)) == _state(path)

    def add(self, path: Path) -> None:
        """Remember a file; a failed write is logged and costs the next load a child."""
        if self._file is None:
            return
        known = self._read()
        known.pop(_name(path), None)
        known[_name(path)] = _state(path)
        latest = dict(list(known.items())[-_MAX_FILES:])
        try:
            json_file.write(self._file, {"format": FORMAT, "files": latest})
        except OSError as error:
            log.warning("the list of tested files cannot be written: %s", error)

    def _read(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        return json_file.read(self._file, FORMAT, lambda raw: dict(raw["files"])) or {}


def send_ahead(path: Path, kept: Path | None, go_on: Callable[[], bool] = lambda: True) -> None:
    """Load a file in a child process, unless an earlier one survived it.

    A file that llama.cpp refuses with an error is left to the load itself, which knows the reason.

    Args:
        path: Of a split model the first part.
        kept: Where survivors are stored, if anywhere.
        go_on: Polled while the child runs; False stops.

    Raises:
        DamagedFileError: llama.cpp does not survive it, or does not come to an end.
        Interrupted: `go_on` said False.
    """
    survivors = Survivors(kept)
    if path in survivors:
        return
    try:
        is_loaded = ask("footprint.try_load", os.fspath(path), cancelled=lambda: not go_on())
    except ChildError as error:
        if error.crashed:
            raise DamagedFileError(
                f"{path} cannot be run: llama.cpp {library.binding_version} does not survive it; a trial load {error}.",
                "The file is damaged, or of a kind that this llama.cpp does not know well; get another.",
            ) from error
        log.warning("a trial load %s", error)
        return
    if is_loaded:
        survivors.add(path)


def _name(path: Path) -> str:
    return os.fspath(regular_file.resolved(path))


def _state(path: Path) -> list[Any]:
    parts = [part.stat() for part in parts_here(path) if regular_file.is_file(part)]
    return [library.binding_version, *([status.st_size, status.st_mtime_ns] for status in parts)]
