"""What tokens of a cache are part of an answer that goes on."""

from __future__ import annotations

import pytest

from app.conversations.message import Begun
from app.engine.text.reasoning import THINK, Place
from app.engine.text.stream import TextStream
from app.engine.types import Origin
from app.llama.prompt import Spelled, spelled

PIECES = [
    b"",  # a control token
    b"Once",
    b" upon",
    b" a",
    b"\n\n",
    b"<think>",
    b"</think>",
    b"hm",
    b"\xe2\x82",  # the first two bytes of a euro sign
    b"\xac",
]


def spell(tokens: list[int], text: str, thought: str = "", place: Place = Place.START) -> Spelled:
    return spelled(tokens, PIECES.__getitem__, Begun(text, thought), markup=THINK, place=place)


@pytest.mark.parametrize(
    ("tokens", "text", "n_tokens", "rest"),
    [
        ([1, 2], "Once upon a", 2, " a"),
        ([1, 2, 3], "Once upon a", 3, ""),
        # The cache went on to another turn.
        ([1, 2, 0, 3], "Once upon", 2, ""),
        ([1, 2, 3], "Once upon", 2, ""),
        # Another answer, or none.
        ([2, 1], "Once upon", 0, "Once upon"),
        ([], "Once", 0, "Once"),
        # Space at the beginning of an answer is not shown.
        ([4, 1, 2], "Once upon", 3, ""),
        # A character that never got complete is written again.
        ([1, 8], "Once", 1, ""),
        ([1, 8, 9], "Once€ and", 3, " and"),
        ([1, 8, 9], "Once upon", 1, " upon"),
    ],
)
def test_tokens_are_taken_as_far_as_they_show_the_answer(
    tokens: list[int], text: str, n_tokens: int, rest: str
) -> None:
    place = Place.ANSWER if n_tokens else Place.START
    assert spell(tokens, text) == Spelled(n_tokens, Begun(rest), place)


def test_thinking_is_followed_through_its_markers() -> None:
    whole = [5, 4, 7, 2, 4, 6, 4, 1, 2]
    assert spell(whole, "Once upon a", "hm upon") == Spelled(9, Begun(" a"), Place.ANSWER, marked=True)
    assert spell(whole[:4], "", "hm upon a") == Spelled(4, Begun("", " a"), Place.THINKING)
    assert spell(whole[:4], "Once", "hm upon") == Spelled(4, Begun("Once"), Place.THINKING)
    # The space behind the last thought and its end are the model's own.
    assert spell(whole[:6], "", "hm upon") == Spelled(6, Begun(""), Place.ANSWER, marked=True)


def test_a_thought_that_ended_elsewhere_is_another_answer() -> None:
    assert spell([5, 7, 6, 1], "Once", "hm upon") == Spelled(2, Begun("Once", " upon"), Place.THINKING)
    assert spell([1, 2], "Once upon", "hm") == Spelled(0, Begun("Once upon", "hm"), Place.START)


def test_a_prompt_that_opened_the_thinking() -> None:
    assert spell([7, 2], "", "hm upon a", Place.THINKING) == Spelled(2, Begun("", " a"), Place.THINKING)
    assert spell([7, 6, 1], "Once upon", "hm", Place.THINKING) == Spelled(3, Begun(" upon"), Place.ANSWER, marked=True)


def test_the_rest_of_a_text_keeps_its_space_and_has_no_markers() -> None:
    stream = TextStream(place=Place.ANSWER)
    shown = stream.push(b"\n\n<think>x", Origin.TARGET) + stream.flush()
    assert [(segment.text, segment.reasoning) for segment in shown] == [("\n\n<think>x", False)]


def test_the_rest_of_a_thought_keeps_its_space_and_ends() -> None:
    stream = TextStream(place=Place.THINKING, begun=True)
    shown = stream.push(b" more</think>\n\nYes", Origin.TARGET) + stream.flush()
    assert [(segment.text, segment.reasoning) for segment in shown] == [(" more", True), ("Yes", False)]


@pytest.mark.parametrize(("ended", "text"), [(True, "ab\ufffd"), (False, "ab")])
def test_half_a_character_is_shown_only_at_the_end(ended: bool, text: str) -> None:
    stream = TextStream()
    shown = stream.push(b"ab\xe2\x82", Origin.TARGET) + stream.flush(ended=ended)
    assert "".join(segment.text for segment in shown) == text
