"""Convert token bytes to segments of text, and detect answers that repeat themselves.

Characters, reasoning marks and stop strings may span several tokens.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

import numpy as np

from app.engine.sources import Source
from app.engine.text.reasoning import THINK, AnswerPart, ReasoningMarkup, ReasoningSplitter
from app.engine.text.segments import Segment, StopScanner

LONGEST_BLOCK = 256
"""Longest detected block in tokens."""
LEAST_TOKENS = 64
LEAST_TIMES = 4
"""Tokens and occurrences that make a loop."""
SHORT_BLOCK = 8
LEAST_SHORT_TOKENS = 128
"""A shorter block needs more tokens: ruler lines, runs of zeros and empty table cells are not loops."""
_BLOCK_LENGTHS = np.arange(1, LONGEST_BLOCK + 1)
_MIN_REPEATED_TOKENS = np.maximum(
    np.where(_BLOCK_LENGTHS < SHORT_BLOCK, LEAST_SHORT_TOKENS, LEAST_TOKENS), LEAST_TIMES * _BLOCK_LENGTHS
)


class TextStream:
    """Converts token bytes to segments of text.

    Args:
        stops: Strings that end the answer and are not shown; reasoning may contain them.
        ends: Strings that end the text anywhere: end-of-turn marks that are not tokens.
        begun: Whether the text continues an answer or reasoning in the prompt.
    """

    def __init__(
        self,
        stops: Sequence[str] = (),
        *,
        ends: Sequence[str] = (),
        markup: ReasoningMarkup = THINK,
        part: AnswerPart = AnswerPart.START,
        begun: bool = False,
    ) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ends = StopScanner(ends)
        self._reasoning = ReasoningSplitter(markup, part, begun=begun)
        self._stops = StopScanner(stops)
        self._marks = markup.marks
        self._last_source: Source | None = None

    @property
    def stopped(self) -> bool:
        """Return whether a stop string or an end-of-turn mark was reached."""
        return bool(self._ends.found or self._stops.found)

    @property
    def stop(self) -> str | None:
        """Return the stop string that was reached, if any."""
        return self._stops.found or None

    def push(self, piece: bytes, source: Source | None = None, token: int | None = None) -> list[Segment]:
        """Add a token; return the segments that can be shown now.

        `piece` is its text, empty for a control token; `token` is its id, which identifies marks.
        """
        self._last_source = source
        surrogate = self._marks.get(token) if token is not None else None
        if surrogate is None:
            return self._pass(self._decoder.decode(piece))
        self._reasoning.set_text(surrogate, piece.decode(errors="replace"))
        # A mark ends an incomplete character.
        incomplete = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return self._pass(incomplete + surrogate)

    def flush(self, *, ended: bool = True) -> list[Segment]:
        """Return the segments held back when no more tokens follow.

        At the end of a complete answer, an incomplete character becomes U+FFFD. If the answer may be continued,
        incomplete characters and headers are left out, because the model writes them again.
        """
        ready = self._pass(self._decoder.decode(b"", final=True)) if ended else []
        for segment in self._ends.flush():
            ready += self._without_stops(self._reasoning.push(segment))
        return ready + self._without_stops(self._reasoning.flush()) + self._stops.flush()

    def _pass(self, text: str) -> list[Segment]:
        if not text:
            return []
        shown = self._ends.push(Segment(text, self._last_source))
        return [out for segment in shown for out in self._without_stops(self._reasoning.push(segment))]

    def _without_stops(self, segments: Sequence[Segment]) -> list[Segment]:
        ready: list[Segment] = []
        for segment in segments:
            ready += [*self._stops.flush(), segment] if segment.reasoning else self._stops.push(segment)
        return ready


class RepetitionDetector:
    """Follows the tokens of an answer and reports loops.

    Small models can fall into a loop that fills the context. Only exact repetition of tokens counts: table rows, lines
    of code and list items look alike, but differ in some token.
    """

    def __init__(self) -> None:
        self._recent = np.full(LONGEST_BLOCK, -1, dtype=np.int64)
        """The last tokens, newest first."""
        self._matches = np.zeros(LONGEST_BLOCK, dtype=np.int64)
        """Number of final tokens that equal the token one block before, by block length."""

    def push(self, token: int) -> int:
        """Add the next token; return the consecutive occurrences of the last block if they are a loop, else 0."""
        self._matches += 1
        self._matches[self._recent != token] = 0
        self._recent[1:] = self._recent[:-1]
        self._recent[0] = token
        # The shortest block of a loop has the most matches; each multiple has one block fewer.
        longest = int(self._matches.argmax())
        block, matches = longest + 1, int(self._matches[longest])
        return matches // block + 1 if matches + block >= _MIN_REPEATED_TOKENS[longest] else 0
