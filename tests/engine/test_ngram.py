"""N-gram drafting drafting: the longest common past leads, others vote, and nothing is lost by taking back."""

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


def test_what_followed_the_last_time_is_proposed() -> None:
    found = index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 4)

    assert (found.tokens, found.match_length) == ((4, 5, 9, 1), 3)


def test_the_limit_is_kept() -> None:
    assert index(1, 2, 3, 4, 5, 9, 1, 2, 3).continuation((), 2).tokens == (4, 5)


def test_one_common_token_is_chance() -> None:
    assert index(2, 4, 9, 1, 2).continuation((), 4).tokens == ()


def test_fewer_common_tokens_than_asked_for_say_nothing() -> None:
    strict = NgramIndex(min_match=3)
    strict.grow((1, 2, 4, 9, 1, 2))

    assert strict.continuation((), 4).tokens == ()


def test_the_longest_common_past_wins_over_the_latest() -> None:
    found = index(7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3).continuation((), 1)

    assert (found.tokens, found.match_length) == ((4,), 4)


def test_tokens_assumed_ahead_count_as_said() -> None:
    found = index(1, 2, 3, 4, 5, 6, 9, 1, 2).continuation((3, 4), 2)

    assert (found.tokens, found.match_length) == ((5, 6), 4)


def test_a_repetition_goes_on_repeating_itself() -> None:
    again = index(1, 2, 3, 1, 2, 3, 1, 2, 3)

    assert again.continuation((), 8).tokens == (1, 2, 3, 1, 2, 3, 1, 2)
    assert again.continuation((1, 2), 5).tokens == (3, 1, 2, 3, 1)
    assert index(1, 2, 3, 1, 2, 3).continuation((), 5).tokens == (1, 2, 3, 1, 2)


def test_the_common_past_is_measured_up_to_its_bound() -> None:
    past = list(range(100, 100 + MAX_MATCH + 20))

    assert index(*past, 7, *past).continuation((), 1).match_length == MAX_MATCH


@given(TOKENS, TOKENS)
def test_following_another_text_is_the_same_as_starting_with_it(a: list[int], b: list[int]) -> None:
    moved, fresh = NgramIndex(), NgramIndex()
    moved.follow(a)
    moved.follow(b)
    fresh.follow(b)

    assert moved.continuation((), 8) == fresh.continuation((), 8)
    assert len(moved) == len(b)


def test_places_that_go_on_alike_support_each_other() -> None:
    found = index(1, 2, 5, 6, 9, 1, 2, 5, 7, 8, 1, 2).continuation((), 2)

    assert found.tokens == (5, 7)
    assert found.support == (4, 1), "both say 5; one says 7, with a token more of common past, and one 6"


def test_a_long_match_is_found_behind_many_short_ones() -> None:
    phrase = (10, 11, 12, 13, 14, 1, 2)
    chatter = [token for other in range(3 * MAX_CANDIDATES) for token in (20 + other, 1, 2, 3)]

    assert index(*phrase, 7, *chatter, *phrase).continuation((), 1).match_length == len(phrase)


@given(TOKENS, st.lists(st.integers(0, 3), max_size=4))
def test_every_place_votes_with_its_common_past(tokens: list[int], ahead: list[int]) -> None:
    past = [*tokens, *ahead]

    def common(place: int) -> int:
        n = 0
        while n < min(place, len(past), MAX_MATCH) and tokens[place - 1 - n] == past[-1 - n]:
            n += 1
        return n

    places = {place: common(place) for place in range(MIN_MATCH, len(tokens)) if common(place) >= MIN_MATCH}
    # The search counts its own end as a place, and stops at so many.
    assume(len(places) < MAX_CANDIDATES)
    found = index(*tokens).continuation(ahead, 4)

    assert found.match_length == max(places.values(), default=0)
    own = found.match_length
    for depth, (token, support) in enumerate(zip(found.tokens, found.support, strict=True)):
        agreed = [place for place in places if tokens[place : place + depth] == list(found.tokens[:depth])]
        said = [(tokens[place + depth], places[place]) for place in agreed if place + depth < len(tokens)]
        expected = sum(length if there == token else -length for there, length in said)
        # The place that is followed may be at its end, where a repetition goes on.
        assert support in (expected + depth, expected + own + depth)


def test_another_number_of_common_tokens_forgets_what_was_indexed_by_the_old_one() -> None:
    moved = index(1, 2, 3, 4, 9)
    moved.require(MIN_MATCH)
    assert len(moved) == 5
    moved.require(3)
    moved.follow((1, 2, 4, 9, 1, 2))

    assert moved.continuation((), 4).tokens == ()


def beside(own: tuple[int, ...], *others: tuple[int, ...]) -> NgramIndex:
    out = NgramIndex()
    out.set_other_texts(others)
    out.follow(own)
    return out


def test_a_text_beside_is_looked_up_to_its_end() -> None:
    found = beside((9, 9, 1, 2), (7, 1, 2, 3, 4, 5)).continuation((), 8)

    assert (found.tokens, found.match_length) == ((3, 4, 5), 2)
    assert beside((5, 6, 1, 2), (1, 2, 1, 2)).continuation((), 8).tokens == (1, 2)


def test_texts_beside_do_not_run_into_one_another() -> None:
    assert beside((8, 3, 4), (1, 2, 3), (4, 5, 6)).continuation((), 8).tokens == ()
    assert beside((1, 2, 3), (3, 4, 5)).continuation((), 8).tokens == ()


def test_among_equals_the_text_itself_wins_and_the_one_beside_votes() -> None:
    found = beside((1, 2, 3, 9, 1, 2), (1, 2, 3, 4), (1, 2, 6)).continuation((), 2)

    assert found.tokens == (3, 9)
    assert found.support == (2 + 2 - 2, 2 + 1 - 2)


def test_what_set_other_texts_before_is_forgotten_and_the_text_is_not() -> None:
    other = beside((1, 2, 3, 9, 1, 2), (1, 2, 6))
    other.set_other_texts([(5, 6, 7)])
    other.follow((1, 2, 3, 9, 1, 2))

    assert other.continuation((), 8) == index(1, 2, 3, 9, 1, 2).continuation((), 8)
    assert other.continuation((5, 6), 8).tokens == (7,)


def test_where_there_is_no_room_nothing_is_proposed() -> None:
    again = index(1, 2, 3, 9, 1, 2, 4, 9, 1, 2)

    assert [again.continuation((), limit) for limit in (0, -1)] == [NOTHING] * 2


def test_a_text_that_ends_agreeing_says_nothing_of_what_would_have_come() -> None:
    assert beside((1, 2, 3, 9, 1, 2), (1, 2, 3)).continuation((), 2).support == (2 + 2, 3)


def test_a_text_of_two_tokens_is_looked_up_whole() -> None:
    found = beside((1, 2), (1, 2, 3)).continuation((), 4)

    assert (found.tokens, found.match_length) == ((3,), 2)
