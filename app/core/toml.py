"""TOML that somebody else may have written: read in bounds, and why it cannot be read in words instead of Python's."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_COMMENT = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'{3}.*?\'{3,5}|"(?:[^"\\]|\\.)*"|\'[^\']*\'|(?P<comment>\#)''', re.DOTALL
)
"""A text of any of the four kinds, which may hold the sign, or a comment; the long kinds may end with two quotes."""
_MOST_DOTS = 1_000
"""In one line, outside of texts. For a key of so many parts Python takes a time that grows with their cube."""


def read_toml(text: str) -> dict[str, Any]:
    """The table that a text says.

    Raises:
        ValueError: It says none, or something in it is too long.
        RecursionError: It nests too deeply.
    """
    if any(_QUOTED.sub("", line).count(".") > _MOST_DOTS for line in text.split("\n") if len(line) > _MOST_DOTS):
        raise ValueError("a key has too many parts")
    return tomllib.loads(text)


def has_comment(text: str) -> bool:
    """Whether something in a text that says a table is a comment."""
    return any(found["comment"] for found in _COMMENT.finditer(text))


def reason(error: Exception) -> str:
    """The middle of a sentence for what reading a file and `tomllib.loads` raise."""
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
    return "it is not what belongs there"
