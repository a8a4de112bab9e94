"""The sections of `tandem doctor` as lines of text, in two columns where the terminal is wide enough."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from app.core.printable import printable

if TYPE_CHECKING:
    from app.hardware.checks import Line, Section

_LEAST_FOR_TWO = 88
_STATE, _LABEL = 9, 12
_COLOURS = {"ok": "\x1b[32m", "untried": "", "warning": "\x1b[33m", "problem": "\x1b[31m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"
_COMMAND = "  "


def render(sections: Sequence[Section], *, columns: int, color: bool) -> list[str]:
    """The sections as lines of text.

    Args:
        sections: What to print.
        columns: Width; commands are longer where they must be.
        color: Whether to color states and headings.
    """
    out: list[str] = []
    for section in sections:
        if section.lines:
            out += [""] if out else []
            out.append(_heading(section, columns, color=color))
            for line in section.lines:
                out += _rows(line, columns, section, color=color)
    return [line.rstrip() for line in out]


def _heading(section: Section, columns: int, *, color: bool) -> str:
    on, off = (_BOLD, _RESET) if color else ("", "")
    title = section.title
    if section.other and columns >= _LEAST_FOR_TWO:
        left = _left(columns)
        return f"{'':{_STATE}}{on}{title:{_LABEL + left + 2}}{section.other}{off}"
    return f"{'':{_STATE}}{on}{title}{f', and {section.other}' if section.other else ''}{off}"


def _rows(line: Line, columns: int, section: Section, *, color: bool) -> list[str]:
    room = columns - _STATE - _LABEL
    text, other = printable(line.text), printable(line.other)
    if section.other and columns >= _LEAST_FOR_TWO:
        left = _left(columns)
        pairs = zip_longest(_wrap(text, left), _wrap(other, room - left - 2), fillvalue="")
        body = [f"{a:{left}}  {b}" for a, b in pairs]
    else:
        said = f"{section.whose}: {other}" if section.whose and other else other
        body = [*_wrap(text, room), *_wrap(said, room)]
    for hint in line.hint:
        clean = printable(hint)
        body += [clean] if hint.startswith(_COMMAND) else _wrap(clean, room)
    on, off = (_COLOURS[line.state], _RESET) if color else ("", "")
    first = f"{on}{line.state:{_STATE}}{off}{line.label:{_LABEL}}"
    indent = " " * (_STATE + _LABEL)
    return [(indent if i else first) + row for i, row in enumerate(body or [""])]


def _left(columns: int) -> int:
    return (columns - _STATE - _LABEL - 2) * 6 // 10


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False)
