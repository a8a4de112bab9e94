"""Try model files and devices in child processes, since they may crash or hang llama.cpp or a driver.

llama.cpp asserts on much of the content of a damaged or hostile file, and an assertion ends the process. So a child
loads unknown model files first, without their memory. Children also query drivers for devices and speed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.core import atomic, regular_file
from app.core.child import ChildError, ask
from app.core.errors import DamagedFileError, ModelLoadError
from app.hardware.devices import BuildInfo, Device
from app.llama.installed import build_identity
from app.models.model_names import parts_here
from app.settings.placement import CPU

if TYPE_CHECKING:
    from app.llama.params import PairParams

log = logging.getLogger("tandem.child")
log.addHandler(logging.NullHandler())

FORMAT = 4
_MAX_FILES = 500


def probe(ram_available: int | None = None, seconds: float = 60.0) -> tuple[BuildInfo, tuple[Device, ...]]:
    """Return `app.llama.devices.report` from a child process.

    Raises:
        ModelLoadError: llama.cpp cannot be loaded, or crashed while listing its devices.
    """
    try:
        found: tuple[BuildInfo, tuple[Device, ...]] = ask("llama.devices.report", ram_available, seconds=seconds)
    except ChildError as error:
        raise ModelLoadError(
            f"llama.cpp could not list its devices: the process that asked {error}.",
            "A graphics driver may be broken or hang; update it, or install another build of llama-cpp-python.",
        ) from error
    return found


class SafeFiles:
    """Remembers the files that were tried in a child process; a changed file, or another llama.cpp, counts as new.

    Args:
        file: Where to store them; None remembers nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def survived(self, path: Path, pair: PairParams | None = None) -> bool:
        """Return whether llama.cpp has loaded this file without aborting, alone or as draft layers of `pair`."""
        return self.found(path, pair) is True

    def found(self, path: Path, pair: PairParams | None = None) -> Any:
        """Return the result of the trial given to `add`, or None for a new file."""
        match self._read().get(_key(path, pair)):
            case [state, found] if state == _state(path, pair):
                return found
        return None

    def add(self, path: Path, pair: PairParams | None = None, found: Any = True) -> None:
        """Remember the result of a trial: True if llama.cpp survived, what was measured, or how the child ended.

        A failed write is logged and costs the next load a child.
        """
        if self._file is None:
            return
        known, key = self._read(), _key(path, pair)
        known.pop(key, None)
        known[key] = [_state(path, pair), found]
        latest = dict(list(known.items())[-_MAX_FILES:])
        try:
            atomic.write_json(self._file, {"format": FORMAT, "files": latest})
        except OSError as error:
            log.warning("the list of safe files cannot be written: %s", error)

    def _read(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        return atomic.read_json(self._file, FORMAT, lambda raw: dict(raw["files"])) or {}


def _key(path: Path, pair: PairParams | None) -> str:
    name = os.fspath(regular_file.resolved(path))
    if pair is None:
        return name
    places = [" ".join(model.devices) if model.n_gpu_layers else CPU for model in (pair.draft_model, pair.model)]
    return f"{name} on {places[0]} beside {os.fspath(regular_file.resolved(pair.target))} on {places[1]}"


def _state(path: Path, pair: PairParams | None) -> list[Any]:
    files = [file for one in dict.fromkeys((path, pair.target if pair else path)) for file in parts_here(one)]
    parts = [part.stat() for part in files if regular_file.is_file(part)]
    return [build_identity(), *([status.st_size, status.st_mtime_ns] for status in parts)]


def try_file(
    path: Path, safe: SafeFiles, go_on: Callable[[], bool] = lambda: True, *, pair: PairParams | None = None
) -> None:
    """Load a file in a child process, unless an earlier child survived it.

    If llama.cpp refuses the file with an error, the load itself will report the reason.

    Args:
        path: The file, or the first part of a split model.
        safe: Files to skip; the file is added.
        go_on: Polled while the child runs; False stops it.
        pair: The pair whose draft layers are loaded; `path` is the draft file, or the target's file for its MTP
            layers. None loads a whole model.

    Raises:
        DamagedFileError: llama.cpp crashes or hangs on the file.
        Interrupted: `go_on` returned False.
    """
    if safe.survived(path, pair):
        return
    question = ("llama.footprint.try_load", path) if pair is None else ("llama.footprint.try_head", path, pair)
    try:
        is_loaded = ask(*question, cancelled=lambda: not go_on())
    except ChildError as error:
        if error.crashed:
            raise not_survived(path, str(error)) from error
        log.warning("a trial load %s", error)
        return
    if is_loaded:
        safe.add(path, pair)


def not_survived(path: Path, ending: str) -> DamagedFileError:
    """Return the error for a file that ended the child; `ending` is the text of its `ChildError`."""
    return DamagedFileError(
        f"{path} cannot be run: the installed llama.cpp does not survive it; a trial load {ending}.",
        "The file is damaged, or of a kind that this llama.cpp does not know well; get another.",
    )
