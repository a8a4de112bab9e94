"""Drafting without a model: what followed the last times the same words were said.

The index is LZ77's: hash chains over the last few tokens lead to earlier places where they stood, and the place with
the longest common past is followed. Every other place has one vote for each token in common before it: they count for
every token that followed there as well, and against the first that did not. To add or take back a token changes one
dictionary entry of each chain; a token takes one entry and one integer in each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from app.engine.cache import common_prefix
from app.engine.types import MIN_MATCH

MAX_MATCH = 64
"""A longer common past says nothing more."""
MAX_CANDIDATES = 16
"""Earlier places looked at in each chain, most recent first."""
_LONG_MATCH = 6
"""Tokens in common that lead to few places of a long text; two of them lead to more than can be looked at."""

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
        self.length = length
        self._latest: dict[tuple[int, ...], int] = {}
        # Per place: the previous place behind the same key.
        self._earlier = array("q")

    def places(self, past: Sequence[int]) -> list[int]:
        """The `MAX_CANDIDATES` latest places behind the end of `past`, most recent first."""
        place = self._latest.get(tuple(past[-self.length :]), _NONE) if len(past) >= self.length else _NONE
        found: list[int] = []
        while place != _NONE and len(found) < MAX_CANDIDATES:
            found.append(place)
            place = self._earlier[place - 1]
        return found

    def grow(self, tokens: Sequence[int]) -> None:
        """Take in the last of the tokens."""
        earlier = _NONE
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            earlier = self._latest.get(key, _NONE)
            self._latest[key] = len(tokens)
        self._earlier.append(earlier)

    def shrink(self, tokens: Sequence[int]) -> None:
        """Forget the last of the tokens."""
        earlier = self._earlier.pop()
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            if earlier == _NONE:
                del self._latest[key]
            else:
                self._latest[key] = earlier


class _Place(NamedTuple):
    """Where the end of the past stood before.

    Attributes:
        tokens: The text.
        at: Where in it; what follows stands there.
        length: How many tokens before it agree with the past.
    """

    tokens: Sequence[int]
    at: int
    length: int


class _Text:
    """A token sequence, every place of it findable by the tokens before it."""

    def __init__(self, min_match: int) -> None:
        self.tokens: list[int] = []
        self._chains = [_Chain(length) for length in sorted({max(min_match, _LONG_MATCH), min_match}, reverse=True)]

    def grow(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self.tokens.append(token)
            for chain in self._chains:
                chain.grow(self.tokens)

    def cut(self, length: int) -> None:
        while len(self.tokens) > length:
            for chain in self._chains:
                chain.shrink(self.tokens)
            self.tokens.pop()

    def places(self, past: Sequence[int]) -> Iterator[_Place]:
        """Places where the end of the past stood; the first with all of it is the last."""
        found: set[int] = set()
        for chain in self._chains:
            for at in chain.places(past):
                # The key's own end is where the search stands; nothing follows it yet.
                if at < len(self.tokens) and at not in found:
                    found.add(at)
                    length = self._common_past(at, past, chain.length)
                    yield _Place(self.tokens, at, length)
                    if length >= MAX_MATCH:
                        return

    def _common_past(self, at: int, past: Sequence[int], n: int) -> int:
        """How many tokens before a place agree with the end of `past`; the key's own `n` agree already."""
        tokens = self.tokens
        longest = min(at, len(past))
        while n < longest and tokens[at - 1 - n] == past[-1 - n]:
            n += 1
        return n


class NgramIndex:
    """Every place of a growing token sequence, findable by the tokens before it; other texts may lie beside it.

    It holds what it was last given: of the next turn of a conversation only what is new need be indexed.

    Args:
        min_match: Tokens that must agree.
    """

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        self._min_match = min_match
        self._text = _Text(min_match)
        self._beside: list[_Text] = []
        self._to_lay: Iterable[Sequence[int]] = ()

    def __len__(self) -> int:
        return len(self._text.tokens)

    def require(self, min_match: int) -> None:
        """From now on so many tokens must agree; where that changes, everything is indexed anew."""
        if min_match != self._min_match:
            self._min_match, self._text, self._beside = min_match, _Text(min_match), []

    def lay_beside(self, texts: Iterable[Sequence[int]]) -> None:
        """Let texts be looked up that are no part of the sequence, and those of before no more.

        They are read by the next `follow`, for it is that which has its time.
        """
        self._beside, self._to_lay = [], texts

    def follow(self, tokens: Sequence[int]) -> None:
        """Make the index hold exactly `tokens`, which usually only grew."""
        held = self._text.tokens
        known = len(held)
        if known > len(tokens) or held != tokens[:known]:
            known = common_prefix(held, tokens)
            self._text.cut(known)
        self.grow(tokens[known:])
        for other in self._to_lay:
            self._beside.append(_Text(self._min_match))
            self._beside[-1].grow(other)
        self._to_lay = ()

    def grow(self, tokens: Sequence[int]) -> None:
        """Add tokens behind what the index holds."""
        self._text.grow(tokens)

    def continuation(self, ahead: Sequence[int], limit: int) -> Continuation:
        """What may follow the sequence and `ahead`, up to `limit` tokens.

        Args:
            ahead: Tokens assumed after the sequence, such as a draft; they are not added.
            limit: Most tokens wanted.
        """
        tokens = self._text.tokens
        n_ahead = min(len(ahead), MAX_MATCH)
        past = [*tokens[max(0, len(tokens) - MAX_MATCH + n_ahead) :], *ahead[len(ahead) - n_ahead :]]
        places = self._places(past) if limit > 0 else []
        if not places:
            return NOTHING
        # Of equals the first is taken, which is the latest of the sequence itself.
        best = places.pop(max(range(len(places)), key=lambda i: places[i].length))
        said = tuple(self._after(best, ahead, limit))
        return Continuation(said, best.length, _support(said, best.length, places))

    def _places(self, past: Sequence[int]) -> list[_Place]:
        """Places where the end of the past stood before, in the sequence itself first."""
        return [place for text in (self._text, *self._beside) for place in text.places(past)]

    def _after(self, place: _Place, ahead: Sequence[int], limit: int) -> Sequence[int]:
        """What stands from a place on; a text that has repeated itself up to its end goes on repeating itself."""
        after = place.tokens[place.at : place.at + limit]
        if len(after) == limit or place.tokens is not self._text.tokens:
            return after
        period = [*after, *ahead]
        if place.length < len(period):
            return after
        return [period[i % len(period)] for i in range(limit)]


def _support(said: Sequence[int], match_length: int, others: Iterable[_Place]) -> tuple[float, ...]:
    """Votes for each token less those against it; a place that differed has no vote on what follows."""
    n_said = len(said)
    # Differences from token to token; every token that holds makes the common past longer by one.
    changes = [match_length, *[1] * (n_said - 1), 0, 0]
    for tokens, at, length in others:
        alike = common_prefix(said, tuple(tokens[at : at + n_said])) if tokens[at] == said[0] else 0
        changes[0] += length
        changes[alike] -= length
        if at + alike < len(tokens):
            changes[alike] -= length
            changes[alike + 1] += length
    return tuple(accumulate(changes[:n_said]))
