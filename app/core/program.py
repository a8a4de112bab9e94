"""Run programs with a time limit, this one in a new process, or daemon threads; describe how a process ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from app.core.errors import Interrupted
from app.core.printable import printable

_T = TypeVar("_T")
_MAX_OUTPUT = 4 << 20
"""Bytes read of an answer."""
_GRACE_S = 0.5
_POLL_S = 0.05
_LONGEST_MESSAGE = 300
_BUILD_FOLDER = re.compile(r"^\S*[/\\](?=[^/\\\s]+:\d+: )")
"""Folder in which the library was built, in front of a source file."""
_WINDOWS_CRASHES = {
    0xC0000005: "a memory access violation",
    0xC000001D: "an instruction that this processor does not have",
    0xC0000094: "a division by zero",
    0xC00000FD: "a stack overflow",
    0xC0000374: "damaged memory",
    0xC0000409: "an abort",
    3: "an abort",
}


def find_program(name: str, folders: Sequence[str] = ()) -> str | None:
    """Return the path of an installed program, or None.

    Folders are searched after those of PATH. On Windows the current folder is skipped: a downloaded file there may be
    named like a system program.
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
    `question` is its standard input. It and its children are killed with TimeoutExpired if it does not end in time, and
    with Interrupted once `cancelled` returns True. Raises OSError if it cannot be started.
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
            _wait(child, seconds, cancelled)
        except BaseException:
            _kill(child)
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(
            command, child.returncode, output.read(_MAX_OUTPUT), errors.read(_MAX_OUTPUT)
        )


def _wait(child: subprocess.Popen[bytes], seconds: float, cancelled: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while child.poll() is None:
        if cancelled():
            raise Interrupted
        if time.monotonic() >= end:
            raise subprocess.TimeoutExpired(child.args, seconds)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)


def in_background(work: Callable[[], _T], name: str) -> Future[_T]:
    """Run a function on a daemon thread, which does not keep the program from ending while a disk hangs."""
    future: Future[_T] = Future()
    # A running future cannot be canceled, so its result can always be set.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def python_command(*what: str) -> tuple[str, ...]:
    """Return a command for a fresh Python: "-m" and a module of this program, or "-c" and code."""
    return (sys.executable, "-P", *what)


def python_environment() -> dict[str, str]:
    """Return an environment in which the child imports this package, whatever the working folder holds."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The unexpected end of a process: its code, and the last message of the native library; "" without one.

    As in `subprocess`, the code is negative for a signal; on Windows it may be a status.
    """

    code: int
    message: str = ""

    @property
    def was_killed(self) -> bool:
        """It was killed, as by a system out of memory."""
        return self.code == -9

    @property
    def is_crash(self) -> bool:
        """It crashed or was killed."""
        return self.code < 0 or self.code in _WINDOWS_CRASHES

    @property
    def is_illegal_instruction(self) -> bool:
        """The CPU does not have an instruction of the program."""
        return self.code in (-4, 0xC000001D)

    @property
    def how(self) -> str:
        """How the process ended, for example "by signal ABRT", with its last message."""
        message = _BUILD_FOLDER.sub("", " ".join(printable(self.message).split()))[:_LONGEST_MESSAGE].rstrip(". ")
        return f"{self._cause}{f': {message}' if message else ''}"

    @property
    def _cause(self) -> str:
        if self.code in _WINDOWS_CRASHES:
            return f"by {_WINDOWS_CRASHES[self.code]}"
        if self.code >= 0:
            return f"with code {self.code}"
        try:
            return f"by signal {signal.Signals(-self.code).name.removeprefix('SIG')}"
        except ValueError:
            return f"by signal {-self.code}"
