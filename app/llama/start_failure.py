"""Explain why the installed llama.cpp cannot be loaded, with the command that installs one for this machine."""

from __future__ import annotations

from app.core.program import ExitStatus
from app.hardware.builds import repair_hint
from app.hardware.installation import installation
from app.hardware.load_failure import LibraryError, LoadFailure, crash_failure, hang_failure, loader_failure
from app.hardware.machine import detect
from app.llama.installed import gpu_backends


def import_failure(reason: str) -> LibraryError:
    """Explain the error of the import, or another reason not to use this build."""
    return _with_fix(loader_failure(reason, gpu_backends()))


def child_failure(status: ExitStatus | None, seconds: float) -> LibraryError:
    """Explain the end of a child process that started llama.cpp; None if it did not end within its time."""
    backends = gpu_backends()
    return _with_fix(hang_failure(seconds, backends) if status is None else crash_failure(status, backends))


def _with_fix(failure: LoadFailure) -> LibraryError:
    machine = detect()
    return LibraryError(failure, repair_hint(machine, installation(machine.system), failure))
