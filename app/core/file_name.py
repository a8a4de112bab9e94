"""Which names a file can have on this system."""

from __future__ import annotations

import re
import sys

_NOT_ON_WINDOWS = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"
    r'|.*[<>:"|?*\x00-\x1f].*'
    r"|.*[. ]",
    re.IGNORECASE | re.DOTALL,
)
"""Names of devices; characters that a name cannot have there, or loses at its end. A colon names no file of its own but
a stream of another one, which no folder shows."""


def is_possible(name: str) -> bool:
    """Whether a file of this name, without its folder, can be here."""
    return not (sys.platform == "win32" and _NOT_ON_WINDOWS.fullmatch(name))


def refusal(name: str) -> str:
    """Why there can be none, as the end of a sentence; empty if there can."""
    return "" if is_possible(name) else "Windows has no files of that name"
