"""Whether an answer goes round in circles: the same few words again and again, letter by letter.

Small models do that, and fill the context with it. Only what repeats exactly is told: rows of a table, lines of code,
items of a list and sequences of numbers are alike, but one token in them differs from row to row.
"""

from __future__ import annotations

LONGEST_PERIOD = 64
"""Tokens of the longest piece that is noticed; a sentence or two."""
LEAST_TOKENS = 400
LEAST_TIMES = 8
"""How many tokens a stretch must have, and how many times over its piece must stand in it, to be called repetition. A
rule of a table or an empty form is shorter."""
_WINDOW = 2 * LONGEST_PERIOD
_KEPT = 5 * LONGEST_PERIOD
"""Tokens that are kept to look back on: repetition is seen once it fills the window, within one more period at most."""


class RepetitionWatch:
    """Follows the tokens of one answer; a comparison for each, and a look at the last ones every 64.

    Two periods of one run that is as long as both together have a common divisor that is a period too (Fine and
    Wilf, 1965). So the smallest period of the window is the only one to follow, and the count is exact.
    """

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._until_look = _WINDOW
        self._period = 0
        self._run = 0
        self._longest = 0

    @property
    def length(self) -> int:
        """How many tokens at the end are one piece of text, over and over; 0 while that may still be meant."""
        return self._run if self._run >= max(LEAST_TOKENS, LEAST_TIMES * self._period) else 0

    @property
    def longest(self) -> int:
        """The largest `length` so far."""
        return max(self._longest, self.length)

    def push(self, token: int) -> None:
        """Take the next token."""
        tokens = self._tokens
        if self._period and tokens[-self._period] == token:
            self._run += 1
        elif self._period:
            self._longest = self.longest
            self._period = self._run = 0
        tokens.append(token)
        self._until_look -= 1
        if not self._until_look:
            self._until_look = LONGEST_PERIOD
            del tokens[:-_KEPT]
            if not self._period:
                self._look()

    def _look(self) -> None:
        """Find the smallest period of the window, and how far back it goes."""
        tokens, window = self._tokens, self._tokens[-_WINDOW:]
        for period in range(1, LONGEST_PERIOD + 1):
            if window[-1 - period] == window[-1] and window[period:] == window[:-period]:
                before = len(tokens) - _WINDOW - 1
                while before >= 0 and tokens[before] == tokens[before + period]:
                    before -= 1
                self._period, self._run = period, len(tokens) - 1 - before
                return
