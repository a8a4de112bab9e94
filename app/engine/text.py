"""From token bytes to text: characters, stop strings and reasoning that span tokens.

A stage takes segments and gives segments. It holds back only what it cannot decide yet, and keeps for every piece of
text who wrote it first.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.engine.types import Origin

# Besides terminal controls: marks that reorder the text around them, which makes code lie about what it does.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_ENDS = re.compile("[\u2028\u2029]")

_LONGEST_LEAD = 200
"""Characters of space before a marker: a model that writes nothing else is shown doing so, not waited for."""


def printable(text: str) -> str:
    """The text without what could steer a terminal or hide from its reader; it may come from a model or a file."""
    return _LINE_ENDS.sub("\n", _UNSAFE.sub("", text))


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


def _cut(segments: Sequence[Segment], length: int) -> tuple[list[Segment], list[Segment]]:
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


def _text(segments: Iterable[Segment]) -> str:
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
        text = _text(pending)
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped = True
            self._held = []
            return _cut(pending, min(found))[0]
        ready, self._held = _cut(pending, len(text) - held_back(text, self._stops))
        return ready

    def flush(self) -> list[Segment]:
        """What was held back, when no more text follows."""
        held, self._held = self._held, []
        return held


class ReasoningSplitter:
    """Tells thinking from answering by the markers that reasoning models write.

    Args:
        opened: Whether the prompt already ended inside the thinking, as some templates do.
        begun: Whether part of the text came before, so that neither a marker nor space is at its beginning.
    """

    OPEN = "<think>"
    CLOSE = "</think>"

    def __init__(self, *, opened: bool, begun: bool = False) -> None:
        self.reasoning = opened
        self._started = opened or begun
        self._skip_space = opened and not begun
        self._held: list[Segment] = []

    @property
    def holds(self) -> bool:
        """Whether text waits for what follows it."""
        return bool(self._held)

    def push(self, segment: Segment) -> list[Segment]:
        pending = [*self._held, segment]
        ready: list[Segment] = []
        while True:
            # An opening marker counts at the very beginning only: further on it is the answer's own text.
            if not self.reasoning and self._started:
                self._held = []
                return ready + self._emit(pending)
            text = _text(pending)
            marker = self.CLOSE if self.reasoning else self.OPEN
            lead = len(text) - len(text.lstrip()) if not self.reasoning else 0
            at = text.find(marker)
            if at >= 0 and (self.reasoning or at == lead <= _LONGEST_LEAD):
                before, rest = _cut(pending, at)
                if self.reasoning:
                    ready += self._emit(before)
                pending = _cut(rest, len(marker))[1]
                self.reasoning = not self.reasoning
                self._started = self._skip_space = True
                continue
            if not self.reasoning and lead <= _LONGEST_LEAD and marker.startswith(text[lead:]):
                self._held = pending
                return ready
            if not self.reasoning:
                self._started = True
                continue
            now, self._held = _cut(pending, len(text) - held_back(text, (marker,)))
            return ready + self._emit(now)

    def flush(self) -> list[Segment]:
        """What was held back, when no more text follows."""
        held, self._held = self._held, []
        return self._emit(held)

    def _emit(self, segments: Iterable[Segment]) -> list[Segment]:
        out = []
        for segment in segments:
            # Templates put blank lines around the markers; they belong to neither side.
            text = segment.text.lstrip() if self._skip_space else segment.text
            if text:
                self._skip_space = False
                same = text == segment.text and segment.reasoning == self.reasoning
                out.append(segment if same else replace(segment, text=text, reasoning=self.reasoning))
        return out


class TextStream:
    """Turns token bytes into segments of shown text.

    Args:
        stops: Strings that end the text; they are not shown.
        reasoning_opened: Whether the prompt ends inside the model's thinking.
        begun: Whether the prompt ends inside the answer, of which this is the rest.
    """

    def __init__(self, stops: Sequence[str] = (), *, reasoning_opened: bool = False, begun: bool = False) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stops = StopScanner(stops)
        self._reasoning = ReasoningSplitter(opened=reasoning_opened, begun=begun)
        self._last_origin = Origin.TARGET

    @property
    def stopped(self) -> bool:
        """Whether a stop string was reached."""
        return self._stops.stopped

    @property
    def reasoning(self) -> bool:
        """Whether the text is inside the model's thinking."""
        return self._reasoning.reasoning

    @property
    def holds(self) -> bool:
        """Whether part of a character or of a marker waits for what follows it."""
        return bool(self._decoder.getstate()[0]) or self._reasoning.holds

    def push(self, piece: bytes, origin: Origin) -> list[Segment]:
        """Add one token's bytes; returns what can be shown now."""
        self._last_origin = origin
        return self._pass(self._decoder.decode(piece))

    def flush(self, *, ended: bool = True) -> list[Segment]:
        """The rest, when no more follows.

        Args:
            ended: Whether the answer is at its end: then a character that never got complete shows as U+FFFD. Of one
                that may be continued it is left out, for the model writes the character again.
        """
        ready = self._pass(self._decoder.decode(b"", final=True)) if ended else []
        for segment in self._stops.flush():
            ready += self._reasoning.push(segment)
        return ready + self._reasoning.flush()

    def _pass(self, text: str) -> list[Segment]:
        if not text:
            return []
        shown = self._stops.push(Segment(text, self._last_origin))
        return [out for segment in shown for out in self._reasoning.push(segment)]
