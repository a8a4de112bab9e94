"""Run a command of the program, in this process or in its own; its output as text and as a terminal."""

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from app.core.program import python_command, python_environment
from tests.hanging import HANGS_S


class Said(NamedTuple):
    """The output of a command."""

    out: str
    err: str

    @property
    def sentences(self) -> str:
        """Standard error as one line, because it is wrapped for the terminal."""
        return " ".join(self.err.split())

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


class Screen(io.StringIO):
    """A terminal as an output stream."""

    def isatty(self) -> bool:
        return True


Tandem = Callable[..., Said]
"""Runs a command, checks its exit code (`code`, 0 by default), and returns its output."""


def run_process(*words: str | Path, code: int = 0, stdin: str | None = None, **variables: str) -> Said:
    """Run a command in a process of its own with more environment variables, and check its exit code."""
    return run_python("-m", "app", *words, code=code, stdin=stdin, **variables)


def run_python(*words: str | Path, code: int = 0, stdin: str | None = None, **variables: str) -> Said:
    """Run Python as `run_process` runs a command."""
    done = subprocess.run(
        python_command(*map(str, words)),
        env={**python_environment(), **variables},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return Said(done.stdout, done.stderr)
