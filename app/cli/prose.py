"""What is read on a terminal: lines that are too long for it are broken between words, not where they meet its edge."""

from __future__ import annotations

import os
import re
import textwrap
from contextlib import suppress
from typing import TextIO

HANG = len("tandem: ")
"""Columns of what begins a message, and of what stands below it."""
_USUAL = 80
"""Columns of a terminal that does not tell."""
_FEWEST = 20
"""Columns of text at least, however far it is indented."""
_BOUND = "\N{NO-BREAK SPACE}"
_COMMAND = re.compile(
    r"(?:^ *|(?<=: ))(?![^\"']*\. [A-Z])(?:[A-Z_]+=\S.*|(?:\S*(?:tandem|pip|python3?|uv|cmake|export)(?:\.exe)?) .*)$"
)
"""A line, or its end, that somebody may copy and run."""


def for_reading(text: str, stream: TextIO, hang: int = 0) -> str:
    """A text as a stream gets it: a terminal in lines that fit, anything else as it is, for it may be searched.

    Args:
        text: One line or several.
        stream: Where it goes.
        hang: Columns that what goes on below is indented by, besides what its line is.
    """
    columns = columns_of(stream)
    if columns is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in broken(line, columns, hang + _indent(line)))


def columns_of(stream: TextIO) -> int | None:
    """How wide a stream's terminal is; None if it is none."""
    return width_of(stream) if stream.isatty() else None


def width_of(terminal: TextIO) -> int:
    """Columns of the terminal that a stream goes to, which need not be that of standard output; as COLUMNS has it."""
    with suppress(KeyError, ValueError):
        if (wanted := int(os.environ["COLUMNS"])) > 0:
            return wanted
    with suppress(OSError, ValueError):
        return os.get_terminal_size(terminal.fileno()).columns or _USUAL
    return _USUAL


def broken(line: str, columns: int, hang: int) -> list[str]:
    """A line as one or more of at most so many columns, but for words and commands that are longer.

    Args:
        line: Without an end.
        columns: Of the terminal.
        hang: Columns in front of all lines but the first.
    """
    if len(line) <= columns or " " not in line[hang:].strip():
        return [line]
    bound = _COMMAND.sub(lambda found: found[0].replace(" ", _BOUND), line)
    parts = textwrap.wrap(
        bound,
        max(_FEWEST + hang, columns),
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_BOUND, " ") for part in parts]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
