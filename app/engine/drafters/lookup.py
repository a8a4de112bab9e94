"""Drafting without a model: what followed the last time the same words were said.

The index is LZ77's: a hash chain over the last few tokens leads to earlier places where they stood, and the place with
the longest common past wins. Adding or taking back a token is a dictionary entry; memory is one entry and one integer
a token.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from app.engine.cache import common_prefix
from app.engine.types import MIN_MATCH

MAX_MATCH = 64
"""A longer common past says nothing more."""
MAX_CANDIDATES = 16
"""Earlier places looked at, most recent first."""

_NONE = -1


@dataclass(frozen=True, slots=True)
class Continuation:
    """What stood after an earlier occurrence of the text's end.

    Attributes:
        tokens: The tokens that followed there.
        match_length: How many tokens before them agree, at most `MAX_MATCH`.
    """

    tokens: tuple[int, ...]
    match_length: int


NOTHING = Continuation((), 0)


class LookupIndex:
    """Every place of a growing token sequence, findable by the tokens before it.

    Args:
        min_match: Tokens that must agree.
    """

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        self._min_match = min_match
        self._tokens: list[int] = []
        self._latest: dict[tuple[int, ...], int] = {}
        # Per place: the previous place behind the same key.
        self._earlier = array("q")

    def __len__(self) -> int:
        return len(self._tokens)

    def follow(self, tokens: Sequence[int]) -> None:
        """Make the index hold exactly `tokens`, which usually only grew."""
        known = len(self._tokens)
        if known > len(tokens) or self._tokens != tokens[:known]:
            known = common_prefix(self._tokens, tokens)
            self._cut(known)
        for token in tokens[known:]:
            self._append(token)

    def grow(self, tokens: Sequence[int]) -> None:
        """Add tokens behind what the index holds."""
        for token in tokens:
            self._append(token)

    def continuation(self, ahead: Sequence[int], limit: int) -> Continuation:
        """What may follow the sequence and `ahead`, up to `limit` tokens.

        Args:
            ahead: Tokens assumed after the sequence, such as a draft; they are not added.
            limit: Most tokens wanted.
        """
        tokens = self._tokens
        n_ahead = min(len(ahead), MAX_MATCH)
        past = [*tokens[max(0, len(tokens) - MAX_MATCH + n_ahead) :], *ahead[len(ahead) - n_ahead :]]
        if len(past) < self._min_match or limit <= 0:
            return NOTHING
        place = self._latest.get(tuple(past[-self._min_match :]), _NONE)
        best, best_length = _NONE, 0
        for _ in range(MAX_CANDIDATES):
            # The key's own end is where the search stands; nothing follows it yet.
            if place == _NONE:
                break
            if place < len(tokens):
                length = self._common_past(place, past)
                if length > best_length:
                    best, best_length = place, length
                    if length >= MAX_MATCH:
                        break
            place = self._earlier[place - 1]
        if best == _NONE:
            return NOTHING
        return Continuation(tuple(self._after(best, best_length, ahead, limit)), best_length)

    def _after(self, place: int, match_length: int, ahead: Sequence[int], limit: int) -> Sequence[int]:
        """What stands from a place on; a text that has repeated itself up to its end goes on repeating itself."""
        after = self._tokens[place : place + limit]
        if len(after) == limit:
            return after
        period = [*after, *ahead]
        if match_length < len(period):
            return after
        return [period[i % len(period)] for i in range(limit)]

    def _common_past(self, place: int, past: Sequence[int]) -> int:
        """How many tokens before `place` agree with the end of `past`; the key's own agree already."""
        tokens, n = self._tokens, self._min_match
        longest = min(place, len(past))
        while n < longest and tokens[place - 1 - n] == past[-1 - n]:
            n += 1
        return n

    def _append(self, token: int) -> None:
        tokens = self._tokens
        tokens.append(token)
        earlier = _NONE
        if len(tokens) >= self._min_match:
            key = tuple(tokens[-self._min_match :])
            earlier = self._latest.get(key, _NONE)
            self._latest[key] = len(tokens)
        self._earlier.append(earlier)

    def _cut(self, length: int) -> None:
        tokens = self._tokens
        while len(tokens) > length:
            earlier = self._earlier.pop()
            if len(tokens) >= self._min_match:
                key = tuple(tokens[-self._min_match :])
                if earlier == _NONE:
                    del self._latest[key]
                else:
                    self._latest[key] = earlier
            tokens.pop()
