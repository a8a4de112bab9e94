"""Markdown written by a model: shown as it is written, trusted with nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from pygments.token import Token
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.highlight import HighlightTheme, highlight
from textual.widgets import Markdown
from textual.widgets._markdown import MarkdownBlock, MarkdownFence, MarkdownTable, MarkdownTableContent

from app.engine.text import printable
from app.ui.widgets.hint import Hint


@cache
def _parser() -> MarkdownIt:
    # HTML blocks have no widget and would vanish; as text they show. Bare names such as main.py are not addresses.
    return MarkdownIt("gfm-like", {"html": False, "linkify": False})


class _Quiet(HighlightTheme):
    """Weight and grey tell code apart; colour belongs to the two models."""

    STYLES: dict[Any, str] = {  # noqa: RUF012 - Textual declares it so
        Token.Comment: "italic $quiet",
        Token.Keyword: "bold",
        Token.Literal.String: "$foreground 75%",
        Token.Literal.String.Doc: "italic $quiet",
        Token.Name.Function: "bold",
        Token.Name.Class: "bold",
        Token.Operator.Word: "bold",
    }


class _CodeBlock(MarkdownFence):
    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        # Without a language Textual tries every lexer there is, on every update.
        return highlight(code, language=language.split(maxsplit=1)[0] if language.strip() else "text", theme=_Quiet)


class _TableContent(MarkdownTableContent):
    def compose(self) -> ComposeResult:
        for cell in super().compose():
            # Textual reads a tooltip as console markup.
            cell.tooltip = None
            yield cell


class _Table(MarkdownTable):
    def compose(self) -> ComposeResult:
        for content in super().compose():
            assert isinstance(content, MarkdownTableContent)
            yield _TableContent(content.headers, content.rows)


class ModelMarkdown(Markdown):
    """A Markdown widget for text that comes from a model, in pieces.

    `append` must be awaited before the next one: Textual reads where the last block begins before it waits its turn.
    """

    BLOCKS: dict[str, type[MarkdownBlock]] = {  # noqa: RUF012 - Textual declares it so
        **Markdown.BLOCKS,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }
    BULLETS: list[str] = ["• ", "◦ ", "· "]  # noqa: RUF012 - Textual declares it so

    def __init__(self) -> None:
        super().__init__(parser_factory=_parser, open_links=False)

    @on(Markdown.LinkClicked)
    def _name_link(self, event: Markdown.LinkClicked) -> None:
        # Nothing that a model wrote is opened; the address can be read and typed.
        event.stop()
        self.post_message(Hint.Wanted(printable(event.href)))
