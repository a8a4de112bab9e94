"""Detect an answer that repeats itself.

Small models can fall into a loop that fills the context. Only exact repetition of tokens counts: table rows, lines of
code and list items look alike, but they differ in some token.
"""

from __future__ import annotations

import numpy as np

LONGEST_BLOCK = 256
"""Tokens of the longest block that is detected."""
LEAST_TOKENS = 64
LEAST_TIMES = 4
"""Tokens and repeats, the first occurrence included, that make a loop."""
SHORT_BLOCK = 8
LEAST_SHORT_TOKENS = 128
"""A shorter block needs more tokens: ruler lines, runs of zeros and empty table cells are not loops."""

_BLOCK_LENGTHS = np.arange(1, LONGEST_BLOCK + 1)
_MIN_REPEATED_TOKENS = np.maximum(
    np.where(_BLOCK_LENGTHS < SHORT_BLOCK, LEAST_SHORT_TOKENS, LEAST_TOKENS), LEAST_TIMES * _BLOCK_LENGTHS
)


class RepetitionDetector:
    """Follow the tokens of one answer and report when they become a loop."""

    def __init__(self) -> None:
        self._recent = np.full(LONGEST_BLOCK, -1, dtype=np.int64)
        """The last tokens, newest first."""
        self._matches = np.zeros(LONGEST_BLOCK, dtype=np.int64)
        """For each block length, how many tokens at the end equal the token one block before."""

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
