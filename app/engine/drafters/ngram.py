"""N-gram drafting, also called prompt lookup: propose what followed the same tokens before.

The index is LZ77's: hash chains over the last few tokens lead to earlier places, and the place with the longest common
past is continued. Each other place votes with the length of its common past, for each token that also followed there
and against the first that did not. Adding or removing a token changes one dictionary entry per chain.
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
"""Longest common past that is counted, in tokens."""
MAX_CANDIDATES = 16
"""Earlier places tried in each chain, latest first."""
_LONG_MATCH = 6
"""Key length of the second chain: two tokens lead to too many places of a long text."""

_NONE = -1


@dataclass(frozen=True, slots=True)
class Continuation:
    """The tokens that followed an earlier occurrence of the text's end.

    Attributes:
        tokens: The tokens.
        match_length: Tokens before them that agree, at most `MAX_MATCH`.
        support: For each token, its common past and the votes of the other places.
    """

    tokens: tuple[int, ...]
    match_length: int
    support: tuple[float, ...]


NOTHING = Continuation((), 0, ())


class _Chain:
    """Index of the places of a sequence by the `length` tokens before each."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._latest: dict[tuple[int, ...], int] = {}
        # Per place: the previous place behind the same key.
        self._earlier = array("q")

    def places(self, past: Sequence[int]) -> list[int]:
        """Return the latest places after the end of `past`, latest first."""
        place = self._latest.get(tuple(past[-self.length :]), _NONE) if len(past) >= self.length else _NONE
        found: list[int] = []
        while place != _NONE and len(found) < MAX_CANDIDATES:
            found.append(place)
            place = self._earlier[place - 1]
        return found

    def grow(self, tokens: Sequence[int]) -> None:
        """Add the last token."""
        earlier = _NONE
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            earlier = self._latest.get(key, _NONE)
            self._latest[key] = len(tokens)
        self._earlier.append(earlier)

    def shrink(self, tokens: Sequence[int]) -> None:
        """Remove the last token."""
        earlier = self._earlier.pop()
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            if earlier == _NONE:
                del self._latest[key]
            else:
                self._latest[key] = earlier


class _Place(NamedTuple):
    """An earlier place of the same tokens.

    Attributes:
        tokens: The text.
        at: Index of the token that follows.
        length: Tokens before it that agree.
    """

    tokens: Sequence[int]
    at: int
    length: int


class _Text:
    """A token sequence and its index."""

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
        """Yield places with the end of `past`, up to the first with all of it."""
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
        """Return the number of tokens before a place that agree with the end of `past`, at least `n`."""
        tokens = self.tokens
        longest = min(at, len(past))
        while n < longest and tokens[at - 1 - n] == past[-1 - n]:
            n += 1
        return n


class NgramIndex:
    """Index of a growing token sequence, and of other texts beside it.

    The next turn of a conversation indexes only its new tokens.

    Args:
        min_match: Shortest match, in tokens.
    """

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        self._min_match = min_match
        self._text = _Text(min_match)
        self._others: list[_Text] = []
        self._to_index: Iterable[Sequence[int]] = ()

    def __len__(self) -> int:
        return len(self._text.tokens)

    def require(self, min_match: int) -> None:
        """Set the shortest match; a change drops the index."""
        if min_match != self._min_match:
            self._min_match, self._text, self._others = min_match, _Text(min_match), []

    def set_other_texts(self, texts: Iterable[Sequence[int]]) -> None:
        """Replace the texts beside the sequence; the next `follow` indexes them."""
        self._others, self._to_index = [], texts

    def follow(self, tokens: Sequence[int]) -> None:
        """Index exactly `tokens`, reusing the common prefix."""
        held = self._text.tokens
        known = len(held)
        if known > len(tokens) or held != tokens[:known]:
            known = common_prefix(held, tokens)
            self._text.cut(known)
        self.grow(tokens[known:])
        for other in self._to_index:
            self._others.append(_Text(self._min_match))
            self._others[-1].grow(other)
        self._to_index = ()

    def grow(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self._text.grow(tokens)

    def continuation(self, ahead: Sequence[int], limit: int) -> Continuation:
        """Return a continuation of the sequence and `ahead`.

        Args:
            ahead: Tokens assumed after the sequence, such as a draft; they are not added.
            limit: Most tokens.
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
        """Return places with the end of `past`, in the sequence itself first."""
        return [place for text in (self._text, *self._others) for place in text.places(past)]

    def _after(self, place: _Place, ahead: Sequence[int], limit: int) -> Sequence[int]:
        """Return the tokens from a place on; text that repeats itself up to its end is continued periodically."""
        after = place.tokens[place.at : place.at + limit]
        if len(after) == limit or place.tokens is not self._text.tokens:
            return after
        period = [*after, *ahead]
        if place.length < len(period):
            return after
        return [period[i % len(period)] for i in range(limit)]


def _support(said: Sequence[int], match_length: int, others: Iterable[_Place]) -> tuple[float, ...]:
    """Return the votes for each token minus those against; a place that differed stops voting."""
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
