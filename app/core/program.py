"""Run programs with a time limit, this program in a new process, and daemon threads; describe how a process ended."""

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
"""Limit for a program's output in bytes."""
_GRACE_S = 0.5
_POLL_S = 0.05
_LONGEST_MESSAGE = 300
_BUILD_FOLDER = re.compile(r"^\S*[/\\](?=[^/\\\s]+:\d+: )")
"""The build folder before the name of a source file."""
_LOG_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d [\d:,]+ [\w.]+: ")
_NOT_A_REASON = re.compile(
    r"\s*(terminate called|Aborted|Segmentation fault|#\d+|\[New LWP|Fatal Python error|$"
    # llama.cpp writes these when the user stops an answer.
    r"|graph_compute: .* failed with error 1$|process_ubatch: .* status: 1$"
    r"|decode: removing |llama_decode: .* ret = 2$)"
)
_MEMORY_SHORTAGE = re.compile(r"(?i)(out of|insufficient) (\w+ )?memory|OutOf(Device|Host)Memory|bad_alloc|to allocate")
_CPP_EXCEPTION = re.compile(r"^\s*what\(\): *")
_SOURCE_LINE = re.compile(r":\d+: ")
_LAST_LINES = 12
"""Earlier lines may describe a failure that did not end the process."""
_LESS_MEMORY = "use a shorter context (⟨model.ctx⟩), no draft (⟨draft.mode=off⟩) or a smaller pair."
_CRASH_SIGNALS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
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
    """Return the path of an installed program, if any.

    Folders are searched after PATH. On Windows the current folder is skipped: a downloaded file there may have the name
    of a system program.
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
    most_bytes: int = _MAX_OUTPUT,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program outside the terminal's foreground group and return its output.

    Files instead of pipes: a grandchild that keeps a pipe open, or a driver that hangs, cannot block the caller.
    `question` is its standard input; `most_bytes` limits the output. It and its children are killed after the time
    limit (TimeoutExpired), or when `cancelled` returns True (Interrupted). Raises OSError if it cannot be started.
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
        return subprocess.CompletedProcess(command, child.returncode, output.read(most_bytes), errors.read(_MAX_OUTPUT))


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
    """Run a function on a daemon thread, which does not keep the program alive while a disk hangs."""
    future: Future[_T] = Future()
    # A running future cannot be canceled, so setting its result cannot fail.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def python_command(*what: str) -> tuple[str, ...]:
    """Return a command for a new Python: "-m" and a module of this program, or "-c" and code."""
    return (sys.executable, "-P", *what)


def python_environment() -> dict[str, str]:
    """Return an environment in which the child imports this package from any working folder."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The unexpected end of a process: its exit code and its last output on stderr.

    As in `subprocess`, the code is negative for a signal; on Windows it may be a status.
    """

    code: int
    output: str = ""

    @property
    def was_killed(self) -> bool:
        """Return whether the process was killed, for example to free memory."""
        return self.code == -9

    @property
    def is_crash(self) -> bool:
        """Return whether it crashed or was killed."""
        return self.code in _WINDOWS_CRASHES or (self.code < 0 and self._signal in _CRASH_SIGNALS)

    @property
    def is_illegal_instruction(self) -> bool:
        """Return whether the CPU lacks an instruction of the program."""
        return self.code in (-4, 0xC000001D)

    @property
    def how(self) -> str:
        """Describe how it ended, as a clause after its name: "crashed: CUDA error: out of memory"."""
        if self.was_killed:
            return "was killed by the system"
        reason = crash_reason(self.output)
        if self.is_crash:
            return f"crashed: {reason}" if reason else f"crashed ({_WINDOWS_CRASHES.get(self.code) or self._signal})"
        end = f"ended with code {self.code}" if self.code >= 0 else f"was ended by {self._signal}"
        return f"{end}: {reason}" if reason else end

    @property
    def fix(self) -> str:
        """Return how to avoid the crash of a process that ran a pair."""
        if self.was_killed:
            return f"The system does that when memory runs out; {_LESS_MEMORY}"
        if _MEMORY_SHORTAGE.search(crash_reason(self.output) or ""):
            return f"Memory ran out; {_LESS_MEMORY}"
        return (
            "If it happens again, use no draft (⟨draft.mode=off⟩), another pair, or the CPU alone (⟨model.device=cpu⟩)."
        )

    @property
    def _signal(self) -> str:
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


def crash_reason(output: str) -> str | None:
    """Return why a native library crashed, from its last output, if it says so.

    The reason is seldom on the last line: drivers and C++ write more lines after it.
    """
    lines = [_LOG_PREFIX.sub("", line) for line in printable(output).splitlines()]
    told = [line.strip() for line in lines if line.strip() and not _NOT_A_REASON.match(line)][-_LAST_LINES:]
    for pattern in (_MEMORY_SHORTAGE, _CPP_EXCEPTION, _SOURCE_LINE):
        if found := [line for line in told if pattern.search(line)]:
            told = found
            break
    reason = _CPP_EXCEPTION.sub("", _BUILD_FOLDER.sub("", told[-1])) if told else ""
    return reason[:_LONGEST_MESSAGE].rstrip(". ") or None
