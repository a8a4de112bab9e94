"""Highlighted code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Token
from textual.content import Content, Span

from app.ui.reading.rows import Row
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
"""Weight and gray; colors belong to the two models."""
_BAR = Content.styled("┃ ", "$rule")
_WRAPPED = Content.styled("┃ ↪ ", "$rule")
_LONGEST = 16_000
"""Characters that are highlighted together; more are shown plain."""


@cache
def _languages() -> frozenset[str]:
    """Names of all languages; Pygments would look for another name in every installed package."""
    return frozenset(name for _, names, _, _ in get_all_lexers(plugins=False) for name in names)


@lru_cache(32)
def lexer_of(language: str) -> Lexer | None:
    known = language.lower() in _languages()
    return get_lexer_by_name(language, stripnl=False, ensurenl=True) if known else None


def _style(kind: Any) -> str:
    while kind is not None:
        if style := _STYLES.get(kind):
            return style
        kind = kind.parent
    return ""


def code_rows(lines: Sequence[str], info: str) -> list[Row]:
    """Return lines of code as rows, in the language that a fence names."""
    text = "\n".join(map(spaced, lines))
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    lexer = lexer_of(language) if len(text) <= _LONGEST else None
    spans, at = [], 0
    for kind, token in lexer.get_tokens(text) if lexer is not None else ():
        end = at + len(token)
        if style := _style(kind):
            spans.append(Span(at, min(end, len(text)), style))
        at = end
    colored = Content(text, spans).split("\n", allow_blank=True) if text else [Content("")] * len(lines)
    return [Row(content, _BAR, _WRAPPED, source=line) for line, content in zip(lines, colored, strict=True)]
