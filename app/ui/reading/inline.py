"""Emphasis, code and links in a line of text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.token import Token
from textual.content import Content, Span

from app.core.printable import printable
from app.ui.reading.parser import parser

BREAK = "\x1f"
"""Before a line end that was put into a line too long to be read at once; no text holds it."""

_SPACE = re.compile(r"\s+")
_STYLES = {"em": "italic", "strong": "bold", "s": "strike"}
_CODE = "$ink on $foreground 10%"
"""Also where the text around it is quiet, which could not be read on this."""
_QUIET = "$quiet"


class _Writer:
    """Gathers text and the spans over it."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.spans: list[Span] = []
        self.length = 0

    def add(self, text: str, style: str = "") -> None:
        # Once more: the name of a character, such as &#x202e;, has become that character since it came.
        text = printable(text)
        if text and style:
            self.spans.append(Span(self.length, self.length + len(text), style))
        self.text.append(text)
        self.length += len(text)


def _address(token: Token, name: str, shown: str) -> str:
    """Return what an address adds to the text in front of it. It is read, not followed: a model may have made it up."""
    address = printable(str(token.attrs.get(name, "")))
    title = printable(str(token.attrs.get("title", "")))
    told = "" if address in (shown, f"mailto:{shown}") else address
    more = " ".join(filter(None, (told, title and f'"{title}"')))
    return f" ({more})" if more else ""


def content_of(tokens: Sequence[Token]) -> Content:
    """Return inline tokens as one text, with every line break of the source kept as a line break."""
    writer = _Writer()
    opened: list[tuple[int, Token]] = []
    broken = False
    for token in tokens:
        kind = token.type
        if kind == "text":
            writer.add(_SPACE.sub(" ", token.content.replace(BREAK, "")))
        elif kind in ("softbreak", "hardbreak"):
            writer.add("" if broken else "\n")
        elif kind == "code_inline":
            writer.add(token.content.replace(BREAK, ""), _CODE)
        elif kind == "image":
            shown = content_of(token.children or ()).plain
            writer.add(shown or "image")
            writer.add(_address(token, "src", shown), _QUIET)
        elif kind.endswith("_open"):
            opened.append((writer.length, token))
        elif kind.endswith("_close") and opened:
            start, opening = opened.pop()
            if style := _STYLES.get(kind.removesuffix("_close")):
                writer.spans.append(Span(start, writer.length, style))
            elif kind == "link_close":
                writer.add(_address(opening, "href", "".join(writer.text)[start:]), _QUIET)
        else:
            writer.add(token.content.replace(BREAK, ""))
        broken = token.content.endswith(BREAK)
    return Content("".join(writer.text), writer.spans)


def inline_content(source: str) -> Content:
    """A line of Markdown as text."""
    return content_of(parser().parseInline(source)[0].children or ())
