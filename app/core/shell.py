"""Quote commands for the user's shell."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

_UNQUOTED_CHARACTERS = re.compile(r"[\w+=:./\\-]+", re.ASCII)
"""Characters that cmd and PowerShell leave alone; PowerShell splits at commas."""


def quoted(word: str, system: str = sys.platform) -> str:
    """Quote one word of a command for the shell of a system.

    On Windows double quotes are what both of its shells know.
    """
    if not system.startswith("win"):
        return shlex.quote(word)
    return word if _UNQUOTED_CHARACTERS.fullmatch(word) else f'"{word}"'


def command(words: Sequence[str]) -> str:
    """A whole command."""
    return " ".join(map(quoted, words))
