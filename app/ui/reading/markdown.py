"""The Markdown dialect, and its inline text: emphasis, code and links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from textual.content import Content, Span

from app.core.printable import printable

_SPACE = re.compile(r"\s+")
_STYLES = {"em": "italic", "strong": "bold", "s": "strike"}
_CODE = "$ink on $foreground 10%"
"""Legible in quiet text too."""
_QUIET = "$quiet"


def _address(token: Token, name: str, shown: str) -> str:
    """Return the address of a link in brackets; it cannot be clicked, as a model may have made it up."""
    address = printable(str(token.attrs.get(name, "")))
    return "" if address in ("", shown, f"mailto:{shown}") else f" ({address})"


def content_of(tokens: Sequence[Token]) -> Content:
    """Return inline tokens as text; single line breaks stay line breaks."""
    text = ""
    spans: list[Span] = []
    opened: list[tuple[int, Token]] = []

    def add(more: str, style: str = "") -> None:
        nonlocal text
        # Entities such as &#x202e; are characters now.
        start = len(text)
        text += printable(more)
        if style and len(text) > start:
            spans.append(Span(start, len(text), style))

    for token in tokens:
        kind = token.type
        if kind == "text":
            add(_SPACE.sub(" ", token.content))
        elif kind in ("softbreak", "hardbreak"):
            add("\n")
        elif kind == "code_inline":
            add(token.content, _CODE)
        elif kind == "image":
            shown = content_of(token.children or ()).plain
            add(shown or "image")
            add(_address(token, "src", shown), _QUIET)
        elif kind.endswith("_open"):
            opened.append((len(text), token))
        elif kind.endswith("_close") and opened:
            start, opening = opened.pop()
            if style := _STYLES.get(kind.removesuffix("_close")):
                spans.append(Span(start, len(text), style))
            elif kind == "link_close":
                add(_address(opening, "href", text[start:]), _QUIET)
        else:
            add(token.content)
    return Content(text, spans)


# The dialect

# Pandoc's rule: a dollar before a space opens nothing, one after a space or before a digit closes nothing.
_LATEX = re.compile(
    r"\$\$[^$]+\$\$|\$(?![\s$])(?:\\.|[^$\\\n])*?(?<!\s)\$(?!\d)|\\\(.*?\\\)|\\\[.*?\\\]|\\[()\[\]]", re.DOTALL
)
_DISPLAYS = {"\\[": "\\]", "$$": "$$"}
_NESTING = 50


def _latex_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Leave a displayed formula as written: its lines may begin like list items; a rule of markdown-it."""
    opening = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closer = _DISPLAYS.get(opening[:2])
    if closer is None or state.is_code_block(start):
        return False
    if silent:
        return True
    line, is_closed = start + 1, closer in opening[2:]
    while not is_closed and line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        is_closed = closer in state.getLines(line, line + 1, 0, False)
        line += 1
    token = state.push("math_block", "", 0)
    token.map = [start, line]
    token.content = state.getLines(start, line, state.blkIndent, False)
    state.line = line
    return True


def _latex(state: StateInline, silent: bool) -> bool:
    """Leave formulas and their delimiters as written; a rule of markdown-it."""
    if state.src[state.pos] not in "$\\":
        return False
    found = _LATEX.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("math_inline", "", 0).content = found[0]
    state.pos = found.end()
    return True


@cache
def parser() -> MarkdownIt:
    """Return a parser that drops no text: HTML and link definitions are text, and bare names are no links."""
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": _NESTING})
    made.block.ruler.before(
        "fence", "math_block", _latex_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    made.inline.ruler.before("escape", "math_inline", _latex)
    return made.disable("reference")
