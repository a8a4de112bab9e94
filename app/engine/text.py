"""Text of a model in segments, and the stop strings that span them.

A stage takes segments and gives segments. It holds back only what it cannot decide yet, and keeps for every piece of
text who wrote it first. `app.engine.text_stream` puts the stages together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.engine.types import Origin

_UNPRINTABLE = re.compile(
    "["
    # C0 and C1 controls but tab and line feed.
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    # Bidirectional controls, which make code look like other code.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    # Characters without width or ink.
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    # Tags, which can hide a whole text.
    "\U000e0000-\U000e007f"
    "]"
)
_LINE_ENDS = re.compile("[\u2028\u2029]")
_JOINERS = "\u200c\u200d"
_JOINER_OR_SELECTOR = re.compile(f"[{_JOINERS}\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_RUN = re.compile(f"(.?)({_JOINER_OR_SELECTOR.pattern}+)", re.DOTALL)
_KEYCAPS = "0123456789#*"


def printable(text: str, after: str = "") -> str:
    """Remove characters that could control a terminal or hide text from the reader.

    The one rule for text from models and files: on the screen, in exports and in pipes.

    Args:
        text: All of it, or the next piece.
        after: The last character of what is printed before it.
    """
    text = _LINE_ENDS.sub("\n", _UNPRINTABLE.sub("", text))
    return text if text.isascii() else _RUN.sub(_needed_joiners, after + text)[len(after) :]


def _needed_joiners(found: re.Match[str]) -> str:
    """Keep what emoji and scripts need: one variation selector, then one joiner."""
    kept = found[1]
    for character in found[2]:
        last = kept[-1:]
        if character in _JOINERS:
            is_needed = not last or not (last.isascii() or last in _JOINERS)
        else:
            is_needed = not _JOINER_OR_SELECTOR.match(last) and (not last.isascii() or last in _KEYCAPS)
        kept += character if is_needed else ""
    return kept


def escape_unprintable(document: str) -> str:
    """Escape in JSON what `printable` would remove; the value stays the same."""
    if printable(document) == document:
        return document
    for pattern in (_UNPRINTABLE, _LINE_ENDS, _JOINER_OR_SELECTOR):
        document = pattern.sub(lambda found: json.dumps(found[0])[1:-1], document)
    return document


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of text from one origin.

    Attributes:
        text: Complete characters.
        origin: Who wrote the token that completed them.
        reasoning: Whether the text belongs to the model's thinking, not to its answer.
    """

    text: str
    origin: Origin
    reasoning: bool = False


def held_back(text: str, markers: Iterable[str]) -> int:
    """How many trailing characters of `text` could be the beginning of a marker."""
    return max((n for m in markers for n in range(1, len(m)) if text.endswith(m[:n])), default=0)


def cut(segments: Sequence[Segment], length: int) -> tuple[list[Segment], list[Segment]]:
    """Split a run of segments after `length` characters."""
    head: list[Segment] = []
    for index, segment in enumerate(segments):
        if length < len(segment.text):
            if length > 0:
                head.append(replace(segment, text=segment.text[:length]))
            return head, [replace(segment, text=segment.text[length:]), *segments[index + 1 :]]
        head.append(segment)
        length -= len(segment.text)
    return head, []


def text_of(segments: Iterable[Segment]) -> str:
    """The text of a run of segments."""
    return "".join(segment.text for segment in segments)


class StopScanner:
    """Ends the text before the first stop string, wherever token borders fall.

    Args:
        stops: Stop strings; empty ones are ignored.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held: list[Segment] = []
        self.stopped = False
        """Whether a stop string was found; nothing passes after it."""

    def push(self, segment: Segment) -> list[Segment]:
        if self.stopped:
            return []
        if not self._stops:
            return [segment]
        pending = [*self._held, segment]
        text = text_of(pending)
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            self._held = []
            return cut(pending, min(found))[0]
        ready, self._held = cut(pending, len(text) - held_back(text, self._stops))
        return ready

    def flush(self) -> list[Segment]:
        """What was held back, when no more text follows."""
        held, self._held = self._held, []
        return held
