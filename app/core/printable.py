"""Text without terminal control characters, and without unpaired surrogates."""

import json
import re

_UNPRINTABLE_CHARACTERS = re.compile(
    "["
    # C0 and C1 controls except tab and line feed
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Bidirectional controls, which make code look like other code
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Invisible characters
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    # Tags, which can hide a whole text
    "\U000e0000-\U000e007f"
    "]"
)
_LINE_ENDS = re.compile("[\u2028\u2029]")
_JOINER_CHARACTERS = "\u200c\u200d"
_JOINER_OR_SELECTOR = re.compile(f"[{_JOINER_CHARACTERS}\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_JOINER_RUN = re.compile(f"(.?)({_JOINER_OR_SELECTOR.pattern}+)", re.DOTALL)
_KEYCAP_BASES = "0123456789#*"
_LONGEST_LINE = 300


def printable(text: str, after: str = "") -> str:
    """Remove characters that could control a terminal or hide text from the reader.

    The only rule for text from models and files: on the screen, in exports and in pipes. `after` is the character
    before the text.
    """
    text = _LINE_ENDS.sub("\n", _UNPRINTABLE_CHARACTERS.sub("", text))
    return text if text.isascii() else _JOINER_RUN.sub(_needed_joiners, after + text)[len(after) :]


def _needed_joiners(found: re.Match[str]) -> str:
    """Keep one variation selector and one joiner, which emoji and scripts need."""
    kept = found[1]
    for character in found[2]:
        last = kept[-1:]
        if character in _JOINER_CHARACTERS:
            is_needed = not last or not (last.isascii() or last in _JOINER_CHARACTERS)
        else:
            is_needed = not _JOINER_OR_SELECTOR.match(last) and (not last.isascii() or last in _KEYCAP_BASES)
        kept += character if is_needed else ""
    return kept


def escape_unprintable(document: str) -> str:
    """Escape in JSON what `printable` would remove; the value stays the same."""
    if printable(document) == document:
        return document
    for pattern in (_UNPRINTABLE_CHARACTERS, _LINE_ENDS, _JOINER_OR_SELECTOR):
        document = pattern.sub(lambda found: json.dumps(found[0])[1:-1], document)
    return document


def one_line(text: str) -> str:
    """Return one line of at most 300 printable characters without a final full stop.

    Any text in a model file may contain escape sequences.
    """
    words = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST_LINE]).split())
    return (words if len(words) <= _LONGEST_LINE else words[:_LONGEST_LINE] + "...").rstrip(". ")


def storable(text: str) -> str:
    """Replace unpaired surrogates, which a terminal may paste, by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
