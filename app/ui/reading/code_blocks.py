"""The code blocks of a text, numbered as on the screen."""

from __future__ import annotations

_MARKS = ("```", "~~~", "    ", "\t")
"""One of them is in every text with a code block."""


def code_blocks(markdown: str) -> tuple[str, ...]:
    """Return the code blocks of a text without their fences; an unclosed one counts."""
    if not any(mark in markdown for mark in _MARKS):
        return ()
    # The first frame need not wait for the Markdown parser.
    from app.ui.reading.blocks import parser

    kinds = ("fence", "code_block")
    return tuple(each.content.rstrip("\n") for each in parser().parse(markdown) if each.type in kinds)
