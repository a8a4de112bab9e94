"""Find installed programs and run them with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from app.core.errors import Interrupted

_MAX_OUTPUT = 4 << 20
"""Bytes read of an answer."""
_GRACE_S = 0.5
_POLL_S = 0.05


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
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
    question: bytes = b"",
    cancelled: Callable[[], bool] = lambda: False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program outside the terminal's foreground group and return its output.

    Files instead of pipes: a grandchild that keeps a pipe open, or a driver that hangs, cannot block the caller.

    Args:
        command: Path and arguments.
        seconds: Time limit; then the program and its children are killed.
        environment: All environment variables.
        question: Standard input.
        cancelled: Polled while the program runs.

    Raises:
        subprocess.TimeoutExpired: It did not end in time.
        Interrupted: `cancelled` returned True.
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
            code = _wait(child, seconds, cancelled)
        except BaseException:
            _kill(child)
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, output.read(_MAX_OUTPUT), errors.read(_MAX_OUTPUT))


def _wait(child: subprocess.Popen[bytes], seconds: float, cancelled: Callable[[], bool]) -> int:
    end = time.monotonic() + seconds
    code: int | None = None
    while code is None:
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(_POLL_S)
        if cancelled():
            raise Interrupted
        if code is None and time.monotonic() >= end:
            raise subprocess.TimeoutExpired(child.args, seconds)
    return code


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
