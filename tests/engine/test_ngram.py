"""N-gram drafting: the longest match is continued, other matches vote, and tokens can be rereused again."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from app.engine.ngram import MAX_CANDIDATES, MAX_MATCH, NOTHING, NgramIndex
from app.engine.types import MIN_MATCH

TOKENS = st.lists(st.integers(0, 3), max_size=60)


def index(*tokens: int) -> NgramIndex:
    out = NgramIndex()
    out.grow(tokens)
    return out


def test_the_tokens_after_the_match_are_proposed() -> None:
    found = index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 4)

    assert (found.tokens, found.match_length) == ((4, 5, 9, 1), 3)


def test_a_continuation_has_at_most_limit_tokens() -> None:
    assert index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 2).tokens == (4, 5)


def test_one_token_is_no_match() -> None:
    assert index(2, 4, 9, 1, 2).continuation((), 4).tokens == ()


def test_a_match_shorter_than_min_match_is_ignored() -> None:
    strict = NgramIndex(min_match=3)
    strict.grow((1, 2, 4, 9, 1, 2))

    assert strict.continuation((), 4).tokens == ()


def test_the_longest_match_wins_over_the_latest() -> None:
    found = index(7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3).continuation((), 1)

    assert (found.tokens, found.match_length) == ((4,), 4)


def test_a_draft_extends_the_match() -> None:
    found = index(1, 2, 3, 4, 5, 6, 9, 1, 2).continuation((3, 4), 2)

    assert (found.tokens, found.match_length) == ((5, 6), 4)


def test_a_repetition_is_continued_periodically() -> None:
    again = index(1, 2, 3, 1, 2, 3, 1, 2, 3)

    assert again.continuation((), 8).tokens == (1, 2, 3, 1, 2, 3, 1, 2)
    assert again.continuation((1, 2), 5).tokens == (3, 1, 2, 3, 1)
    assert index(1, 2, 3, 1, 2, 3).continuation((), 5).tokens == (1, 2, 3, 1, 2)


def test_a_match_counts_at_most_max_match_tokens() -> None:
    past = list(range(100, 100 + MAX_MATCH + 20))

    assert index(*past, 7, *past).continuation((), 1).match_length == MAX_MATCH


@given(TOKENS, TOKENS)
def test_following_another_text_equals_a_new_index(a: list[int], b: list[int]) -> None:
    reused, fresh = NgramIndex(), NgramIndex()
    reused.follow(a)
    reused.follow(b)
    fresh.follow(b)

    assert reused.continuation((), 8) == fresh.continuation((), 8)
    assert len(reused) == len(b)


def test_matches_with_the_same_continuation_add_support() -> None:
    found = index(1, 2, 5, 6, 9, 1, 2, 5, 7, 8, 1, 2).continuation((), 2)

    assert found.tokens == (5, 7)
    assert found.support == (4, 1), "both continue with 5; the longer match with 7, the other with 6"


def test_a_long_match_is_found_before_many_short_ones() -> None:
    phrase = (10, 11, 12, 13, 14, 1, 2)
    noise = [token for other in range(3 * MAX_CANDIDATES) for token in (20 + other, 1, 2, 3)]

    assert index(*phrase, 7, *noise, *phrase).continuation((), 1).match_length == len(phrase)


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
    found = index(*tokens).continuation(draft, 4)

    assert found.match_length == max(lengths.values(), default=0)
    own = found.match_length
    for depth, (token, support) in enumerate(zip(found.tokens, found.support, strict=True)):
        agreed = [at for at in lengths if tokens[at : at + depth] == list(found.tokens[:depth])]
        votes = [(tokens[at + depth], lengths[at]) for at in agreed if at + depth < len(tokens)]
        expected = sum(length if other == token else -length for other, length in votes)
        # The continued match may end here, if a repetition is continued periodically.
        assert support in (expected + depth, expected + own + depth)


def test_another_min_match_empties_the_index() -> None:
    reused = index(1, 2, 3, 4, 9)
    reused.require(MIN_MATCH)
    assert len(reused) == 5
    reused.require(3)
    reused.follow((1, 2, 4, 9, 1, 2))

    assert reused.continuation((), 4).tokens == ()


def with_others(own: tuple[int, ...], *others: tuple[int, ...]) -> NgramIndex:
    out = NgramIndex()
    out.set_other_texts(others)
    out.follow(own)
    return out


def test_another_text_is_continued_up_to_its_end() -> None:
    found = with_others((9, 9, 1, 2), (7, 1, 2, 3, 4, 5)).continuation((), 8)

    assert (found.tokens, found.match_length) == ((3, 4, 5), 2)
    assert with_others((5, 6, 1, 2), (1, 2, 1, 2)).continuation((), 8).tokens == (1, 2)


def test_other_texts_are_not_joined() -> None:
    assert with_others((8, 3, 4), (1, 2, 3), (4, 5, 6)).continuation((), 8).tokens == ()
    assert with_others((1, 2, 3), (3, 4, 5)).continuation((), 8).tokens == ()


def test_of_equal_matches_the_own_text_wins_and_others_vote() -> None:
    found = with_others((1, 2, 3, 9, 1, 2), (1, 2, 3, 4), (1, 2, 6)).continuation((), 2)

    assert found.tokens == (3, 9)
    assert found.support == (2 + 2 - 2, 2 + 1 - 2)


def test_new_other_texts_replace_the_old_ones() -> None:
    other = with_others((1, 2, 3, 9, 1, 2), (1, 2, 6))
    other.set_other_texts([(5, 6, 7)])
    other.follow((1, 2, 3, 9, 1, 2))

    assert other.continuation((), 8) == index(1, 2, 3, 9, 1, 2).continuation((), 8)
    assert other.continuation((5, 6), 8).tokens == (7,)


def test_without_room_nothing_is_proposed() -> None:
    again = index(1, 2, 3, 9, 1, 2, 4, 9, 1, 2)

    assert [again.continuation((), limit) for limit in (0, -1)] == [NOTHING] * 2


def test_a_match_that_reaches_the_end_of_its_text_does_not_vote_against() -> None:
    assert with_others((1, 2, 3, 9, 1, 2), (1, 2, 3)).continuation((), 2).support == (2 + 2, 3)


def test_a_text_of_two_tokens_is_matched_as_a_whole() -> None:
    found = with_others((1, 2), (1, 2, 3)).continuation((), 4)

    assert (found.tokens, found.match_length) == ((3,), 2)
