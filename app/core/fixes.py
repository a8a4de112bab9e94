"""Marks for settings, actions and commands in sentences.

Below the surfaces, a sentence names a setting as `⟨model.ctx⟩`, its value as `⟨model.ctx=4096⟩`, and an action as
`⟨pairs.find=owner/repo⟩`. Each surface words them as flags, keys or commands; unknown names stay.
"""

import re
import shlex
import sys
from collections.abc import Callable, Sequence

_MARK_PATTERN = re.compile(r"⟨([a-z_]+(?:\.[a-z_]+)*)(?:=([^⟨⟩]*))?⟩")
_ESCAPED_CHARACTERS = {"%": "%25", "⟨": "%3c", "⟩": "%3e", "|": "%7c"}
_UNQUOTED_CHARACTERS = re.compile(r"[\w+=:./\\-]+", re.ASCII)
"""Characters that need no quotes in cmd and PowerShell; PowerShell splits at commas."""


def fix(name: str, *arguments: object) -> str:
    """Return the mark of a setting or action, with its value or arguments."""
    escaped = ("".join(_ESCAPED_CHARACTERS.get(character, character) for character in str(one)) for one in arguments)
    return f"⟨{name}={'|'.join(escaped)}⟩" if arguments else f"⟨{name}⟩"


def worded(text: str, word: Callable[[str, list[str]], str | None]) -> str:
    """Replace the marks in a text; `word` gets a name and its arguments, and returns None if this is no mark."""

    def replaced(found: re.Match[str]) -> str:
        arguments = found[2].split("|") if found[2] is not None else []
        for character, escape in reversed(_ESCAPED_CHARACTERS.items()):
            arguments = [one.replace(escape, character) for one in arguments]
        words = word(found[1], arguments)
        return found[0] if words is None else words

    return _MARK_PATTERN.sub(replaced, text)


def quoted(word: str, system: str = sys.platform) -> str:
    """Quote a word of a command for the shell of a system.

    On Windows, both shells understand double quotes.
    """
    if not system.startswith("win"):
        return shlex.quote(word)
    return word if _UNQUOTED_CHARACTERS.fullmatch(word) else f'"{word}"'


def command(words: Sequence[str]) -> str:
    """Return a whole command line."""
    return " ".join(map(quoted, words))
