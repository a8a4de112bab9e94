"""The bytes of a token as something to look at."""

from __future__ import annotations

from app.core.printable import printable

_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥", " ": "·", "\r": "␍"})


def visible(piece: bytes) -> str:
    """A token on its own: spaces and line ends as marks, part of a character as its bytes."""
    if not piece:
        return "control"
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return piece.hex(" ")
    text = text.translate(_MARKS)
    return text if text == printable(text) else repr(text)[1:-1]
