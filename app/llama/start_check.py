"""Start a newly installed llama.cpp in a child process first, because a wrong build can crash or hang its process.

A CUDA build may use instructions that this CPU lacks, and a broken driver may never return. Files that survived once
are remembered, so later starts are not slower. The error for a broken build has the command that installs another.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.core import atomic
from app.core.paths import cache_dir
from app.llama.installed import files_identity, gpu_backends

if TYPE_CHECKING:
    from app.core.program import ExitStatus
    from app.hardware.builds import LibraryError, LoadFailure


log = logging.getLogger("tandem.child")

FORMAT = 1
STARTED = "TANDEM_LLAMA_STARTED"
"""Environment variable with the identity of the files that this process or its parent tested."""
_DEADLINE_S = 90.0
"""A cold disk needs seconds for a library of 1 GB, and several GPUs for their drivers."""
_MAX_REMEMBERED = 20


def check_start(cancelled: Callable[[], bool] = lambda: False) -> None:
    """Start the installed llama.cpp in a child process, unless these files already survived.

    Raises:
        LibraryError: It cannot be loaded, crashes or hangs.
        Interrupted: `cancelled` returned True.
    """
    identity = files_identity()
    if os.environ.get(STARTED) == identity:
        return
    # Child processes inherit it, including the child below.
    os.environ[STARTED] = identity
    file = cache_dir() / "llama-starts.json"
    known: list[str] = atomic.read_json(file, FORMAT, lambda raw: [str(one) for one in raw["files"]]) or []
    if identity in known:
        return
    try:
        survived = _survives(cancelled)
    except BaseException:
        del os.environ[STARTED]
        raise
    if not survived:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_json(file, {"format": FORMAT, "files": [*known, identity][-_MAX_REMEMBERED:]})
    except OSError as error:
        log.warning("that llama.cpp starts cannot be remembered: %s", error)


def _survives(cancelled: Callable[[], bool]) -> bool:
    """Return whether the child started llama.cpp; False if the result is unclear, as when the system killed it."""
    # Later starts do not need these imports.
    from app.core.child import ChildError, ask

    try:
        ask("llama.throughput.try_cpu", seconds=_DEADLINE_S, cancelled=cancelled)
    except ChildError as error:
        if error.crashed:
            raise child_failure(error.status, _DEADLINE_S) from error
        log.warning("a trial start %s", error)
        return False
    return True


def import_failure(reason: str) -> LibraryError:
    """Explain an import error, or another reason not to use this build."""
    from app.hardware.builds import loader_failure

    return _with_fix(loader_failure(reason, gpu_backends()))


def child_failure(status: ExitStatus | None, seconds: float) -> LibraryError:
    """Explain the end of a child process that started llama.cpp; None if it timed out."""
    from app.hardware.builds import start_failure

    return _with_fix(start_failure(status, seconds, gpu_backends()))


def _with_fix(failure: LoadFailure) -> LibraryError:
    # Detecting the machine is slow, so only errors do it.
    from app.hardware.builds import LibraryError, repair_hint
    from app.hardware.installation import installation
    from app.hardware.machine import detect

    machine = detect()
    return LibraryError(failure, repair_hint(machine, installation(machine.system), failure))
