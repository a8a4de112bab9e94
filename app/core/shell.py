"""Words as the user's shell takes them: commands that are shown are there to be copied."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

_SAFE = re.compile(r"[\w+=:./\\-]+", re.ASCII)
"""What both shells of Windows leave as it is; to PowerShell a comma parts two words, and @ begins something else."""


def quoted(word: str, system: str = sys.platform) -> str:
    """One word of a command.

    Args:
        word: Any text.
        system: Whose shell is to read it. On Windows double quotes are what both of its shells know.
    """
    if not system.startswith("win"):
        return shlex.quote(word)
    return word if _SAFE.fullmatch(word) else f'"{word}"'


def command(words: Sequence[str]) -> str:
    """A whole command."""
    return " ".join(map(quoted, words))
