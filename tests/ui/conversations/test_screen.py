"""Storing and reopening conversations, over a scripted engine and a real store."""

from pathlib import Path

import pytest

from app.conversations.store import Store
from app.ui.text import MARK
from tests.ui.driver import fill, keep, open_chat, texts


async def test_the_smallest_window_has_a_line_for_what_is_found(file: Path) -> None:
    fill(file, "Trieste")
    async with open_chat(store=lambda: Store(file), size=(20, 6)) as chat:
        await chat.list_conversations()
        await chat.shows("Trieste")


async def test_a_conversation_is_found_opened_and_continued(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.shows("mountains")
        assert "rivers" in chat.text
        await chat.pilot.press(*"rivers", "enter")
        await chat.in_front()
        await chat.shows("The answer about rivers is long.")
        await chat.send("and lakes?")
        assert [m.content for m in chat.engine.requests[0].messages] == [
            "rivers",
            "The answer about rivers is long.",
            "and lakes?",
        ]
        await chat.answer("Lakes.")
        assert texts(file, 1)[-2:] == ["and lakes?", "Lakes."]


async def test_a_hit_that_the_title_shows_whole_is_not_shown_again_below_it(file: Path) -> None:
    title = "Write a quicksort in Python, with comments and tests, please"
    keep(file, title, "It picks a pivot.")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.press(*"quick", shows=f"{MARK} quick")
        await chat.until(lambda: chat.text.count(title) == 1)
        await chat.press(*["backspace"] * 5, *"pivot", shows="It picks a pivot.")


async def test_a_conversation_shows_how_full_the_context_is_once_it_is_open(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("one", "first")
        status, used = chat.screen.view.status, chat.screen.view.status.used
        assert used
        for conversation, shown in ((1, None), (2, used)):
            await chat.screen.controller.open_conversation(conversation)
            assert status.used == shown


async def test_a_conversation_that_another_tandem_deleted_stays_open(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("one", "first")
        await chat.type("typed")
        Store(file).delete(1)
        await chat.list_conversations()
        await chat.in_front("escape")
        assert (chat.screen.session.conversation.number, chat.prompt) == (1, "typed")
        await chat.shows("first")


async def test_ctrl_n_keeps_the_old_one_and_the_drafts_of_both(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("one", "first")
        await chat.type("for one")
        await chat.press("ctrl+n", until=lambda: chat.answers == [] and chat.prompt == "")
        await chat.type("for none")
        await chat.list_conversations()
        await chat.in_front("enter")
        await chat.until(lambda: chat.prompt == "for one")
        await chat.shows("first")
        await chat.press("ctrl+n", until=lambda: chat.prompt == "for none")


async def test_the_draft_is_kept_while_it_is_typed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.chat.input_line.STORE_AFTER_S", 0.01)
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("one", "first")
        await chat.type("half a")
        store = Store(file)
        await chat.until(lambda: store.load(1).unsent_text == "half a")
        store.close()


async def test_undo_restores_a_deleted_conversation(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(store=lambda: Store(file)) as chat:
        screen = await chat.list_conversations()
        await chat.press("ctrl+x", shows='Deleted "mountains"; ctrl+_')
        row = screen.conversations.row
        assert row is not None
        assert row.summary.title == "rivers"
        await chat.pilot.press("ctrl+underscore")
        await chat.until(lambda: screen.conversations.row and screen.conversations.row.summary.title == "mountains")


async def test_pinned_conversations_come_first(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(store=lambda: Store(file)) as chat:
        screen = await chat.list_conversations()
        await chat.press("down", "ctrl+t", shows="pinned")
        row = screen.conversations.row
        assert row is not None
        assert row.summary.title == "rivers"
        lines = [line for line in chat.rows if "rivers" in line or "mountains" in line]
        assert "rivers" in lines[0]


async def test_a_long_conversation_shows_its_end_first(file: Path) -> None:
    keep(file, *(f"message {n}." for n in range(100)))
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.in_front("enter")
        await chat.shows("message 99.")
        assert sum(answer.is_laid_out for answer in chat.answers) < 30
        await chat.press("ctrl+home", shows="message 0.")
        assert sum(answer.is_laid_out for answer in chat.answers) < 30
        await chat.send("more")
        assert len(chat.engine.requests[0].messages) == 101


async def test_titles_are_neither_markup_nor_control_sequences(file: Path) -> None:
    fill(file, "[red]x[/red] \x1b[2J")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.shows("[red]x[/red]")
        await chat.press(*"red", shows="The answer about [red]x[/red]")
        assert "\x1b" not in chat.text


async def test_the_answer_of_a_conversation_that_is_deleted_in_the_list_is_stopped(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.send("rivers")
        await chat.pilot.press("ctrl+n")
        await chat.list_conversations()
        await chat.press("ctrl+x", shows='Deleted "rivers"')
        await chat.pilot.press("escape")
        await chat.in_front()
        assert chat.engine.cancelled == 1
