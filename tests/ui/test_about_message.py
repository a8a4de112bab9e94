"""The line about a message: that it is one of several, and what was measured of it."""

from __future__ import annotations

from pathlib import Path

from app.session.snapshot import Phase
from app.ui.conversations.picker import ConversationPicker
from tests.ui.chat_driver import Chat
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import answer_with, chosen, exchange, next_request, press

_LAST = "This is answer 2 of 2 here"


async def two_answers(chat: Chat) -> None:
    await exchange(chat, "one", "first")
    await next_request(chat, "ctrl+r")
    await answer_with(chat, "second")
    await chat.shows(f"{_LAST}: ctrl+up, then left/right shows the other.")


async def test_it_is_of_the_last_message_until_something_else_is_asked_or_shown(file: Path) -> None:
    async with kept_chat(file) as chat:
        await two_answers(chat)
        await next_request(chat, "ctrl+r")
        assert _LAST not in chat.text
        await answer_with(chat, "third")
        await chat.shows("This is answer 3 of 3 here: ctrl+up, then left/right shows the others.")
        await press(chat, "ctrl+n")
        await chat.until(lambda: "3 of 3 here" not in chat.text)
    async with kept_chat(file, again=True) as chat:
        await press(chat, "ctrl+up")
        await chat.shows("branch 3 of 3, left/right goes between them")
        await press(chat, "ctrl+n")
        await chat.until(lambda: "branch 3 of 3" not in chat.text)


async def test_it_goes_where_a_prompt_waits_for_the_models(file: Path) -> None:
    async with kept_chat(file) as chat:
        await two_answers(chat)
        chat.screen.session.phase = Phase.LOADING
        await chat.type("two")
        await press(chat, "enter")
        await chat.shows("waits for the models")
        assert _LAST not in chat.text


async def test_it_goes_when_a_message_is_found_in_another_branch(file: Path) -> None:
    async with kept_chat(file) as chat:
        await two_answers(chat)
        first = next(node.id for node in chat.screen.session.conversation.tree.nodes.values() if node.text == "first")
        await chat.screen.switcher.open_found(ConversationPicker.Chosen(1, first))
        await chat.shows("Answer   ◂ 1 / 2 ▸")
        assert _LAST not in chat.text


async def test_a_chosen_message_keeps_it_when_an_answer_ends(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "zero", "none")
        await two_answers(chat)
        await next_request(chat, "ctrl+r")
        await chat.click("none")
        await chat.shows("448 tokens")
        await answer_with(chat, "third")
        assert chosen(chat) == "none"
        await chat.shows("448 tokens")
        assert "3 of 3 here" not in chat.text


async def test_it_is_there_beside_what_is_odd_and_takes_the_place_of_what_asks(file: Path) -> None:
    async with kept_chat(file) as chat:
        await two_answers(chat)
        chat.screen.hint.ask("The disk is full.")
        await chat.shows("The disk is full.")
        await press(chat, "ctrl+up")
        await chat.shows("branch 2 of 2, left/right goes between them")
        chat.screen.hint.unseen(True)
        await chat.shows("↓ new text below  branch 2 of 2")


async def test_what_is_said_for_a_moment_is_read_before_it(file: Path) -> None:
    async with kept_chat(file) as chat:
        await two_answers(chat)
        await press(chat, "ctrl+e")
        await chat.type(" more")
        arrows = next(row for row, line in enumerate(chat.rows) if "◂ 2 / 2 ▸" in line)
        await chat.pilot.click(offset=(chat.rows[arrows].index("◂"), arrows))
        await chat.until(lambda: chosen(chat) == "first")
        await chat.shows("What it was changed into is kept: ctrl+s finds it.")
        chat.screen.hint.forget()
        await chat.shows("branch 1 of 2, left/right goes between them")
        numbers = next(row for row in chat.rows if "448 tokens" in row)
        assert "branch" not in numbers, "each has its line"
