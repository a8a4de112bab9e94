"""Choosing messages, editing them, other answers, more of an answer, and going from branch to branch."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from textual.geometry import Offset

from app.chat.message import Begun, Message, Role
from app.chat.store import Store
from app.chat.tree import State
from app.engine.types import FinishReason
from app.errors import AppError
from app.ui.chat.session import Phase
from app.ui.messages.message import UserMessage
from tests.ui.chat_driver import Chat, open_chat


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@asynccontextmanager
async def kept_chat(file: Path, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Chat]:
    async with open_chat(store=lambda: Store.open(file), size=size) as chat:
        yield chat


def texts(file: Path, conversation: int = 1) -> list[str]:
    store = Store.open(file)
    path = store.load(conversation).tree.path
    store.close()
    return [node.text for node in path]


def everything(file: Path) -> list[tuple[str, State]]:
    store = Store.open(file)
    nodes = store.load(1).tree.nodes.values()
    store.close()
    return [(node.text, node.state) for node in nodes]


def asked(chat: Chat) -> list[str]:
    """What the last request says, message by message."""
    return [message.content for message in chat.engine.requests[-1].messages]


async def exchange(chat: Chat, prompt: str, answer: str) -> None:
    await chat.send(prompt)
    await answer_with(chat, answer)


async def answer_with(chat: Chat, text: str, reason: FinishReason = FinishReason.STOP) -> None:
    chat.engine.says(text)
    chat.engine.finishes(reason)
    await chat.ready()
    await chat.shows(text.strip("` "))


async def press(chat: Chat, *keys: str) -> None:
    for key in keys:
        await chat.pilot.press(key)
        await chat.pilot.pause()


async def next_request(chat: Chat, *keys: str) -> None:
    """Press keys that ask the engine for something."""
    count = len(chat.engine.requests)
    await press(chat, *keys)
    await chat.until(lambda: len(chat.engine.requests) > count)


def chosen(chat: Chat) -> str:
    speech = chat.screen.messages.chosen
    return speech.text if speech is not None else ""


def is_chosen(chat: Chat, text: str) -> bool:
    return chosen(chat) == text


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


async def test_without_messages_there_is_nothing_to_choose(file: Path) -> None:
    async with kept_chat(file) as chat:
        await press(chat, "ctrl+up")
        assert chosen(chat) == ""
        assert chat.screen.prompt.has_focus


async def test_a_click_chooses_and_the_mark_is_in_the_margin(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        row = next(at for at, line in enumerate(chat.rows) if "one" in line)
        assert chat.rows[row].startswith(" one")
        await chat.pilot.click(offset=Offset(2, row))
        await chat.until(lambda: chosen(chat) == "one")
        assert chat.rows[row].startswith("┃one")
        await chat.pilot.click("PromptInput")
        await chat.until(lambda: chosen(chat) == "")


async def test_a_prompt_is_edited_into_a_branch_and_the_old_one_is_kept(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "up", "up", "e")
        await chat.shows("Editing: enter asks it as a branch, esc leaves it as it was.")
        assert chat.prompt == "one"
        await chat.type(" more")
        await next_request(chat, "enter")
        assert asked(chat) == ["one more"]
        assert chat.prompt == "not yet sent"
        await answer_with(chat, "other")
        assert "first" not in chat.text
        assert "Editing" not in chat.text
        assert texts(file) == ["one more", "other"]
        assert len(everything(file)) == 6
        await chat.shows("You   ◂ 2 / 2 ▸")

        await press(chat, "ctrl+up", "up", "left")
        await chat.shows("second")
        assert "other" not in chat.text
        assert chosen(chat) == "one"
        assert texts(file) == ["one", "first", "two", "second"]
        await press(chat, "escape")
        await exchange(chat, " on this one", "third")
        assert asked(chat) == ["one", "first", "two", "second", "not yet sent on this one"]


async def test_esc_leaves_a_message_as_it_was_and_gives_the_line_back(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "enter")
        assert chat.screen.unsent == "not yet sent"
        await chat.type(" changed")
        assert chat.screen.unsent == "not yet sent\none changed"
        assert "esc leave it" in chat.rows[-1]
        await press(chat, "escape")
        await chat.until(lambda: chat.prompt == "not yet sent")
        assert "Editing" not in chat.text
        assert not chat.screen.query(".-changed")
        assert texts(file) == ["one", "first"]


async def test_a_prompt_sent_unchanged_is_answered_once_more(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "up", "e")
        await next_request(chat, "enter")
        await answer_with(chat, "second")
        assert [text for text, _ in everything(file)] == ["one", "first", "second"]
        await chat.shows("Answer   ◂ 2 / 2 ▸")


async def test_an_answer_is_edited_without_a_new_one_and_gone_on_from(file: Path) -> None:
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


async def test_the_numbers_of_an_answer_go_when_it_is_written_anew(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        assert chat.screen.status.numbers is not None
        await press(chat, "ctrl+up", "e")
        await chat.type(" and last")
        await press(chat, "enter")
        await chat.shows("first and last")
        assert chat.screen.status.numbers is None


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


async def test_the_branch_that_was_shown_is_there_at_the_next_start(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await next_request(chat, "ctrl+r")
        await answer_with(chat, "second")
        await press(chat, "ctrl+up", "left")
        await chat.shows("first")
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(1)
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        assert "first" in chat.text


async def test_an_earlier_prompt_is_answered_again_as_a_branch(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await press(chat, "ctrl+up", "up", "up")
        assert chosen(chat) == "first"
        await next_request(chat, "r")
        assert asked(chat) == ["one"]
        await answer_with(chat, "better")
        assert "second" not in chat.text
        assert texts(file) == ["one", "better"]
        await exchange(chat, "three", "third")
        assert asked(chat) == ["one", "better", "three"]


async def test_a_second_answer_that_fails_leaves_everything_as_it_was(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await exchange(chat, "two", "second")
        await press(chat, "ctrl+up", "up", "up")
        await next_request(chat, "r")
        chat.engine.says("half")
        chat.engine.fails(AppError("It broke."))
        await chat.shows("It broke.")
        assert "second" in chat.text
        assert texts(file) == ["one", "first", "two", "second"]
        await exchange(chat, "three", "third")
        assert asked(chat) == ["one", "first", "two", "second", "three"]
        assert texts(file) == ["one", "first", "two", "second", "three", "third"]


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.LENGTH])
async def test_an_answer_that_ended_early_goes_on_in_place(file: Path, reason: FinishReason) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, two, ", reason)
        await chat.shows("ctrl+g continues")
        await next_request(chat, "ctrl+g")
        request = chat.engine.requests[-1]
        assert request.messages == (Message(Role.USER, "count"),)
        assert request.begun == Begun("one, two, ")
        await chat.until(lambda: "ctrl+g" not in chat.text)
        chat.engine.goes_on("three")
        await chat.ready()
        await chat.shows("one, two, three")
        assert everything(file) == [("count", State.COMPLETE), ("one, two, three", State.COMPLETE)]
        await exchange(chat, "and then?", "four")
        assert asked(chat) == ["count", "one, two, three", "and then?"]
        store = Store.open(file)
        stats = store.stats(2)
        assert [part["reason"] for part in stats["earlier"]] == [reason.value]
        assert stats["reason"] == "stop"
        store.close()


async def test_an_answer_that_a_kill_cut_goes_on(file: Path) -> None:
    store = Store.open(file)
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
        assert chat.engine.requests[-1].begun == Begun("one, two, ", "let me see")
        chat.engine.says("three")
        await chat.until(lambda: "one, two, three" in texts(file))
        assert everything(file)[-1] == ("one, two, three", State.WRITING)
    assert everything(file)[-1] == ("one, two, three", State.CUT)


async def test_a_failed_answer_goes_on_and_then_counts(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        chat.engine.says("one, ")
        chat.engine.fails(AppError("It broke."))
        await chat.shows("It broke.")
        assert chat.prompt == "count"
        assert "ctrl+g continues" in chat.text
        await next_request(chat, "ctrl+up", "c")
        assert chat.prompt == ""
        await chat.until(lambda: "It broke." not in chat.text)
        chat.engine.goes_on("two")
        await chat.ready()
        assert texts(file) == ["count", "one, two"]
        await exchange(chat, "more", "three")
        assert asked(chat) == ["count", "one, two", "more"]


async def test_more_of_an_answer_that_fails_keeps_both_parts(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.CANCELLED)
        await next_request(chat, "ctrl+g")
        chat.engine.says("two, ")
        chat.engine.fails(AppError("It broke."))
        await chat.shows("It broke.")
        assert everything(file)[-1] == ("one, two, ", State.STOPPED)
        assert chat.prompt == ""
        await next_request(chat, "ctrl+g")
        assert chat.engine.requests[-1].begun == Begun("one, two, ")
        chat.engine.goes_on("three")
        await chat.ready()
        assert texts(file) == ["count", "one, two, three"]


async def test_more_of_an_answer_that_is_stopped_at_once_changes_nothing(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.LENGTH)
        await next_request(chat, "ctrl+g")
        chat.engine.goes_on("", FinishReason.CANCELLED)
        await chat.ready()
        assert everything(file)[-1] == ("one, ", State.CUT)
        await next_request(chat, "ctrl+g")
        chat.engine.goes_on("")
        await chat.ready()
        assert everything(file)[-1] == ("one, ", State.COMPLETE)
        await press(chat, "ctrl+g")
        await chat.shows("The last answer is at its end.")


async def test_where_nothing_was_answered_nothing_is_gone_on_with(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        chat.engine.fails(AppError("It broke."))
        await chat.ready()
        await press(chat, "ctrl+g")
        await chat.shows("There is no answer to go on with.")


async def test_an_answer_with_replies_is_not_gone_on_with(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("count")
        await answer_with(chat, "one, ", FinishReason.CANCELLED)
        await exchange(chat, "go on", "two")
        assert "ctrl+g" not in chat.text
        await press(chat, "ctrl+up", "up", "up")
        assert "c continue" not in chat.rows[-1]
        await press(chat, "c")
        assert len(chat.engine.requests) == 2


async def test_nothing_is_changed_while_an_answer_is_written(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.send("two")
        chat.engine.says("sec")
        await chat.shows("sec")
        await press(chat, "ctrl+up", "up", "up", "up")
        assert chosen(chat) == "one"
        for key in ("e", "r"):
            await press(chat, key)
            await chat.shows("An answer is being written; esc stops it.")
        assert len(chat.engine.requests) == 2
        assert chat.prompt == ""


async def test_what_was_edited_during_an_answer_waits_for_its_end(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "up", "e")
        await chat.type(" more")
        chat.screen.session.phase = Phase.ANSWERING
        await press(chat, "enter")
        await chat.shows("An answer is being written; esc stops it.")
        assert chat.prompt == "one more"
        assert chat.screen.tasks.has_task
        chat.screen.session.phase = Phase.READY
        await next_request(chat, "enter")
        assert asked(chat) == ["one more"]


async def test_leaving_the_conversation_leaves_what_was_edited(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("draft")
        await press(chat, "ctrl+up", "up", "e")
        await press(chat, "ctrl+n")
        await chat.until(lambda: chat.answers == [])
        assert chat.prompt == ""
        assert "Editing" not in chat.text
        store = Store.open(file)
        assert store.load(1).draft == "draft"
        store.close()


@pytest.mark.parametrize("unsent", ["", "unsent"])
async def test_a_change_that_was_not_sent_comes_back_with_the_conversation(file: Path, unsent: str) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type(unsent)
        await press(chat, "ctrl+up", "up", "e")
        await chat.type(" more")
        kept = f"{unsent}\none more".strip()
        await press(chat, "ctrl+n")
        await chat.until(lambda: chat.answers == [])
        assert chat.prompt == ""
        await chat.screen.open_conversation(1)
        assert chat.prompt == kept
    store = Store.open(file)
    assert store.load(1).draft == kept
    store.close()


async def test_a_change_is_on_disk_before_it_is_sent(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "e")
        await chat.type(" of many words")
        chat.screen._unsent.keep()
        store = Store.open(file)
        assert store.load(1).draft == "first of many words"
        await press(chat, "escape")
        chat.screen._unsent.keep()
        assert store.load(1).draft == ""
        store.close()


async def test_what_a_disk_refuses_is_said_in_sight_of_a_long_answer(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.send("two")
        store = chat.screen.keeper._disk.store
        assert store is not None
        store._database.connection.execute("PRAGMA query_only = ON")
        chat.engine.says("line\n\n" * 60)
        chat.engine.finishes()
        await chat.ready()
        await chat.until(lambda: "cannot be written. Check the folder" in " ".join(chat.text.split()))
        assert not store.on_disk
    assert texts(file)[2:] == ["two", "line\n\n" * 60]


async def test_without_a_store_there_are_no_branches() -> None:
    async with open_chat() as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up")
        assert chosen(chat) == "first"
        await press(chat, "e", "r")
        assert len(chat.engine.requests) == 1
        assert chat.prompt == ""


async def test_a_long_branch_is_shown_from_where_it_begins(file: Path) -> None:
    store = Store.open(file)
    number = store.create()
    leaf = store.add(number, Role.USER, "the other one", parent=None).id
    parent: int | None = None
    for n in range(60):
        parent = store.add(number, Role.ASSISTANT if n % 2 else Role.USER, f"message {n}.", parent=parent).id
    store.switch(number, leaf)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("You   ◂ 1 / 2 ▸")
        await press(chat, "ctrl+up", "right")
        await chat.until(lambda: chosen(chat) == "message 0.")
        await chat.shows("You   ◂ 2 / 2 ▸")
        assert len(chat.screen.query(UserMessage)) < 30
        await press(chat, "ctrl+end")
        await chat.shows("message 59.")


async def test_going_up_reaches_messages_that_are_not_mounted(file: Path) -> None:
    store = Store.open(file)
    number = store.create()
    parent: int | None = None
    for n in range(50):
        parent = store.add(number, Role.ASSISTANT if n % 2 else Role.USER, f"message {n}.", parent=parent).id
    assert parent is not None
    store.add(number, Role.USER, "another beginning", parent=None)
    store.switch(number, parent)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("message 49.")
        await press(chat, "ctrl+up")
        for n in range(49, 0, -1):
            await chat.until(partial(is_chosen, chat, f"message {n}."))
            await press(chat, "up")
        await chat.until(lambda: chosen(chat) == "message 0.")
        await chat.shows("You   ◂ 1 / 2 ▸")


async def test_a_system_message_is_not_edited(file: Path) -> None:
    store = Store.open(file)
    number = store.create()
    first = store.add(number, Role.SYSTEM, "Be brief.", parent=None)
    store.add(number, Role.USER, "hello", parent=first.id)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await chat.shows("Be brief.")
        await press(chat, "ctrl+up", "up", "e")
        await chat.shows("set before the conversation begins")
        await press(chat, "r")
        await chat.shows("There is no prompt that it answers.")


@pytest.mark.parametrize("markup", ["[red]x[/red]", "[/nonsense]"])
async def test_what_was_said_is_not_markup_when_it_is_edited(file: Path, markup: str) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, markup, f"`{markup}`")
        await press(chat, "ctrl+up", "up", "e")
        assert chat.prompt == markup
        await press(chat, "escape")
        await press(chat, "ctrl+up")
        assert chosen(chat) == f"`{markup}`"


async def palette(chat: Chat, command: str) -> None:
    for entry in chat.pilot.app.get_system_commands(chat.screen):
        if entry.title == command:
            result = entry.callback()
            if result is not None:
                await result
            await chat.pilot.pause()
            return
    raise AssertionError(f"there is no command {command}")


def commands(chat: Chat) -> set[str]:
    return {entry.title for entry in chat.pilot.app.get_system_commands(chat.screen)}


async def test_a_conversation_is_renamed_and_named_after_its_text_again(file: Path) -> None:
    async with kept_chat(file) as chat:
        assert "Rename" not in commands(chat)
        await exchange(chat, "why is the sky blue?", "Rayleigh")
        await chat.type("draft")
        await palette(chat, "Rename")
        await chat.shows("Renaming the conversation")
        assert chat.prompt == "why is the sky blue?"
        await press(chat, "ctrl+a")
        chat.screen.prompt.clear()
        await chat.type("Sky")
        await press(chat, "enter")
        await chat.shows("The conversation is called “Sky”.")
        assert chat.prompt == "draft"
        assert len(chat.engine.requests) == 1
        await palette(chat, "Title from the text")
        await chat.shows("“why is the sky blue?”")
        assert "Title from the text" not in commands(chat)


async def test_a_conversation_is_pinned_and_unpinned(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await palette(chat, "Pin")
        await chat.shows("“one” is pinned.")
        assert "Pin" not in commands(chat)
        await palette(chat, "Unpin")
        await chat.shows("“one” is no longer pinned.")


async def test_a_conversation_is_deleted_and_brought_back(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await palette(chat, "Delete")
        await chat.shows("“one” is deleted; ctrl+p, Undelete brings it back.")
        assert chat.answers == []
        await palette(chat, "Undelete")
        await chat.shows("first")
        await exchange(chat, "two", "second")
        assert texts(file) == ["one", "first", "two", "second"]


async def test_an_answer_that_is_edited_does_not_steer_the_terminal(file: Path) -> None:
    store = Store.open(file)
    number = store.create()
    prompt = store.add(number, Role.USER, "colour", parent=None)
    store.add(number, Role.ASSISTANT, "red\x1b[2J\x9b31m \u202eword", parent=prompt.id)
    store.close()
    async with kept_chat(file) as chat:
        await chat.screen.open_conversation(number)
        await press(chat, "ctrl+up", "e")
        assert chat.prompt == "red[2J31m word"
        assert "\x1b" not in chat.text
        await press(chat, "enter")
        await chat.until(lambda: not chat.screen.tasks.has_task)
        assert len(everything(file)) == 2


async def test_an_edit_that_names_a_missing_file_stays_an_edit(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "e")
        await chat.type(" @nots.md")
        await press(chat, "enter")
        await chat.shows("There is no file nots.md. Enter again sends")
        await chat.until(lambda: chat.prompt == "one @nots.md")
        assert chat.screen.tasks.has_task
        assert chat.screen.unsent == "not yet sent\none @nots.md"
        await next_request(chat, "enter")
        assert asked(chat) == ["one @nots.md"]
        assert chat.prompt == "not yet sent"


async def test_going_to_another_branch_leaves_what_is_edited(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await next_request(chat, "ctrl+r")
        await answer_with(chat, "second")
        await chat.type("typed")
        for key in ("left", "r"):
            await press(chat, "ctrl+up", "e")
            assert chat.screen.tasks.has_task
            await press(chat, "ctrl+up", key)
            await chat.until(lambda: not chat.screen.tasks.has_task)
            assert chat.prompt == "typed"
        await answer_with(chat, "third", FinishReason.CANCELLED)
        await press(chat, "ctrl+up", "e")
        await next_request(chat, "ctrl+g")
        assert not chat.screen.tasks.has_task
        assert chat.prompt == "typed"


async def test_only_what_was_asked_is_offered_as_a_past_prompt(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "e")
        await chat.type(" changed")
        await press(chat, "enter")
        await chat.shows("first changed")
        await palette(chat, "Rename")
        await chat.type(" title")
        await press(chat, "enter")
        await chat.shows("is called")
        await press(chat, "up")
        assert chat.prompt == "one"
        await press(chat, "down", "ctrl+up", "up", "e")
        await chat.type(" more")
        await next_request(chat, "enter")
        await answer_with(chat, "second")
        await press(chat, "up")
        assert chat.prompt == "one more"


async def test_a_prompt_that_begins_with_a_slash_comes_back_as_it_was_typed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.send("//help me")
        assert asked(chat) == ["/help me"]
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == "//help me")
        await next_request(chat, "ctrl+r")
        assert chat.prompt == ""
        await answer_with(chat, "first")
        await press(chat, "ctrl+up", "up", "e")
        assert chat.prompt == "//help me"
        await next_request(chat, "enter")
        assert asked(chat) == ["/help me"]
        await answer_with(chat, "second")
    async with kept_chat(file) as chat:
        await chat.until(lambda: chat.screen.keeper.is_open)
        await press(chat, "up")
        assert chat.prompt == "//help me"


async def test_a_refused_command_comes_back_as_it_was_typed(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.type("/draft maybe")
        await press(chat, "enter")
        await chat.shows("Give it as /draft")
        assert chat.prompt == "/draft maybe"


async def test_after_a_waiting_prompt_is_taken_back_an_answer_is_replaced(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        chat.screen.session.phase = Phase.LOADING
        await chat.type("two")
        await press(chat, "enter")
        await chat.until(lambda: chat.screen.session.waiting == "two")
        await chat.type("three")
        assert chat.screen.unsent == "two\nthree"
        chat.screen.prompt.clear()
        await press(chat, "escape")
        await chat.until(lambda: chat.prompt == "two")
        chat.screen.session.phase = Phase.READY
        await next_request(chat, "ctrl+r")
        await answer_with(chat, "second")
        assert [answer.text for answer in chat.answers] == ["second"]
