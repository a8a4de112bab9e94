"""Run a command of the program in this process; its output as text and as a terminal."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple


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
