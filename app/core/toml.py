"""Read TOML that the user wrote, in bounds, and say why it cannot be read."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_MOST_DOTS = 1_000
"""In one line, outside of strings. Parsing a dotted key takes time cubic in its parts."""


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: It is not valid, or something in it is too long.
        RecursionError: It nests too deeply.
    """
    if any(_QUOTED.sub("", line).count(".") > _MOST_DOTS for line in text.split("\n") if len(line) > _MOST_DOTS):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)


def reason(error: Exception) -> str:
    """Return why reading a file or parsing it failed, as part of a sentence."""
    match error:
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return "it is not UTF-8 text"
        case tomllib.TOMLDecodeError():
            return str(error)
        case RecursionError() | ValueError():
            # Python reads neither a table in a table a thousand deep nor a number of 4,300 digits.
            return "something in it is too long"
    return str(error)
