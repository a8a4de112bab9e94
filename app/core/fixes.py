"""Settings and actions in sentences, which each surface words for its reader: as flags, keys or commands.

Below the surfaces, a sentence names a setting as `⟨model.ctx⟩`, a value of it as `⟨model.ctx=4096⟩`, and an action as
`⟨pairs.find=owner/repo⟩`. Unknown names stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MARK = re.compile(r"⟨([a-z_]+(?:\.[a-z_]+)*)(?:=([^⟨⟩]*))?⟩")
_ESCAPES = {"%": "%25", "⟨": "%3c", "⟩": "%3e", "|": "%7c"}


def fix(name: str, *arguments: object) -> str:
    """Return the mark of a setting or an action, with any text as its value or its arguments."""
    escaped = ("".join(_ESCAPES.get(character, character) for character in str(one)) for one in arguments)
    return f"⟨{name}={'|'.join(escaped)}⟩" if arguments else f"⟨{name}⟩"


def worded(text: str, word: Callable[[str, list[str]], str | None]) -> str:
    """Replace the marks of a text; `word` gets a name and its arguments, and returns None for what is no mark."""

    def replaced(found: re.Match[str]) -> str:
        arguments = found[2].split("|") if found[2] is not None else []
        for character, escape in reversed(_ESCAPES.items()):
            arguments = [one.replace(escape, character) for one in arguments]
        words = word(found[1], arguments)
        return found[0] if words is None else words

    return _MARK.sub(replaced, text)
