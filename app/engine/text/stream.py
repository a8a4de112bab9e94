"""From token bytes to segments of text: characters, reasoning and stop strings that span tokens."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from app.engine.text.reasoning import THINK, Place, ReasoningMarkup, ReasoningSplitter
from app.engine.text.segments import Segment, StopScanner
from app.engine.types import Origin


class TextStream:
    """Turns token bytes into segments of shown text.

    Args:
        stops: Strings that end the answer; they are not shown. What is thought may well hold them.
        ends: Strings that end the text wherever they stand: marks of a turn that are no tokens.
        markup: What the model writes around its thinking.
        place: Where the prompt ends.
        begun: Whether it ends inside an answer or a thought of which this is the rest.
        marked: Whether the last mark of the model's own in it begins the answer.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        *,
        ends: Sequence[str] = (),
        markup: ReasoningMarkup = THINK,
        place: Place = Place.START,
        begun: bool = False,
        marked: bool = False,
    ) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ends = StopScanner(ends)
        self._reasoning = ReasoningSplitter(markup, place, begun=begun, marked=marked)
        self._stops = StopScanner(stops)
        self._marks = markup.marks
        self._last_origin = Origin.TARGET

    @property
    def stopped(self) -> bool:
        """Return whether a stop string was reached."""
        return self._ends.stopped or self._stops.stopped

    @property
    def place(self) -> Place:
        """Return where in the answer the text is."""
        return self._reasoning.place

    @property
    def marked(self) -> bool:
        """Return whether the last mark that was passed begins the answer."""
        return self._reasoning.marked

    @property
    def holds(self) -> bool:
        """Return whether part of a character or of a mark waits for what follows it."""
        return bool(self._decoder.getstate()[0]) or self._reasoning.holds

    def push(self, piece: bytes, origin: Origin, token: int | None = None) -> list[Segment]:
        """Add one token's bytes; returns what can be shown now.

        Args:
            piece: What the token shows as; empty for control tokens.
            origin: Who wrote it.
            token: Its id, by which marks are known.
        """
        self._last_origin = origin
        half = self._marks.get(token) if token is not None else None
        if half is None:
            return self._pass(self._decoder.decode(piece))
        self._reasoning.name(half, piece.decode(errors="replace"))
        # No character goes on behind it.
        cut_off = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return self._pass(cut_off + half)

    def flush(self, *, ended: bool = True) -> list[Segment]:
        """The rest, when no more follows.

        Args:
            ended: Whether the answer is at its end: then a character that never got complete shows as U+FFFD. Of one
                that may be continued it is left out, for the model writes the character again, and so is a header.
        """
        ready = self._pass(self._decoder.decode(b"", final=True)) if ended else []
        for segment in self._ends.flush():
            ready += self._told_apart(segment)
        return ready + self._answered(self._reasoning.flush(ended=ended)) + self._stops.flush()

    def _pass(self, text: str) -> list[Segment]:
        if not text:
            return []
        shown = self._ends.push(Segment(text, self._last_origin))
        return [out for segment in shown for out in self._told_apart(segment)]

    def _told_apart(self, segment: Segment) -> list[Segment]:
        return self._answered(self._reasoning.push(segment))

    def _answered(self, segments: Sequence[Segment]) -> list[Segment]:
        ready: list[Segment] = []
        for segment in segments:
            ready += [*self._stops.flush(), segment] if segment.reasoning else self._stops.push(segment)
        return ready
