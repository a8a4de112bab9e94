"""Choose, edit, regenerate and continue messages; switch between branches."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Offset

from app.conversations.message import Prefill, Role
from app.core.pictures import PictureLimits
from app.engine.types import FinishReason
from app.ui.text import MARK
from app.ui.transcript.message import MessageItem
from tests.ui.driver import (
    everything,
    keep,
    kept_chat,
    texts,
)


async def test_messages_are_chosen_by_key_and_left_again(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.type("typing")
        await chat.press("ctrl+up")
        assert chat.chosen == "second"
        await chat.press("up", "alt+up")
        assert chat.chosen == "first"
        await chat.press("ctrl+down")
        assert chat.chosen == "two"
        assert "enter edit" in chat.rows[-1]
        await chat.press("escape")
        assert chat.chosen == ""
        assert "enter edit" not in chat.rows[-1]
        await chat.type(" on")
        assert chat.prompt == "typing on"
        await chat.press("ctrl+up", "down")
        assert chat.chosen == ""
        assert chat.screen.view.prompt.has_focus


async def test_letters_typed_after_a_click_go_to_the_input_line(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        n_requests = len(chat.engine.requests)
        await chat.click("first", until=lambda: chat.chosen == "first")
        assert "ctrl+up act on this message" in chat.rows[-1]
        assert "esc back" not in chat.rows[-1]
        await chat.type("recycle")
        await chat.until(lambda: not chat.chosen)
        assert (chat.prompt, len(chat.engine.requests)) == ("recycle", n_requests)


@pytest.mark.parametrize("keys", [("ctrl+up",), ("ctrl+up", "up"), ("alt+c",)])
async def test_text_typed_while_a_message_is_chosen_goes_to_the_prompt(file: Path, keys: Sequence[str]) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "```\ncode\n```")
        n_requests, before = len(chat.engine.requests), everything(file)
        for n, text in enumerate(("run it", "refactor: 5 jkoycen", "/x", "Ünd?")):
            await chat.pilot.press(*keys)
            await chat.until(lambda: chat.screen.view.messages.has_focus)
            await chat.type(text)
            assert (chat.chosen, chat.screen.view.messages.has_focus) == ("", False)
            assert chat.prompt == "run itrefactor: 5 jkoycen/xÜnd?"[: len(chat.prompt)]
            if n == 1:
                await chat.pilot.press(*keys)
                await chat.until(lambda: chat.screen.view.messages.has_focus)
                chat.app.post_message(events.Paste("rm"))
                await chat.until(lambda: chat.prompt.endswith("rm"))
                await chat.press("backspace", "backspace")
        assert (len(chat.engine.requests), everything(file)) == (n_requests, before)


async def test_the_prompt_line_says_what_keys_act_on(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "```\ncode\n```")
        await chat.type("unsent")

        def prompt_line() -> str:
            return chat.rows[chat.screen.view.prompt.region.y].strip()

        await chat.pilot.press("ctrl+up")
        await chat.until(lambda: prompt_line() == "┃ keys act on the chosen message; esc or typing returns here")
        await chat.pilot.press("tab")
        await chat.until(lambda: prompt_line() == "┃ f8 copies code block 1; esc or typing returns here")
        await chat.press("escape", until=lambda: prompt_line() == f"{MARK} unsent")
        await chat.press("ctrl+up", "backspace", until=lambda: prompt_line() == f"{MARK} unsen")


async def test_a_key_lets_keys_act_on_a_clicked_message(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.click("first", until=lambda: chat.chosen == "first")
        await chat.press("ctrl+up")
        assert chat.chosen == "first"
        await chat.shows("enter edit")
        await chat.click("second", until=lambda: chat.chosen == "second")
        assert chat.screen.view.prompt.has_focus


async def test_a_prompt_is_edited_into_a_branch_and_the_old_one_is_kept(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.type("not yet sent")
        await chat.press(
            "ctrl+up", "up", "up", "up", "enter", shows="Editing the prompt: enter sends it as a new branch."
        )
        assert chat.prompt == "one"
        await chat.type(" more")
        await chat.next_request("enter")
        assert chat.asked == ["one more"]
        assert chat.prompt == "not yet sent"
        await chat.answer("other")
        assert "first" not in chat.text
        assert "Editing" not in chat.text
        await chat.shows("You   ◂ 2 / 2 ▸")

        await chat.press("ctrl+up", "up", "left", shows="second")
        await chat.shows("branch 1 of 2, left/right goes between them")
        assert "other" not in chat.text
        assert chat.chosen == "one"
        await chat.press("escape", until=lambda: "branch 1 of 2" not in chat.text)


async def test_esc_leaves_a_message_as_it_was_and_gives_the_line_back(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.type("not yet sent")
        await chat.press("ctrl+up", "up", "enter")
        assert chat.screen.controller.line.pending_text == "not yet sent"
        await chat.type(" changed")
        assert chat.screen.controller.line.pending_text == "not yet sent\n\none changed"
        assert "esc cancel" in chat.rows[-1]
        await chat.press("escape", until=lambda: chat.prompt == "not yet sent")
        assert "Editing" not in chat.text
        assert not any(message.is_edited for message in chat.screen.view.messages.messages)
        assert texts(file) == ["one", "first"]


async def test_answers_are_branches_and_arrows_go_between_them(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        for text in ("second", "third"):
            await chat.next_request("ctrl+r")
            await chat.answer(text)
        await chat.shows("Answer   ◂ 3 / 3 ▸")
        await chat.press("ctrl+up", "left", shows="second")
        await chat.shows("◂ 2 / 3 ▸")
        row = next(at for at, line in enumerate(chat.rows) if "◂ 2 / 3 ▸" in line)
        await chat.pilot.click(offset=Offset(chat.rows[row].index("◂"), row))
        await chat.shows("◂ 1 / 3 ▸")
        assert "first" in chat.text
        await chat.press("left")
        await chat.pilot.click(offset=Offset(chat.rows[row].index("▸"), row))
        await chat.shows("◂ 2 / 3 ▸")
        assert texts(file) == ["one", "second"]


async def test_a_system_message_is_not_edited(file: Path) -> None:
    number = keep(file, "Be brief.", "hello", roles=(Role.SYSTEM, Role.USER))
    async with kept_chat(file) as chat:
        await chat.screen.controller.open_conversation(number)
        await chat.shows("Be brief.")
        await chat.press("ctrl+up", "up", "enter", shows="cannot be edited")
        await chat.press("ctrl+r", shows="There is no prompt to answer.")


async def test_editing_an_answer_sends_no_control_sequences(file: Path) -> None:
    number = keep(file, "color", "red\x1b[2J\x9b31m \u202eword")
    async with kept_chat(file) as chat:
        await chat.screen.controller.open_conversation(number)
        await chat.press("ctrl+up", "enter")
        assert chat.prompt == "red[2J31m word"
        assert "\x1b" not in chat.text
        await chat.press("enter", until=lambda: not chat.screen.controller.line.is_borrowed)
        assert len(everything(file)) == 2


async def test_the_last_prompt_is_edited_wherever_it_stands(file: Path) -> None:
    async with kept_chat(file, size=(80, 24)) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "line\n\n" * 60 + "second")
        await chat.press("ctrl+e", shows="Editing the prompt: enter sends it as a new branch")
        assert chat.prompt == "two"
        assert not chat.chosen
        await chat.until(lambda: any(row.startswith("┃two") for row in chat.rows))
        await chat.type(" more")
        await chat.next_request("enter")
        assert chat.asked == ["one", "first", "two more"]


async def test_ctrl_e_goes_to_the_end_of_the_line_in_text(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.type("ab")
        await chat.press("home", "ctrl+e", "c")
        assert chat.prompt == "abc"
        assert not chat.screen.controller.line.is_borrowed


async def test_an_answer_that_ended_early_continues_in_place(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await chat.answer("one, two, ", FinishReason.LENGTH)
        await chat.shows("ctrl+g continues")
        await chat.next_request("ctrl+g")
        assert chat.engine.requests[-1].prefill == Prefill("one, two, ")
        await chat.until(lambda: "ctrl+g" not in chat.text)
        await chat.answer("three")
        await chat.shows("one, two, three")


async def test_a_deleted_message_is_restored_by_the_key_that_is_named(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        messages = chat.screen.view.messages

        async def holds(*texts: str) -> None:
            await chat.until(
                lambda: [item.text for item in messages.items if isinstance(item, MessageItem)] == [*texts]
            )

        await chat.press("ctrl+up", "up", "delete", shows="Deleted the prompt and its answers; ctrl+_ restores them.")
        await holds("one", "first")
        # The previous message has the keys now.
        assert messages.chosen is not None
        assert messages.has_focus
        await chat.pilot.press("ctrl+underscore")
        await holds("one", "first", "two", "second")
        await chat.press("escape", "ctrl+up", "delete", shows="Deleted the answer; ctrl+_ restores it.")
        await chat.pilot.press("escape", "ctrl+underscore")
        await holds("one", "first", "two", "second")
        await chat.pilot.press("escape")
        await chat.type("abc")
        await chat.pilot.press("ctrl+underscore")
        assert chat.prompt == ""


async def test_a_conversation_is_forked_at_a_message(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.pilot.press("ctrl+up", "up", "up", "ctrl+k")
        await chat.until(lambda: chat.said == ["You", "one", "Answer", "first"])
        assert chat.screen.session.conversation.number == 2


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Reading `report.pdf` in the current folder takes until this event is set, or until it is stopped."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.pdf").touch()
    event = threading.Event()

    def read(path: Path, name: str, limits: PictureLimits, is_cancelled: Callable[[], bool]) -> str:
        while not event.wait(0.01) and not is_cancelled():
            pass
        return "words of the report"

    monkeypatch.setattr("app.ui.composer.included_files.read_included", read)
    return event


async def test_a_file_that_is_read_is_shown_and_the_next_prompt_can_be_typed(
    file: Path, released: threading.Event
) -> None:
    async with kept_chat(file) as chat:
        await chat.enter("sum up @report.pdf", "reading report.pdf")
        assert "esc stop" in chat.rows[-1]
        await chat.type("next")
        for keys in (["enter"], ["ctrl+n"]):
            await chat.press(*keys, shows="are being read; esc stops it.")
        assert (chat.prompt, chat.engine.requests) == ("next", [])

        released.set()
        await chat.until(lambda: len(chat.engine.requests) == 1)
        assert "words of the report" in chat.asked[-1]
        assert "reading report.pdf" not in chat.text


@pytest.mark.parametrize("edits", [False, True])
async def test_escape_stops_the_reading_of_a_file_and_the_prompt_comes_back(
    file: Path, released: threading.Event, edits: bool
) -> None:
    async with kept_chat(file) as chat:
        if edits:
            await chat.exchange("one", "first")
            await chat.press("ctrl+e", shows="Editing the prompt")
        n_requests, before = len(chat.engine.requests), chat.prompt
        await chat.enter(" @report.pdf @typo", "reading report.pdf")
        await chat.press("escape", shows="Reading was stopped; the prompt was not sent.")
        released.set()
        await chat.press("enter", shows="No file matches @typo.")
        released.clear()
        await chat.press("enter", shows="reading report.pdf")
        await chat.type("next")
        await chat.press("escape", shows="Reading was stopped; the prompt was not sent.")
        assert (chat.prompt, len(chat.engine.requests)) == (f"{before} @report.pdf @typo\nnext", n_requests)
        assert "reading report.pdf" not in chat.text
        assert chat.screen.controller.line.is_borrowed is edits


async def test_nothing_else_happens_to_a_prompt_while_the_files_of_its_edit_are_read(
    file: Path, released: threading.Event
) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.press("ctrl+e", shows="Editing the prompt")
        await chat.enter(" @report.pdf", "reading report.pdf")
        for action in ("edit_last", "rename", "system", "find", "again"):
            chat.screen.view.hint.forget()
            chat.screen.action_do(action)
            await chat.shows("are being read; esc stops it.")
            assert chat.prompt == ""
        await chat.press("ctrl+up", "delete", shows="are being read; esc stops it.")
        await chat.press("down", "down", "escape", shows="Reading was stopped; the prompt was not sent.")
        assert chat.prompt == "one @report.pdf"
        assert chat.screen.controller.line.is_borrowed
        released.set()
        await chat.next_request("enter")
        assert "words of the report" in chat.asked[-1]


@pytest.mark.parametrize("keys", [("enter",), ("ctrl+x", "escape")], ids=["open", "delete"])
async def test_no_other_conversation_is_opened_while_the_files_of_a_prompt_are_read(
    file: Path, released: threading.Event, keys: Sequence[str]
) -> None:
    keep(file, "rivers", "The answer")
    async with kept_chat(file, again=len(keys) > 1) as chat:
        await chat.enter("sum up @report.pdf", "reading report.pdf")
        await chat.list_conversations()
        await chat.press(*keys, shows="are being read; esc stops it.")
        released.set()
        await chat.until(lambda: len(chat.engine.requests) == 1)
        assert "words of the report" in chat.asked[-1]


async def test_a_prompt_whose_file_is_read_at_the_end_of_the_program_comes_back(
    file: Path, released: threading.Event
) -> None:
    async with kept_chat(file) as chat:
        await chat.enter("sum up @report.pdf", "reading report.pdf")
        await chat.press("ctrl+q", until=lambda: not chat.app.is_running)
    async with kept_chat(file) as chat:
        await chat.until(lambda: chat.prompt == "sum up @report.pdf")


async def test_the_reading_of_a_file_for_a_comparison_is_stopped_by_escape_or_at_the_end_of_the_program(
    file: Path, released: threading.Event
) -> None:
    async with kept_chat(file) as chat:
        await chat.type("@report.pdf ")
        await chat.press("f2", shows="reading report.pdf")
        await chat.press("escape", shows="Reading was stopped")
        assert chat.is_in_front
        await chat.press("f2", shows="reading report.pdf")
        await chat.press("ctrl+q", until=lambda: not chat.app.is_running)
        assert chat.app.return_code == 0
