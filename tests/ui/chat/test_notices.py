"""Notices of the program, and hints about the last message."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.models.pair_info import PairInfo
from app.session.state import Phase
from app.ui.models.state import LoadRequest
from app.worker.events import Notice
from tests.fake_engine import PAIR, TARGET, no_loader
from tests.ui.driver import (
    Chat,
    is_shown_again,
    kept_chat,
)


async def test_a_note_stands_between_no_prompt_and_its_answer(file: Path) -> None:
    async with kept_chat(file, loaded=False) as chat:
        await chat.enter("one", "waiting for the models")
        chat.engine.emit(Notice("The context was rounded."))
        chat.engine.loaded()
        await chat.until(lambda: chat.engine.requests)
        await chat.shows("The context was rounded.")
        assert chat.said[:3] == ["The context was rounded.", "You", "one"]
        await chat.writes("first")
        chat.engine.emit(Notice("Drafting stopped."))
        await chat.shows("Drafting stopped.")
        await chat.answer(" answer")
        chat.engine.emit(Notice("The pair was loaded."))
        await chat.shows("The pair was loaded.")
        await chat.exchange("two", "second")
        exchange = ["You", "one", "Answer", "first answer"]
        notes = ["Drafting stopped.", "The pair was loaded."]
        last = ["You", "two", "Answer", "second"]
        assert chat.said == ["The context was rounded.", *exchange, *notes, *last]
    await is_shown_again(file, [*exchange, *last])


async def test_a_chosen_message_shows_its_branch_and_numbers(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.next_request("ctrl+r")
        await chat.answer("second")
        chat.screen.view.hint.ask("The disk is full.")
        await chat.press("ctrl+up", shows="branch 2 of 2, left/right goes between them")
        await chat.shows("448 tokens")
        await chat.press("ctrl+n", until=lambda: "branch 2 of 2" not in chat.text)


OTHER = replace(PAIR, target=replace(TARGET, file="Qwen3-8B-Q8_0.gguf", quantization="Q8_0"))


CODER, QWEN3 = "Qwen2.5-Coder-32B-Instruct Q4_K_M", "Qwen3-8B Q8_0"


async def load(chat: Chat, pair: PairInfo) -> None:
    """Change the pair, as from the list of pairs."""
    await chat.screen.controller.load_pair(LoadRequest(no_loader, "another pair"))
    chat.engine.loaded(pair)
    await chat.until(lambda: chat.screen.session.phase is Phase.READY)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the file of a conversation written by the fake pair."""
    file = tmp_path / "conversations.db"
    store = Store(file)
    number = store.create()
    asked = store.add(number, Role.USER, "hello", parent=None)
    journal = store.answer(number, asked.id, models={"target": CODER})
    journal.add("Good morning.")
    # A crash interrupts it; the name of its model stays.
    store.close()
    return file


async def test_a_conversation_of_the_loaded_model_names_no_model(written: Path) -> None:
    async with kept_chat(written, again=True) as chat:
        await chat.shows("Good morning.")
        assert "Qwen2.5" not in "".join(chat.said)


async def test_opening_a_conversation_of_another_model_names_both(written: Path) -> None:
    async with kept_chat(written, loaded=False, again=True) as chat:
        chat.engine.loaded(OTHER)
        await chat.shows(f"This conversation was answered by {CODER}.")
        assert f"Answer   {CODER}" in chat.said
        await load(chat, PAIR)
        await chat.until(lambda: "Answer" in chat.said)


async def test_answers_name_their_model_once_it_changes(tmp_path: Path) -> None:
    async with kept_chat(tmp_path / "conversations.db") as chat:
        await chat.exchange("one", "first")
        await chat.shows("first")
        assert chat.said[2] == "Answer"
        await load(chat, OTHER)
        await chat.exchange("two", "second")
        await chat.exchange("three", "third")
        await chat.shows("third")
        labels = [row for row in chat.said if row.startswith("Answer")]
        assert labels == [f"Answer   {CODER}", f"Answer   {QWEN3}", "Answer"]
