"""Choose, edit, regenerate and continue messages; go from branch to branch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual.geometry import Offset

from app.conversations.message import Message, Prefill, Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.engine.types import FinishReason
from tests.ui.chat_driver import open_chat, said
from tests.ui.conversations_driver import texts
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import (
    answer_with,
    asked,
    chosen,
    everything,
    exchange,
    is_chosen,
    next_request,
    press,
)
from tests.ui.transcript import driver as scrolling


async def test_messages_are_chosen_by_key_and_left_again(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await chat.type("typing")
        await press(chat, "ctrl+up")
        assert chosen(chat) == "second"
        await press(chat, "up", "alt+up")
        assert chosen(chat) == "first"
        await press(chat, "ctrl+down")
        assert chosen(chat) == "two"
        assert "e edit" in chat.rows[-1]
        await press(chat, "escape")
        assert chosen(chat) == ""
        assert "e edit" not in chat.rows[-1]
        await chat.type(" on")
        assert chat.prompt == "typing on"
        await press(chat, "ctrl+up", "down")
        assert chosen(chat) == ""
        assert chat.screen.prompt.has_focus


async def test_letters_typed_after_a_click_go_to_the_input_line(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        n_requests = len(chat.engine.requests)
        await chat.click("first")
        await chat.until(lambda: is_chosen(chat, "first"))
        assert "ctrl+up act on this message" in chat.rows[-1]
        assert "r regenerate" not in chat.rows[-1]
        await chat.type("recycle")
        await chat.until(lambda: not chosen(chat))
        assert (chat.prompt, len(chat.engine.requests)) == ("recycle", n_requests)


async def test_a_key_lets_letters_act_on_a_clicked_message(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await chat.click("first")
        await chat.until(lambda: is_chosen(chat, "first"))
        await press(chat, "ctrl+up")
        assert is_chosen(chat, "first")
        await chat.shows("e edit")
        await chat.click("second")
        await chat.until(lambda: is_chosen(chat, "second"))
        assert chat.screen.prompt.has_focus


async def test_a_prompt_is_edited_into_a_branch_and_the_old_one_is_kept(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "up", "up", "e")
        await chat.shows("Editing the prompt: enter sends it as a new branch.")
        assert chat.prompt == "one"
        await chat.type(" more")
        await next_request(chat, "enter")
        assert asked(chat) == ["one more"]
        assert chat.engine.requests[-1].beside == ("first",)
        assert chat.prompt == "not yet sent"
        await answer_with(chat, "other")
        assert "first" not in chat.text
        assert "Editing" not in chat.text
        assert texts(file) == ["one more", "other"]
        assert len(everything(file)) == 6
        await chat.shows("You   ◂ 2 / 2 ▸")

        await press(chat, "ctrl+up", "up", "left")
        await chat.shows("second")
        await chat.shows("branch 1 of 2, left/right goes between them")
        assert "other" not in chat.text
        assert chosen(chat) == "one"
        assert texts(file) == ["one", "first", "two", "second"]
        await press(chat, "escape")
        await chat.until(lambda: "branch 1 of 2" not in chat.text)
        await exchange(chat, " on this one", "third")
        assert asked(chat) == ["one", "first", "two", "second", "not yet sent on this one"]


async def test_esc_leaves_a_message_as_it_was_and_gives_the_line_back(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "enter")
        assert chat.screen.input_mode.pending_text == "not yet sent"
        await chat.type(" changed")
        assert chat.screen.input_mode.pending_text == "not yet sent\n\none changed"
        assert "esc cancel" in chat.rows[-1]
        await press(chat, "escape")
        await chat.until(lambda: chat.prompt == "not yet sent")
        assert "Editing" not in chat.text
        assert not chat.screen.query(".-changed")
        assert texts(file) == ["one", "first"]


async def test_an_edited_answer_is_a_branch_without_a_request(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "e")
        assert chat.prompt == "first"
        await chat.type(" and last")
        await press(chat, "enter")
        await chat.shows("first and last")
        assert len(chat.engine.requests) == 1
        assert "Answer   ◂ 2 / 2 ▸" in chat.text
        assert texts(file) == ["one", "first and last"]
        await exchange(chat, "two", "second")
        assert asked(chat) == ["one", "first and last", "two"]


async def test_answers_are_branches_and_arrows_go_between_them(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        for text in ("second", "third"):
            await next_request(chat, "ctrl+r")
            await answer_with(chat, text)
        await chat.shows("Answer   ◂ 3 / 3 ▸")
        await press(chat, "ctrl+up", "left")
        await chat.shows("second")
        await chat.shows("◂ 2 / 3 ▸")
        row = next(at for at, line in enumerate(chat.rows) if "◂ 2 / 3 ▸" in line)
        await chat.pilot.click(offset=Offset(chat.rows[row].index("◂"), row))
        await chat.shows("◂ 1 / 3 ▸")
        assert "first" in chat.text
        await press(chat, "left")
        await chat.pilot.click(offset=Offset(chat.rows[row].index("▸"), row))
        await chat.shows("◂ 2 / 3 ▸")
        assert texts(file) == ["one", "second"]
        await press(chat, "escape")
        await exchange(chat, "two", "more")
        assert asked(chat) == ["one", "second", "two"]


@pytest.mark.usefixtures("near")
async def test_going_up_reaches_messages_that_are_not_mounted(file: Path) -> None:
    store = Store(file)
    number = store.create()
    parent: int | None = None
    said = [f"message {n}." + "\n\nmore" * 4 for n in range(24)]
    for n, text in enumerate(said):
        parent = store.add(number, Role.ASSISTANT if n % 2 else Role.USER, text, parent=parent).id
    assert parent is not None
    store.add(number, Role.USER, "another beginning", parent=None)
    store.switch(number, parent)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("message 23.")
        await scrolling.press(chat, "ctrl+up")
        assert scrolling.mounted(chat) < len(said)
        for text in reversed(said[1:]):
            await chat.until(partial(is_chosen, chat, text))
            await scrolling.press(chat, "up")
        await chat.until(lambda: chosen(chat) == said[0])
        await chat.shows("You   ◂ 1 / 2 ▸")


async def test_a_system_message_is_not_edited(file: Path) -> None:
    store = Store(file)
    number = store.create()
    first = store.add(number, Role.SYSTEM, "Be brief.", parent=None)
    store.add(number, Role.USER, "hello", parent=first.id)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("Be brief.")
        await press(chat, "ctrl+up", "up", "e")
        await chat.shows("cannot be edited")
        await press(chat, "r")
        await chat.shows("There is no prompt to answer.")


async def test_editing_an_answer_sends_no_control_sequences(file: Path) -> None:
    store = Store(file)
    number = store.create()
    prompt = store.add(number, Role.USER, "color", parent=None)
    store.add(number, Role.ASSISTANT, "red\x1b[2J\x9b31m \u202eword", parent=prompt.id)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await press(chat, "ctrl+up", "e")
        assert chat.prompt == "red[2J31m word"
        assert "\x1b" not in chat.text
        await press(chat, "enter")
        await chat.until(lambda: not chat.screen.input_mode.is_active)
        assert len(everything(file)) == 2


async def test_the_last_prompt_is_edited_wherever_it_stands(file: Path) -> None:
    async with kept_chat(file, size=(80, 24)) as chat:
        await exchange(chat, "one", "first")
        await chat.exchange("two", "line\n\n" * 60 + "second")
        await press(chat, "ctrl+e")
        await chat.shows("Editing the prompt: enter sends it as a new branch")
        assert chat.prompt == "two"
        assert not chosen(chat)
        await chat.until(lambda: any(row.startswith("┃two") for row in chat.rows))
        await chat.type(" more")
        await next_request(chat, "enter")
        assert asked(chat) == ["one", "first", "two more"]


async def test_in_text_the_key_goes_to_the_end_of_the_line(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("ab")
        await press(chat, "home", "ctrl+e", "c")
        assert chat.prompt == "abc"
        assert not chat.screen.input_mode.is_active


async def test_it_shows_why_there_is_nothing_to_edit_or_not_now(file: Path) -> None:
    async with open_chat() as chat:
        await press(chat, "ctrl+e")
        await chat.shows("There is no prompt to edit.")
    async with kept_chat(file) as chat:
        await chat.send("one")
        await press(chat, "ctrl+e")
        await chat.shows("An answer is being written; esc stops it.")
        assert not chat.screen.input_mode.is_active


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.LENGTH])
async def test_an_answer_that_ended_early_continues_in_place(file: Path, reason: FinishReason) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, two, ", reason)
        await chat.shows("ctrl+g continues")
        await next_request(chat, "ctrl+g")
        request = chat.engine.requests[-1]
        assert request.messages == (Message(Role.USER, "count"),)
        assert request.prefill == Prefill("one, two, ")
        await chat.until(lambda: "ctrl+g" not in chat.text)
        chat.engine.goes_on("three")
        await chat.ready()
        await chat.shows("one, two, three")
        assert everything(file) == [("count", State.COMPLETE), ("one, two, three", State.COMPLETE)]
        await exchange(chat, "and then?", "four")
        assert asked(chat) == ["count", "one, two, three", "and then?"]
        store = Store(file)
        assert store.load(1).tree.nodes[2].stats["reason"] == "stop"
        store.close()


async def test_an_answer_that_a_kill_cut_continues(file: Path) -> None:
    store = Store(file)
    number = store.create()
    prompt = store.add(number, Role.USER, "count", parent=None)
    journal = store.answer(number, prompt.id)
    journal.add("let me see", reasoning=True)
    journal.add("one, two, ")
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("cut before its end; ctrl+g continues")
        await press(chat, "ctrl+up")
        assert "c continue" in chat.rows[-1]
        await next_request(chat, "c")
        assert chat.engine.requests[-1].prefill == Prefill("one, two, ", "let me see")
        chat.engine.says("three")
        await chat.until(lambda: "one, two, three" in texts(file))
        assert everything(file)[-1] == ("one, two, three", State.WRITING)
    assert everything(file)[-1] == ("one, two, three", State.CUT)


async def test_a_message_is_deleted_by_the_same_key_twice(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.pilot.press("ctrl+up", "up", "delete")
        await chat.shows("Press del again to delete this prompt and its answers")
        await chat.pilot.press("delete")
        await chat.until(lambda: said(chat) == ["You", "one", "Answer", "first"])


async def test_a_conversation_is_forked_at_a_message(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.exchange("two", "second")
        await chat.pilot.press("ctrl+up", "up", "up", "f")
        await chat.until(lambda: said(chat) == ["You", "one", "Answer", "first"])
        assert chat.screen.library.conversation == 2
