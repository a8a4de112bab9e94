"""Colors of code. A growing block is read from its last complete line, so a new piece costs what it adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import GeneratorType
from typing import Any

from pygments import token
from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from textual.content import Content, Span

_TOKEN_STYLES: dict[Any, str] = {
    token.Comment: "italic $quiet",
    token.Comment.Preproc: "$syntax-keyword",
    token.Keyword: "$syntax-keyword",
    token.Keyword.Constant: "$syntax-number",
    token.Operator.Word: "$syntax-keyword",
    token.String: "$syntax-string",
    token.Number: "$syntax-number",
    token.Name.Function: "$syntax-name",
    token.Name.Class: "$syntax-name",
    token.Name.Decorator: "$syntax-name",
    token.Name.Tag: "$syntax-keyword",
    token.Name.Attribute: "$syntax-name",
    token.Generic.Heading: "bold",
    token.Generic.Inserted: "$syntax-string",
    token.Generic.Deleted: "$syntax-number",
}
"""Style of each kind of token, without teal and amber, which belong to the two models."""
_START_STATE = ("root",)
_NAME_OF_STACK = "statestack"
"""The local variable of Pygments' RegexLexer that holds its state, which it does not return."""


@cache
def _languages() -> frozenset[str]:
    """Return the names of all languages; Pygments would search every installed package for an unknown name."""
    return frozenset(name for _, names, _, _ in get_all_lexers(plugins=False) for name in names)


@lru_cache(32)
def lexer_of(language: str) -> Lexer | None:
    known = language.lower() in _languages()
    return get_lexer_by_name(language, stripnl=False, ensurenl=True) if known else None


@cache
def _style(kind: Any) -> str:
    return next((_TOKEN_STYLES[each] for each in reversed(kind.split()) if each in _TOKEN_STYLES), "")


@dataclass(frozen=True, slots=True)
class _Read:
    """Complete colored lines of a block, and the lexer's state after them."""

    language: str = ""
    lines: Sequence[str] = ()
    colored: Sequence[Content] = ()
    state: tuple[str, ...] = _START_STATE


_latest = _Read()
"""The last block, which may have grown when it is read again."""


def colored_lines(lines: Sequence[str], language: str, *, may_grow: bool = False) -> list[Content]:
    """Return colored lines of code; an unknown language has no colors.

    In a growing block only new lines are read: code that depends on later lines gets its color when the block is
    complete.
    """
    global _latest
    lexer = lexer_of(language)
    if lexer is None:
        return [Content(line) for line in lines]
    known = _latest
    n = len(known.lines)
    if not may_grow or known.language != language or n >= len(lines) or list(lines[:n]) != list(known.lines):
        known, n = _Read(language), 0
    spans: list[list[Span]] = [[] for _ in lines[n:]]
    n_complete, last_state = 0, known.state
    for line, start, end, kind, state in _tokens(lexer, lines[n:], known.state):
        if state:
            n_complete, last_state = line, state
        if end > start and (style := _style(kind)):
            spans[line].append(Span(start, end, style))
    colored = [*known.colored, *map(Content, lines[n:], spans)]
    if may_grow:
        n += n_complete
        _latest = _Read(language, lines[:n], colored[:n], last_state)
    return colored


def _tokens(
    lexer: Lexer, lines: Sequence[str], state: tuple[str, ...]
) -> Iterator[tuple[int, int, int, Any, tuple[str, ...]]]:
    """Yield the line of each token, its start, end and kind.

    A token that begins a line also has the state of the lexer before it; others, and other kinds of lexers, have ().
    """
    text = "\n".join(lines) + "\n"
    read = lexer.get_tokens_unprocessed(*((text, state) if isinstance(lexer, RegexLexer) else (text,)))
    frame = read.gi_frame if isinstance(read, GeneratorType) else None
    line = at = 0
    for _, kind, value in read:
        before = tuple(frame.f_locals.get(_NAME_OF_STACK, ())) if frame is not None and at == 0 else ()
        for number, part in enumerate(value.split("\n")):
            if number:
                line, at, before = line + 1, 0, ()
            if line < len(lines):
                yield line, at, at + len(part), kind, before
            at += len(part)
