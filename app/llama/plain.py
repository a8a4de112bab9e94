"""Words from a file or from llama.cpp, fit to stand in a sentence on a terminal."""

from __future__ import annotations

_LONGEST = 300


def plain(text: str) -> str:
    """One line of printable characters, not too long, without a full stop at its end.

    A model file can carry escape sequences in every text that it has.
    """
    words = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST]).split())
    return (words if len(words) <= _LONGEST else words[:_LONGEST] + "...").rstrip(". ")
