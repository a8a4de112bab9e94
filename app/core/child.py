"""Child processes that run this program in a fresh Python, and descriptions of how they ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.printable import printable
from app.core.program import limited_run

_LONGEST = 300
_SIGKILL = 9
_FOLDERS = re.compile(r"^\S*[/\\](?=[^/\\\s]+:\d+: )")
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


def python_command(*what: str) -> tuple[str, ...]:
    """Return a command for a fresh Python: "-m" and a module of this program, or "-c" and code."""
    return (sys.executable, "-P", *what)


def python_environment() -> dict[str, str]:
    """Return an environment in which the child imports this package, whatever the working folder holds."""
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"}


def ask_python(
    code: str, seconds: float, question: bytes = b"", cancelled: Callable[[], bool] = lambda: False
) -> subprocess.CompletedProcess[bytes]:
    """Run code in a fresh Python and return its output and exit code.

    Args:
        code: Code that may import this program.
        seconds: Time limit.
        question: Standard input.
        cancelled: Polled while it runs.

    Raises:
        subprocess.TimeoutExpired: It took longer.
        Interrupted: `cancelled` returned True.
        OSError: It cannot be started.
    """
    return limited_run(python_command("-c", code), seconds, python_environment(), question, cancelled)


@dataclass(frozen=True, slots=True)
class Ending:
    """The unexpected end of a process.

    Attributes:
        code: As in `subprocess`: negative for a signal, or a status of Windows.
        last_words: Last message of the native library; "" without one.
    """

    code: int
    last_words: str = ""

    @property
    def was_killed(self) -> bool:
        """It was killed, as by a system out of memory."""
        return self.code == -_SIGKILL

    @property
    def how(self) -> str:
        """Such as "by signal ABRT", with the last message."""
        words = _FOLDERS.sub("", " ".join(printable(self.last_words).split()))[:_LONGEST].rstrip(". ")
        return f"{_how(self.code)}{f': {words}' if words else ''}"


def is_crash(code: int) -> bool:
    """Return whether an exit code means a crash or a kill."""
    return code < 0 or code in _WINDOWS_CRASHES


def _how(code: int) -> str:
    if code < 0:
        try:
            return f"by signal {signal.Signals(-code).name.removeprefix('SIG')}"
        except ValueError:
            return f"by signal {-code}"
    return f"by {_WINDOWS_CRASHES[code]}" if code in _WINDOWS_CRASHES else f"with code {code}"
