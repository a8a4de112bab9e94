"""What the first answer would wait for, done before there is one."""

from __future__ import annotations

from app.ui.reading.document import MarkdownDocument

_USUAL = "```python\nx = 1\n```\n"
"""The first block of code in a language takes forty milliseconds more than the next; this one is the most likely."""


def read_ahead() -> None:
    """Make the parser, and load what colours the most usual code; to be called on a thread of its own."""
    MarkdownDocument().append(_USUAL)
