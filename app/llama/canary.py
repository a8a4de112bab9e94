"""Load unknown model files in a child process first, without their memory.

llama.cpp asserts on much of what a damaged or hostile header can say, and an assertion ends the process. The most
frequent cases are refused by `app.llama.checks` with a better message. Files that llama.cpp survived are remembered, so
the third of a second is spent once.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core import json_file, regular_file
from app.core.child import Ending, ask_python, is_crash
from app.core.errors import DamagedFileError
from app.core.printable import one_line
from app.llama import library
from app.llama.params import ContextParams, ModelParams
from app.models.memory_estimate import N_SNAPSHOTS
from app.models.split_model import parts_here
from app.settings.placement import CPU

log = logging.getLogger("tandem.canary")
log.addHandler(logging.NullHandler())

FORMAT = 2
_MAX_FILES = 500
_SECONDS = 60.0
_CONTEXT = ContextParams(n_ctx=256, n_threads=1, n_threads_batch=1, n_snapshots=N_SNAPSHOTS)


class Survivors:
    """Remember the files that llama.cpp survived; a changed file, or another llama.cpp, counts as new.

    Args:
        file: Where they are stored; None for this process only.
    """

    _here: dict[str, Any] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __contains__(self, path: Path) -> bool:
        known = self._read() if self._file is not None else self._here
        return known.get(_name(path)) == _state(path)

    def add(self, path: Path) -> None:
        """Remember a file; a failed write is logged and costs the next load a child."""
        if self._file is None:
            self._here[_name(path)] = _state(path)
            return
        known = self._read()
        known.pop(_name(path), None)
        known[_name(path)] = _state(path)
        kept = dict(list(known.items())[-_MAX_FILES:])
        try:
            json_file.write(self._file, {"format": FORMAT, "files": kept})
        except OSError as error:
            log.warning("the list of tested files cannot be written: %s", error)

    def _read(self) -> dict[str, Any]:
        assert self._file is not None
        return json_file.read(self._file, FORMAT, lambda raw: dict(raw["files"])) or {}


def send_ahead(path: Path, kept: Path | None, go_on: Callable[[], bool] = lambda: True) -> None:
    """Load a file in a child process, unless an earlier one survived it.

    A file that llama.cpp refuses with an error is left to the load itself, which knows the reason.

    Args:
        path: Of a split model the first part.
        kept: Where survivors are stored; None for this process only.
        go_on: Polled while the child runs; False stops.

    Raises:
        DamagedFileError: llama.cpp does not survive it, or does not come to an end.
        Interrupted: `go_on` said False.
    """
    survivors = Survivors(kept)
    if path in survivors:
        return
    code = "from app.llama.canary import load_in_child; load_in_child()"
    try:
        done = ask_python(code, _SECONDS, os.fsencode(path), lambda: not go_on())
    except subprocess.TimeoutExpired:
        raise DamagedFileError(
            f"{path} cannot be run: llama.cpp does not finish looking at it.", "The file may be damaged; get another."
        ) from None
    except OSError as error:
        log.warning("a child process cannot be started: %s", error)
        return
    ending = Ending(done.returncode, _last_line(done.stderr))
    # The system kills where memory runs out; that says nothing about the file.
    if is_crash(ending.code) and not ending.was_killed:
        raise DamagedFileError(
            f"{path} cannot be run: llama.cpp {library.binding_version} does not survive it; a trial process ended "
            f"{ending.how}.",
            "The file is damaged, or of a kind that this llama.cpp does not know well; get another.",
        )
    if ending.code == 0:
        survivors.add(path)


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def load_in_child() -> None:
    """Load the file named on standard input without its memory: the child's side of `send_ahead`."""
    from app.llama.footprint import load_nothing

    load_nothing(Path(os.fsdecode(sys.stdin.buffer.read())), ModelParams(devices=(CPU,)), _CONTEXT)
    # Nothing is freed: there is nothing.
    os._exit(0)


def _name(path: Path) -> str:
    return os.fspath(regular_file.resolved(path))


def _state(path: Path) -> list[Any]:
    parts = [part.stat() for part in parts_here(path) if regular_file.is_file(part)]
    return [library.binding_version, *([status.st_size, status.st_mtime_ns] for status in parts)]
