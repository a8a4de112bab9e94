"""The code blocks of a text, numbered as on the screen."""

from __future__ import annotations


def code_blocks(markdown: str) -> tuple[str, ...]:
    """Return the code blocks of a text without their fences; an unclosed one counts."""
    # The first frame need not wait for the Markdown parser.
    from app.ui.reading.blocks import parser

    kinds = ("fence", "code_block")
    return tuple(each.content.rstrip("\n") for each in parser().parse(markdown) if each.type in kinds)
