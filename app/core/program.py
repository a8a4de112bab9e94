"""Find installed programs and run them with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

_MAX_OUTPUT = 4 << 20
"""Bytes read of an answer."""
_GRACE_S = 0.5


def find_program(name: str, folders: Sequence[str] = ()) -> str | None:
    """Return the path of an installed program, or None.

    On Windows the current folder is skipped: a downloaded file there may be named like a system program.

    Args:
        name: Without a suffix.
        folders: Searched after those of PATH.
    """
    places = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *folders]
    if sys.platform != "win32":
        return shutil.which(name, path=os.pathsep.join(places))
    files = (os.path.join(place.strip('"'), f"{name}.exe") for place in places)  # noqa: PTH118 - PATH may hold anything
    return next((file for file in files if os.path.isabs(file) and os.path.isfile(file)), None)  # noqa: PTH113, PTH117


def limited_run(
    command: Sequence[str], seconds: float, environment: Mapping[str, str], question: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a program outside the terminal's foreground group and return its output.

    Files instead of pipes: a grandchild that keeps a pipe open, or a driver that hangs, cannot block the caller.

    Args:
        command: Path and arguments.
        seconds: Time limit; then the program and its children are killed.
        environment: All environment variables.
        question: Standard input.

    Raises:
        subprocess.TimeoutExpired: It did not end in time.
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        asked.write(question)
        asked.seek(0)
        child = subprocess.Popen(
            command,
            stdin=asked,
            stdout=output,
            stderr=errors,
            env=environment,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        try:
            code = child.wait(seconds)
        except BaseException:
            _kill(child)
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, output.read(_MAX_OUTPUT), errors.read(_MAX_OUTPUT))


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    if child.returncode is None:
        child.returncode = -9  # stuck in its driver; else Popen warns when it is collected
