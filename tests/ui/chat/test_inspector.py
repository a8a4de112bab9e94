"""The verify steps of the last answer."""

from dataclasses import replace

import pytest
from textual import events

from app.engine.events import StepDetails
from app.engine.sources import Source
from app.ui.chat.inspector import Inspector, step_rows, step_spans
from app.ui.text import MARK
from tests.ui.driver import Chat, open_chat
from tests.ui.transcript.test_parts import BOTH, ROUND, D, T, says


def wheel(kind: type[events.MouseEvent]) -> events.MouseEvent:
    return kind(None, 0, 0, 0, 0, 0, False, False, False)


def listed(chat: Chat) -> list[str]:
    """Return the numbers of the visible steps, the chosen step with its mark."""
    left, top, width, height = chat.screen.view.inspector.content_region
    found = [row[left : left + width].split(" ms")[0].split() for row in chat.rows[top : top + height]]
    found = [[">", *words[1:]] if words[:1] == [MARK] else words for words in found]
    return ["".join(words[: 1 + (words[0] == ">")]) for words in found if words and words[0][-1] in ">0123456789"]


async def test_keys_and_the_mouse_choose_the_step_that_is_explained() -> None:
    async with open_chat(size=(80, 24)) as chat:
        await chat.pilot.press("f3")
        await chat.send("go")
        for number in range(1, 6):
            says(chat, (f"{number} ", D), details=replace(ROUND, number=number))
        await chat.until(lambda: listed(chat) == [">5", "4", "3"])
        await chat.shows("the target wrote 0 (p .54); the draft said ·len (draft p .61, target p .08)")
        await chat.press("right", "left", until=lambda: listed(chat) == ["5", ">4", "3"])
        await chat.press("left", "left", until=lambda: listed(chat) == ["3", ">2", "1"])
        says(chat, ("6 ", D), details=replace(ROUND, number=6))
        await chat.shows("step 2 of 6")
        assert listed(chat) == ["3", ">2", "1"]
        await chat.press("left", "left", until=lambda: listed(chat) == ["3", "2", ">1"])
        await chat.press("right", until=lambda: listed(chat) == ["3", ">2", "1"])
        await chat.pilot.press("left")
        await chat.pilot.click(Inspector, offset=(10, 2))
        await chat.until(lambda: listed(chat) == ["3", ">2", "1"])
        await chat.pilot.click(Inspector, offset=(10, 6))
        chat.screen.view.inspector.post_message(wheel(events.MouseScrollUp))
        await chat.until(lambda: listed(chat) == ["4", ">3", "2"])
        chat.screen.view.inspector.post_message(wheel(events.MouseScrollDown))
        await chat.until(lambda: listed(chat) == ["3", ">2", "1"])
        await chat.pilot.resize_terminal(80, 60)
        await chat.until(lambda: listed(chat) == ["6", "5", "4", "3", ">2", "1"])


def rows(chosen: int, *rounds: StepDetails, width: int = 100) -> list[str]:
    return [line.plain.rstrip().replace(MARK, ">") for line in step_rows(rounds, chosen, width)]


def test_steps_are_in_columns_and_the_chosen_step_shows_its_cost() -> None:
    plain = replace(ROUND, number=9, drafted=(), sources=(), written=(b"a",), n_accepted=0, total_ns=4_000_000)
    newest = replace(ROUND, number=10, sources=BOTH)
    assert rows(0, newest, plain) == [
        ">    10   both          accepted 3 of 5       38.0 ms, 9.5 ms per token, without draft 34.0 ms",
        "      9   no draft                             4.0 ms   a",
    ]
    assert rows(1, newest, plain) == [
        "     10   both          accepted 3 of 5       38.0 ms   ·pivot ·= ·items 0",
        ">     9   no draft                             4.0 ms, without draft 34.0 ms per token",
    ]
    assert rows(0, newest, width=60) == [">    10   both          3 of 5       38.0 ms"]
    assert rows(1, plain, plain, width=20) == ["      9   no draft …", ">     9   no draft …"]


@pytest.mark.parametrize(
    ("source", "name"),
    [(Source.MODEL, "draft model"), (Source.MTP, "MTP layer"), (Source.EAGLE3, "EAGLE-3"), (Source.NGRAM, "n-gram")],
)
def test_a_step_names_the_source_of_its_draft(source: Source, name: str) -> None:
    (row,) = rows(0, replace(ROUND, sources=(source,) * 5))
    assert row[9:23].strip() == name


def test_no_column_moves_with_the_steps_in_view() -> None:
    few, many = replace(ROUND, number=9), replace(ROUND, number=1_234, sources=BOTH, total_ns=1_234_000_000)
    (alone,), (_, beside) = rows(1, few), rows(2, many, few)
    assert alone == beside


async def test_a_clicked_token_chooses_its_step_and_is_marked() -> None:
    async with open_chat(size=(80, 24)) as chat:
        await chat.pilot.press("f3")
        await chat.send("go")
        says(chat, ("First", T))
        for number, word in enumerate((" one\n", "two", " three"), 1):
            says(chat, (word, D), details=replace(ROUND, number=number, written=(word.encode(),), n_accepted=1))
        await chat.shows("two three")
        await chat.click("two", shows="step 2 of 3")
        await chat.until(lambda: chat.styled("reverse") == ["two"])
        assert chat.screen.view.prompt.has_focus
        await chat.press("left", until=lambda: chat.styled("reverse") == [" one⏎"])
        await chat.click("First", shows="The first token comes with the prompt, before step 1.")
        assert chat.styled("reverse") == [" one⏎"]


def test_a_step_is_found_in_the_text_of_an_answer() -> None:
    steps = [replace(ROUND, written=written) for written in ((b" caf", b"\xc3"), (b"\xa9 and", b" tea"), (b"",))]
    assert step_spans("A café and tea", steps) == [(1, 5), (5, 14), (14, 14)]
    # A reasoning mark is not shown, and the last text may be held back.
    assert step_spans("A caf\n\né and", steps[:1]) == [(1, 5)]


def test_tokens_of_a_row_have_the_color_of_their_source() -> None:
    (line,) = step_rows([ROUND], 1, 100)
    found = [(line.plain[span.start : span.end], str(span.style)) for span in line.spans]
    assert found[-4:] == [("·pivot", "$draft"), ("·=", "$draft"), ("·items", "$draft"), ("0", "$target")]


async def test_a_low_window_has_one_row_and_a_tall_one_more() -> None:
    async with open_chat(size=(80, 14)) as chat:
        await chat.pilot.press("f3")
        await chat.send("go")
        for number in range(1, 30):
            says(chat, (f"{number} ", D), details=replace(ROUND, number=number))
        await chat.shows("step 29 of 29")
        assert "drafted   [" in chat.text
        assert "draft p" not in chat.text
        for size, n in (((80, 14), 1), ((80, 24), 3), ((120, 40), 4), ((200, 60), 9)):
            await chat.pilot.resize_terminal(*size)
            await chat.until(lambda: listed(chat) == [">29", *(str(29 - at) for at in range(1, n))])  # noqa: B023
            await chat.shows("target    [")
