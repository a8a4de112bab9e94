"""Look-up drafting: the longest common past wins, and nothing is lost by taking back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.engine.drafters.lookup import MAX_CANDIDATES, MAX_MATCH, LookupIndex
from app.engine.types import MIN_MATCH

TOKENS = st.lists(st.integers(0, 3), max_size=60)


def index(*tokens: int) -> LookupIndex:
    out = LookupIndex()
    out.grow(tokens)
    return out


def test_what_followed_the_last_time_is_proposed() -> None:
    found = index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 4)

    assert (found.tokens, found.match_length) == ((4, 5, 9, 1), 3)


def test_the_limit_is_kept() -> None:
    assert index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 2).tokens == (4, 5)


def test_two_common_tokens_are_chance() -> None:
    assert index(1, 2, 4, 9, 1, 2).continuation((), 4).tokens == ()


def test_the_longest_common_past_wins_over_the_latest() -> None:
    found = index(7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3).continuation((), 1)

    assert (found.tokens, found.match_length) == ((4,), 4)


def test_among_equals_the_latest_wins() -> None:
    assert index(1, 2, 3, 4, 6, 1, 2, 3, 5, 9, 1, 2, 3).continuation((), 1).tokens == (5,)


def test_tokens_assumed_ahead_count_as_said() -> None:
    found = index(1, 2, 3, 4, 5, 6, 9, 1, 2).continuation((3, 4), 2)

    assert (found.tokens, found.match_length) == ((5, 6), 4)


def test_a_repetition_goes_on_repeating_itself() -> None:
    again = index(1, 2, 3, 1, 2, 3, 1, 2, 3)

    assert again.continuation((), 8).tokens == (1, 2, 3, 1, 2, 3, 1, 2)
    assert again.continuation((1, 2), 5).tokens == (3, 1, 2, 3, 1)


def test_what_was_said_twice_is_no_repetition_yet() -> None:
    assert index(9, 1, 2, 3, 4, 5, 6, 1, 2, 3).continuation((), 9).tokens == (4, 5, 6, 1, 2, 3)


def test_the_common_past_is_measured_up_to_its_bound() -> None:
    past = list(range(100, 100 + MAX_MATCH + 20))

    assert index(*past, 7, *past).continuation((), 1).match_length == MAX_MATCH


@given(TOKENS, TOKENS)
def test_following_another_text_is_the_same_as_starting_with_it(a: list[int], b: list[int]) -> None:
    moved, fresh = LookupIndex(), LookupIndex()
    moved.follow(a)
    moved.follow(b)
    fresh.follow(b)

    assert moved.continuation((), 8) == fresh.continuation((), 8)
    assert len(moved) == len(b)


@given(TOKENS, st.lists(st.integers(0, 3), max_size=4))
def test_it_finds_the_longest_match_that_is_there(tokens: list[int], ahead: list[int]) -> None:
    found = index(*tokens).continuation(ahead, 1)

    past = [*tokens, *ahead]
    candidates = [
        place
        for place in range(MIN_MATCH, len(tokens))
        if len(past) >= MIN_MATCH and tokens[place - MIN_MATCH : place] == past[-MIN_MATCH:]
    ]

    def common(place: int) -> int:
        n = 0
        while n < min(place, len(past), MAX_MATCH) and tokens[place - 1 - n] == past[-1 - n]:
            n += 1
        return n

    recent = candidates[-(MAX_CANDIDATES - 1) :]
    assert found.match_length == max(map(common, recent), default=0)
