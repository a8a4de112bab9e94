"""A block of code, line by line: what is far enough above the end is colored once and for all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Token
from textual.content import Content, Span

from app.ui.reading.inline import BREAK
from app.ui.reading.rows import CodeRow, Row
from app.ui.reading.wrapping import spaced

_STYLES: dict[Any, str] = {
    Token.Comment: "italic $quiet",
    Token.Keyword: "bold",
    Token.Literal.String: "$muted",
    Token.Literal.String.Doc: "italic $quiet",
    Token.Name.Function: "bold",
    Token.Name.Class: "bold",
    Token.Operator.Word: "bold",
}
"""Weight and grey tell code apart; color belongs to the two models."""

_FENCE = re.compile(r"(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)")
_BAR = Content.styled("┃ ", "$rule")
_WRAPPED = Content.styled("┃ ↪ ", "$rule")
_FEWEST, _MOST, _LARGEST = 32, 96, 8_000
"""Lines, and characters, that are colored together. A statement that begins at the margin after a blank line is a
good place to begin again: hardly a string or a comment reaches across it."""


@cache
def _languages() -> frozenset[str]:
    """Every name of a language; one that is none of them would be looked for among all installed packages."""
    return frozenset(name for _, names, _, _ in get_all_lexers(plugins=False) for name in names)


@lru_cache(32)
def _lexer(language: str) -> Lexer | None:
    known = language.lower() in _languages()
    return get_lexer_by_name(language, stripnl=False, ensurenl=True) if known else None


def _style(kind: Any) -> str:
    while kind is not None:
        if style := _STYLES.get(kind):
            return style
        kind = kind.parent
    return ""


def code_rows(lines: Sequence[str], language: str) -> list[Row]:
    """Lines of code as rows.

    Args:
        lines: Without their ends.
        language: As it stands behind the fence; an unknown one is plain text.
    """
    plain = [spaced(line.replace(BREAK, "")) for line in lines]
    text = "\n".join(plain)
    lexer = _lexer(language.strip().split(maxsplit=1)[0] if language.strip() else "")
    spans, at = [], 0
    if lexer is not None and len(text) <= 2 * _LARGEST:
        for kind, token in lexer.get_tokens(text):
            end = at + len(token)
            if style := _style(kind):
                spans.append(Span(at, min(end, len(text)), style))
            at = end
    colored = Content(text, spans).split("\n", allow_blank=True) if text else [Content("")] * len(plain)
    rows: list[Row] = []
    joined = False
    for line, content in zip(lines, colored, strict=True):
        rows.append(CodeRow(content, _BAR, _WRAPPED, joined, source=line.replace(BREAK, "")))
        joined = line.endswith(BREAK)
    return rows


class CodeBlock:
    """A fence that is open.

    Args:
        opening: The line that opened it.
    """

    def __init__(self, opening: str) -> None:
        found = _FENCE.search(opening)
        assert found is not None
        self._indent, marks, self._language = found.start(), found["marks"], found["info"]
        self._closing = re.compile(rf" {{0,3}}{marks[0]}{{{len(marks)},}}[ \t]*")
        self._mark = marks[0]
        self._lines: list[str] = []
        self._size = 0
        self._empty = True

    def add(self, line: str) -> list[Row] | None:
        """Take a complete line.

        Returns:
            The rows that are finished by it; None if it closes the fence, and `rows` are the last ones.
        """
        line = self._dedented(line)
        if self._closing.fullmatch(line):
            return None
        done: list[Row] = []
        after_blank = bool(self._lines) and not self._lines[-1].strip()
        fresh = len(self._lines) >= _FEWEST and after_blank and line[:1].strip()
        if fresh or len(self._lines) >= _MOST or self._size >= _LARGEST:
            done = code_rows(self._lines, self._language)
            self._lines, self._size, self._empty = [], 0, False
        self._lines.append(line)
        self._size += len(line)
        return done

    def rows(self, ahead: str = "") -> list[Row]:
        """Return what is not finished, and `ahead`, the beginning of a line."""
        ahead = self._dedented(ahead)
        # Marks alone are about to close the fence.
        lines = [*self._lines, ahead] if ahead.strip().strip(self._mark) else self._lines
        if not lines and self._empty:
            lines = [""]
        return code_rows(lines, self._language) if lines else []

    def _dedented(self, line: str) -> str:
        spaces = len(line) - len(line.lstrip(" "))
        return line[min(spaces, self._indent) :]
