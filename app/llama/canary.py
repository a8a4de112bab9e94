"""A file that this llama.cpp has not seen yet is first loaded by a child process, all but its memory.

llama.cpp asserts on much of what a damaged or hostile header can say, and an assertion ends the process. Most such
headers are refused by `app.llama.checks` with a better sentence; this is for those that nobody knows of. Files that it
survived are remembered, so that a load costs a third of a second once and nothing later.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.core import json_file, regular_file
from app.core.child import Ending, is_crash, python_command, python_environment
from app.core.errors import DamagedFileError, Interrupted
from app.core.printable import one_line
from app.llama import library
from app.llama.params import ContextParams, ModelParams
from app.models.memory_estimate import N_SNAPSHOTS
from app.models.split_model import parts_here
from app.settings.placement import CPU

log = logging.getLogger("tandem.canary")
log.addHandler(logging.NullHandler())

FORMAT = 2
_MOST = 500
"""Files that are remembered."""
_SECONDS = 60.0
_LOOK_S = 0.05
_DIES_S = 5.0
_CONTEXT = ContextParams(n_ctx=256, n_threads=1, n_threads_batch=1, n_snapshots=N_SNAPSHOTS)


class Survivors:
    """The files that llama.cpp has survived; a file that was changed, or another llama.cpp, is a new one.

    Args:
        file: Where they are remembered; None for this process only.
    """

    _here: dict[str, Any] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __contains__(self, path: Path) -> bool:
        known = self._read() if self._file is not None else self._here
        return known.get(_name(path)) == _state(path)

    def add(self, path: Path) -> None:
        """Remember a file; a disk that refuses is logged and costs the next load a child."""
        if self._file is None:
            self._here[_name(path)] = _state(path)
            return
        known = self._read()
        known.pop(_name(path), None)
        known[_name(path)] = _state(path)
        kept = dict(list(known.items())[-_MOST:])
        try:
            json_file.write(self._file, {"format": FORMAT, "files": kept})
        except OSError as error:
            log.warning("what was survived cannot be kept: %s", error)

    def _read(self) -> dict[str, Any]:
        assert self._file is not None
        return json_file.read(self._file, FORMAT, lambda raw: dict(raw["files"])) or {}


def send_ahead(path: Path, kept: Path | None, go_on: Callable[[], bool] = lambda: True) -> None:
    """Let a child process load a file, unless one has survived it before.

    What llama.cpp refuses in an orderly way is left to the load itself, which knows the reason.

    Args:
        path: Of a split model the first part.
        kept: Where survivors are remembered; None for this process only.
        go_on: Asked all the time; False stops.

    Raises:
        DamagedFileError: llama.cpp does not survive it, or does not come to an end.
        Interrupted: `go_on` said False.
    """
    survivors = Survivors(kept)
    if path in survivors:
        return
    ending = _let_try(path, go_on)
    if ending is None:
        raise DamagedFileError(
            f"{path} cannot be run: llama.cpp does not finish looking at it.", "The file may be damaged; get another."
        )
    if ending.was_killed:
        # By the system, as where memory runs out: that says nothing about the file.
        return
    if is_crash(ending.code):
        raise DamagedFileError(
            f"{path} cannot be run: llama.cpp {library.binding_version} does not survive it; a trial process ended "
            f"{ending.how}.",
            "The file is damaged, or of a kind that this llama.cpp does not know well; get another.",
        )
    if ending.code == 0:
        survivors.add(path)


def _let_try(path: Path, go_on: Callable[[], bool]) -> Ending | None:
    """How the child ended; None if it did not. One that cannot be started says nothing about the file."""
    try:
        child = subprocess.Popen(
            python_command("-c", "from app.llama.canary import _try; _try()", os.fspath(path)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=python_environment(),
            # What ends everybody at this terminal says nothing about the file.
            start_new_session=True,
        )
    except OSError as error:
        log.warning("a child process cannot be started: %s", error)
        return Ending(1)
    end = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < end:
            try:
                _, said = child.communicate(timeout=_LOOK_S)
            except subprocess.TimeoutExpired:
                if not go_on():
                    raise Interrupted from None
                continue
            if not go_on():
                raise Interrupted
            return Ending(child.returncode, _last_line(said))
        return None
    finally:
        child.kill()
        # Not every child can be ended: one may hang in a driver.
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_DIES_S)


def _last_line(said: bytes) -> str:
    lines = [line for line in said.decode("utf-8", errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def _try() -> None:
    """The child's side of `send_ahead`."""
    from app.llama.footprint import load_nothing

    load_nothing(Path(sys.argv[1]), ModelParams(devices=(CPU,)), _CONTEXT)
    # Nothing is freed: there is nothing.
    os._exit(0)


def _name(path: Path) -> str:
    return os.fspath(regular_file.resolved(path))


def _state(path: Path) -> list[Any]:
    """What changes when a file does, or the library."""
    parts = [part.stat() for part in parts_here(path) if regular_file.is_file(part)]
    return [library.binding_version, *([status.st_size, status.st_mtime_ns] for status in parts)]
