"""The code in an answer."""

from __future__ import annotations


def code_blocks(markdown: str) -> tuple[str, ...]:
    """The fenced code of a text, in order, without its fences; one that was not closed counts."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(markdown)
    return tuple(token.content.rstrip("\n") for token in tokens if token.type == "fence")
