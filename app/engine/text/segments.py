"""Text of a model in segments, and the stop strings that span them.

Each stage of `app.engine.text.stream` takes segments and returns segments. It holds back only
undecided text, and keeps the source of each piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from app.engine.sources import Source
from app.engine.text.tool_calls import CallPart


@dataclass(frozen=True, slots=True)
class Segment:
    """Complete characters, the source that drafted the last of their tokens, and whether they are reasoning.

    The source is None for the target's own tokens. A part of a tool call is a segment too; its text is for readers.
    """

    text: str
    source: Source | None = None
    reasoning: bool = False
    call: CallPart | None = None


def held_back(text: str, markers: Iterable[str]) -> int:
    """Return the number of trailing characters that could begin a marker."""
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
    """Return the text of a run of segments."""
    return "".join(segment.text for segment in segments)


class StopScanner:
    """Ends the text before the first stop string, which may span tokens; ignores empty strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held: list[Segment] = []
        self.found = ""
        """The stop string that was found; later text is dropped."""

    def push(self, segment: Segment) -> list[Segment]:
        if self.found:
            return []
        if not self._stops:
            return [segment]
        pending = [*self._held, segment]
        text = text_of(pending)
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, self.found = min(found, key=itemgetter(0))
            self._held = []
            return cut(pending, at)[0]
        ready, self._held = cut(pending, len(text) - held_back(text, self._stops))
        return ready

    def flush(self) -> list[Segment]:
        """Return the text held back when no more text follows."""
        held, self._held = self._held, []
        return held
