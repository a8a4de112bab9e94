"""N-gram drafting, also called prompt lookup: propose the tokens that followed the same n-gram before.

The index works as in LZ77: hash chains over the last few tokens lead to earlier matches, and the longest match is
continued. Each other match votes with its length: for each proposed token that also followed it, and against the first
proposed token that did not. Adding or removing a token changes one dictionary entry per chain.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from app.engine.cache import common_prefix
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Judge
from app.engine.sources import Source
from app.engine.types import MIN_MATCH, NO_DRAFT, Draft

MAX_MATCH = 64
"""Longest match that is counted, in tokens."""
MAX_CANDIDATES = 16
"""Matches tried in each chain, latest first."""
_LONG_KEY = 6
"""Key length of the second chain: two tokens lead to too many matches in a long text."""

_NO_POSITION = -1


class _Chain:
    """Index of the positions of a sequence by the `length` tokens before each position."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._latest: dict[tuple[int, ...], int] = {}
        # The previous position after the same key, by position
        self._earlier = array("q")

    def positions(self, past: Sequence[int]) -> list[int]:
        """Return positions after the last `length` tokens of `past`, latest first."""
        position = (
            self._latest.get(tuple(past[-self.length :]), _NO_POSITION) if len(past) >= self.length else _NO_POSITION
        )
        found: list[int] = []
        while position != _NO_POSITION and len(found) < MAX_CANDIDATES:
            found.append(position)
            position = self._earlier[position - 1]
        return found

    def grow(self, tokens: Sequence[int]) -> None:
        earlier = _NO_POSITION
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            earlier = self._latest.get(key, _NO_POSITION)
            self._latest[key] = len(tokens)
        self._earlier.append(earlier)

    def shrink(self, tokens: Sequence[int]) -> None:
        earlier = self._earlier.pop()
        if len(tokens) >= self.length:
            key = tuple(tokens[-self.length :])
            if earlier == _NO_POSITION:
                del self._latest[key]
            else:
                self._latest[key] = earlier


class _Match(NamedTuple):
    """An earlier occurrence of the text's end in `tokens`: the `length` tokens before index `at` are equal."""

    tokens: Sequence[int]
    at: int
    length: int


class _Text:
    """A token sequence and its index."""

    def __init__(self, min_match: int) -> None:
        self.tokens: list[int] = []
        self._chains = [_Chain(length) for length in sorted({max(min_match, _LONG_KEY), min_match}, reverse=True)]

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

    def matches(self, past: Sequence[int]) -> Iterator[_Match]:
        """Yield matches of the end of `past`, up to the first of `MAX_MATCH` tokens."""
        found: set[int] = set()
        for chain in self._chains:
            for at in chain.positions(past):
                # No token follows the end of the text itself.
                if at < len(self.tokens) and at not in found:
                    found.add(at)
                    length = self._match_length(at, past, chain.length)
                    yield _Match(self.tokens, at, length)
                    if length >= MAX_MATCH:
                        return

    def _match_length(self, at: int, past: Sequence[int], n: int) -> int:
        tokens = self.tokens
        longest = min(at, len(past))
        while n < longest and tokens[at - 1 - n] == past[-1 - n]:
            n += 1
        return n


class NgramIndex(DraftSource):
    """Proposes the tokens that followed an earlier occurrence of the text's end.

    This is an index of a growing token sequence, and of other texts, for matches of at least `min_match` tokens. The
    next turn of a conversation indexes only its new tokens. The confidence of a token is its support: the length of
    the match up to it plus the votes of the other matches.

    Attributes:
        match_length: Length of the last match, at most `MAX_MATCH`; 0 if there was none.
    """

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        super().__init__(Source.NGRAM)
        self.match_length = 0
        self._min_match = min_match
        self._text = _Text(min_match)
        self._others: list[_Text] = []
        self._to_index: Iterable[Sequence[int]] = ()

    def __len__(self) -> int:
        return len(self._text.tokens)

    def configure(self, min_match: int, other_texts: Iterable[Sequence[int]]) -> None:
        """Set the shortest match, and the other texts for the next `follow`; another match length empties the index."""
        if min_match != self._min_match:
            self._min_match, self._text = min_match, _Text(min_match)
        self._others, self._to_index = [], other_texts

    def follow(self, tokens: Sequence[int]) -> None:
        """Index exactly `tokens`, reusing the common prefix."""
        indexed = self._text.tokens
        n_same = len(indexed)
        if n_same > len(tokens) or indexed != tokens[:n_same]:
            n_same = common_prefix(indexed, tokens)
            self._text.cut(n_same)
        self.grow(tokens[n_same:])
        for other in self._to_index:
            self._others.append(_Text(self._min_match))
            self._others[-1].grow(other)
        self._to_index = ()

    def grow(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self._text.grow(tokens)

    @property
    def reason(self) -> str:
        return f"the last {self.match_length} tokens occurred before"

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        self.follow(tokens)
        return iter(())

    def accept(self, tokens: Sequence[int], n_accepted: int) -> None:
        self.grow(tokens)

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        return self.continuation(tokens[len(self) :], limit)

    def continuation(self, draft: Sequence[int], limit: int) -> Draft:
        """Return at most `limit` tokens that may follow the sequence and a draft, which is not added to it."""
        self.match_length = 0
        tokens = self._text.tokens
        n_draft = min(len(draft), MAX_MATCH)
        past = [*tokens[max(0, len(tokens) - MAX_MATCH + n_draft) :], *draft[len(draft) - n_draft :]]
        if limit <= 0:
            return NO_DRAFT
        # Matches in the sequence itself come first.
        matches = [match for text in (self._text, *self._others) for match in text.matches(past)]
        if not matches:
            return NO_DRAFT
        # Among equally long matches, the first is the latest in the sequence itself.
        best = matches.pop(max(range(len(matches)), key=lambda i: matches[i].length))
        proposed = tuple(takewhile(_is_text, self._after(best, draft, limit)))
        if not proposed:
            return NO_DRAFT
        self.match_length = best.length
        return Draft.of(self.kind, proposed, _support(proposed, best.length, matches))

    def _after(self, match: _Match, draft: Sequence[int], limit: int) -> Sequence[int]:
        after = match.tokens[match.at : match.at + limit]
        if len(after) == limit or match.tokens is not self._text.tokens:
            return after
        period = [*after, *draft]
        if match.length < len(period):
            return after
        return [period[i % len(period)] for i in range(limit)]


def _is_text(token: int) -> bool:
    # No model writes the ids of a picture.
    return token >= 0


def _support(proposed: Sequence[int], match_length: int, others: Iterable[_Match]) -> tuple[float, ...]:
    """Return the votes for each token minus the votes against it; a match stops voting at its first difference."""
    n = len(proposed)
    # Differences from token to token; each proposed token lengthens the match by one
    changes = [match_length, *[1] * (n - 1), 0, 0]
    for tokens, at, length in others:
        n_same = common_prefix(proposed, tuple(tokens[at : at + n])) if tokens[at] == proposed[0] else 0
        changes[0] += length
        changes[n_same] -= length
        if at + n_same < len(tokens):
            changes[n_same] -= length
            changes[n_same + 1] += length
    return tuple(accumulate(changes[:n]))
