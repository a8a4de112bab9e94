"""N-gram drafting: the longest match is continued, and other matches vote."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.engine.ngram import MAX_CANDIDATES, MAX_MATCH, NgramIndex
from app.engine.types import MIN_MATCH

TOKENS = st.lists(st.integers(0, 3), max_size=60)
COUNT = (1, 2, 3, 4, 5, 9, 1, 2, 3)
LOOP = (1, 2, 3, 1, 2, 3, 1, 2, 3)


def index(*tokens: int) -> NgramIndex:
    out = NgramIndex()
    out.grow(tokens)
    return out


def with_others(own: tuple[int, ...], *others: tuple[int, ...]) -> NgramIndex:
    out = NgramIndex()
    out.configure(MIN_MATCH, others)
    out.follow(own)
    return out


@pytest.mark.parametrize(
    ("texts", "draft", "limit", "tokens", "match_length"),
    [
        pytest.param([COUNT], (), 4, (4, 5, 9, 1), 3, id="tokens after the match"),
        pytest.param([COUNT], (), 2, (4, 5), 3, id="limit"),
        pytest.param([COUNT], (), 0, (), 0, id="no room"),
        pytest.param([COUNT], (), -1, (), 0, id="less than no room"),
        pytest.param([(2, 4, 9, 1, 2)], (), 4, (), 0, id="one token is no match"),
        pytest.param([(7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3)], (), 1, (4,), 4, id="longest before latest"),
        pytest.param([(1, 2, 3, 4, 5, 6, 9, 1, 2)], (3, 4), 2, (5, 6), 4, id="a draft extends the match"),
        pytest.param([LOOP], (), 8, (1, 2, 3, 1, 2, 3, 1, 2), 6, id="repetition"),
        pytest.param([LOOP], (1, 2), 5, (3, 1, 2, 3, 1), 8, id="repetition in a draft"),
        pytest.param([LOOP[:6]], (), 5, (1, 2, 3, 1, 2), 3, id="short repetition"),
        pytest.param([(9, 9, 1, 2), (7, 1, 2, 3, 4, 5)], (), 8, (3, 4, 5), 2, id="another text up to its end"),
        pytest.param([(5, 6, 1, 2), (1, 2, 1, 2)], (), 8, (1, 2), 2, id="repetition in another text"),
        pytest.param([(8, 3, 4), (1, 2, 3), (4, 5, 6)], (), 8, (), 0, id="other texts are not joined"),
        pytest.param([(1, 2, 3), (3, 4, 5)], (), 8, (), 0, id="texts are not joined"),
        pytest.param([(1, 2), (1, 2, 3)], (), 4, (3,), 2, id="a text of two tokens"),
    ],
)
def test_a_match_is_continued(
    texts: list[tuple[int, ...]], draft: tuple[int, ...], limit: int, tokens: tuple[int, ...], match_length: int
) -> None:
    own = with_others(*texts)
    assert (own.continuation(draft, limit).tokens, own.match_length) == (tokens, match_length)


def test_a_match_counts_at_most_max_match_tokens() -> None:
    past = list(range(100, 100 + MAX_MATCH + 20))
    repeated = index(*past, 7, *past)
    repeated.continuation((), 1)

    assert repeated.match_length == MAX_MATCH


@given(TOKENS, TOKENS)
def test_following_another_text_equals_a_new_index(a: list[int], b: list[int]) -> None:
    reused, fresh = NgramIndex(), NgramIndex()
    reused.follow(a)
    reused.follow(b)
    fresh.follow(b)

    assert reused.continuation((), 8) == fresh.continuation((), 8)
    assert len(reused) == len(b)


@pytest.mark.parametrize(
    ("texts", "tokens", "support"),
    [
        # Both continue with 5; the longer match with 7, the other with 6.
        pytest.param([(1, 2, 5, 6, 9, 1, 2, 5, 7, 8, 1, 2)], (5, 7), (4, 1), id="matches vote with their lengths"),
        pytest.param(
            [(1, 2, 3, 9, 1, 2), (1, 2, 3, 4), (1, 2, 6)], (3, 9), (2 + 2 - 2, 2 + 1 - 2), id="other texts vote"
        ),
        pytest.param([(1, 2, 3, 9, 1, 2), (1, 2, 3)], (3, 9), (2 + 2, 3), id="a match at the end of its text"),
    ],
)
def test_matches_vote_for_and_against_each_token(
    texts: list[tuple[int, ...]], tokens: tuple[int, ...], support: tuple[float, ...]
) -> None:
    found = with_others(*texts).continuation((), 2)

    assert (found.tokens, found.confidences) == (tokens, support)


def test_a_long_match_is_found_before_many_short_ones() -> None:
    phrase = (10, 11, 12, 13, 14, 1, 2)
    noise = [token for other in range(3 * MAX_CANDIDATES) for token in (20 + other, 1, 2, 3)]

    repeated = index(*phrase, 7, *noise, *phrase)
    repeated.continuation((), 1)
    assert repeated.match_length == len(phrase)


@given(TOKENS, st.lists(st.integers(0, 3), max_size=4))
def test_every_match_votes_with_its_length(tokens: list[int], draft: list[int]) -> None:
    past = [*tokens, *draft]

    def length_at(at: int) -> int:
        n = 0
        while n < min(at, len(past), MAX_MATCH) and tokens[at - 1 - n] == past[-1 - n]:
            n += 1
        return n

    lengths = {at: length_at(at) for at in range(MIN_MATCH, len(tokens)) if length_at(at) >= MIN_MATCH}
    # The end of the text counts as a candidate, too.
    assume(len(lengths) < MAX_CANDIDATES)
    indexed = index(*tokens)
    found, own = indexed.continuation(draft, 4), indexed.match_length

    assert own == (max(lengths.values(), default=0))
    for depth, (token, support) in enumerate(zip(found.tokens, found.confidences, strict=True)):
        agreed = [at for at in lengths if tokens[at : at + depth] == list(found.tokens[:depth])]
        votes = [(tokens[at + depth], lengths[at]) for at in agreed if at + depth < len(tokens)]
        expected = sum(length if other == token else -length for other, length in votes)
        # The continued match may end here, if a repetition is continued periodically.
        assert support in (expected + depth, expected + own + depth)


def test_another_min_match_empties_the_index() -> None:
    reused = index(1, 2, 3, 4, 9)
    reused.configure(MIN_MATCH, ())
    assert len(reused) == 5
    reused.configure(3, ())
    reused.follow((1, 2, 4, 9, 1, 2))

    assert reused.continuation((), 4).tokens == ()


def test_new_other_texts_replace_the_old_ones() -> None:
    other = with_others((1, 2, 3, 9, 1, 2), (1, 2, 6))
    other.configure(MIN_MATCH, [(5, 6, 7)])
    other.follow((1, 2, 3, 9, 1, 2))

    assert other.continuation((), 8) == index(1, 2, 3, 9, 1, 2).continuation((), 8)
    assert other.continuation((5, 6), 8).tokens == (7,)
