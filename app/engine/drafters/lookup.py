"""Drafting without a model: what followed the last times the same words were said.

The index is LZ77's: hash chains over the last few tokens lead to earlier places where they stood, and the place with
the longest common past is followed. Every other place has as many votes as tokens before it agree, for each token that
followed there as well and against the one where it went on differently. Adding or taking back a token is a dictionary
entry a chain; memory is one entry and one integer a token and chain.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from app.engine.cache import common_prefix
from app.engine.types import MIN_MATCH

MAX_MATCH = 64
"""A longer common past says nothing more."""
MAX_CANDIDATES = 16
"""Earlier places looked at in each chain, most recent first."""
_LONG_MATCH = 6
"""Two tokens stood together in more places of a long text than can be looked at; so many did in few."""

_NONE = -1


@dataclass(frozen=True, slots=True)
class Continuation:
    """What stood after earlier occurrences of the text's end.

    Attributes:
        tokens: The tokens that followed there.
        match_length: How many tokens before them agree, at most `MAX_MATCH`.
        support: For each of the tokens the common past that it has here, and the votes of the other places.
    """

    tokens: tuple[int, ...]
    match_length: int
    support: tuple[float, ...]


NOTHING = Continuation((), 0, ())


class _Chain:
    """Every place of a token sequence, findable by the `length` tokens before it."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._latest: dict[tuple[int, ...], int] = {}
        # Per place: the previous place behind the same key.
        self._earlier = array("q")

    def places(self, past: Sequence[int]) -> Iterator[int]:
        """Places behind the end of `past`, most recent first."""
        place = self._latest.get(tuple(past[-self._length :]), _NONE) if len(past) >= self._length else _NONE
        while place != _NONE:
            yield place
            place = self._earlier[place - 1]

    def grow(self, tokens: Sequence[int]) -> None:
        """Take in the last of the tokens."""
        earlier = _NONE
        if len(tokens) >= self._length:
            key = tuple(tokens[-self._length :])
            earlier = self._latest.get(key, _NONE)
            self._latest[key] = len(tokens)
        self._earlier.append(earlier)

    def shrink(self, tokens: Sequence[int]) -> None:
        """Forget the last of the tokens."""
        earlier = self._earlier.pop()
        if len(tokens) >= self._length:
            key = tuple(tokens[-self._length :])
            if earlier == _NONE:
                del self._latest[key]
            else:
                self._latest[key] = earlier


class LookupIndex:
    """Every place of a growing token sequence, findable by the tokens before it.

    It holds what it was last given: of the next turn of a conversation only what is new need be indexed.

    Args:
        min_match: Tokens that must agree.
    """

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        self._begin(min_match)

    def _begin(self, min_match: int) -> None:
        self._min_match = min_match
        self._tokens: list[int] = []
        self._chains = [_Chain(length) for length in sorted({max(min_match, _LONG_MATCH), min_match}, reverse=True)]

    def require(self, min_match: int) -> None:
        """From now on so many tokens must agree; where that changes, everything is indexed anew."""
        if min_match != self._min_match:
            self._begin(min_match)

    def __len__(self) -> int:
        return len(self._tokens)

    def follow(self, tokens: Sequence[int]) -> None:
        """Make the index hold exactly `tokens`, which usually only grew."""
        known = len(self._tokens)
        if known > len(tokens) or self._tokens != tokens[:known]:
            known = common_prefix(self._tokens, tokens)
            self._cut(known)
        self.grow(tokens[known:])

    def grow(self, tokens: Sequence[int]) -> None:
        """Add tokens behind what the index holds."""
        for token in tokens:
            self._tokens.append(token)
            for chain in self._chains:
                chain.grow(self._tokens)

    def continuation(self, ahead: Sequence[int], limit: int) -> Continuation:
        """What may follow the sequence and `ahead`, up to `limit` tokens.

        Args:
            ahead: Tokens assumed after the sequence, such as a draft; they are not added.
            limit: Most tokens wanted.
        """
        tokens = self._tokens
        n_ahead = min(len(ahead), MAX_MATCH)
        past = [*tokens[max(0, len(tokens) - MAX_MATCH + n_ahead) :], *ahead[len(ahead) - n_ahead :]]
        places = self._places(past) if limit > 0 else {}
        if not places:
            return NOTHING
        # Of equals the first is taken, which is the latest.
        best = max(places, key=places.__getitem__)
        length = places.pop(best)
        said = tuple(self._after(best, length, ahead, limit))
        return Continuation(said, length, self._support(said, length, places))

    def _places(self, past: Sequence[int]) -> dict[int, int]:
        """Places where the end of the past stood before, and how much of it stood there."""
        found: dict[int, int] = {}
        for chain in self._chains:
            for place in islice(chain.places(past), MAX_CANDIDATES):
                # The key's own end is where the search stands; nothing follows it yet.
                if place < len(self._tokens) and place not in found:
                    found[place] = self._common_past(place, past)
                    if found[place] >= MAX_MATCH:
                        return found
        return found

    def _support(self, said: Sequence[int], match_length: int, others: Mapping[int, int]) -> tuple[float, ...]:
        """Votes for each token less those against it; a place that differed has no vote on what follows."""
        tokens, n_said = self._tokens, len(said)
        # Differences from token to token; every token that holds makes the common past longer by one.
        changes = [match_length, *[1] * (n_said - 1), 0, 0]
        for place, length in others.items():
            alike = common_prefix(said, tuple(tokens[place : place + n_said])) if tokens[place] == said[0] else 0
            changes[0] += length
            changes[alike] -= length
            if place + alike < len(tokens):
                changes[alike] -= length
                changes[alike + 1] += length
        return tuple(accumulate(changes[:n_said]))

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

    def _cut(self, length: int) -> None:
        while len(self._tokens) > length:
            for chain in self._chains:
                chain.shrink(self._tokens)
            self._tokens.pop()
