"""Prompts sent during an answer, and answers that end while another conversation is open."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from app.conversations.store import Store
from app.engine.types import FinishReason
from app.session.state import Phase
from app.ui.models.setup_screen import SetupScreen
from app.ui.models.state import LoadRequest
from app.worker.events import JobEnded
from app.worker.jobs import PromptSize
from tests.fake_engine import no_loader
from tests.ui.driver import WIDE, Chat, Driver, kept_chat, open_chat
from tests.ui.fakes import FakeOpener, fake_app
from tests.ui.models.fake_pairs import FakePairs


async def queue(chat: Chat, text: str) -> None:
    """Send a prompt that has to wait."""
    await chat.enter(text, until=lambda: text in chat.screen.session.conversation.queued)


async def test_a_prompt_sent_during_an_answer_waits_above_the_input_and_is_asked_next() -> None:
    async with open_chat() as chat:
        await chat.send("one")
        await queue(chat, "two")
        await queue(chat, "three")
        await chat.shows("waiting  two", "esc takes it back")
        await chat.pilot.press("up")
        assert chat.prompt == "one"
        await chat.pilot.press("down")
        assert len(chat.engine.requests) == 1
        chat.engine.goes_on("first")
        await chat.until(lambda: len(chat.engine.requests) == 2)
        await chat.shows("waiting  three")
        chat.engine.says("second")
        await chat.until(lambda: chat.said == ["You", "one", "Answer", "first", "You", "two", "Answer", "second"])


async def test_escape_takes_prompts_back_before_it_stops_the_answer() -> None:
    async with open_chat() as chat:
        await chat.send("one")
        for text in ("two", "three"):
            await queue(chat, text)
        await chat.type("typed")
        await chat.press("ctrl+s", shows="esc close")
        assert "esc takes it back" not in chat.text
        await chat.press("escape", shows="esc takes it back")
        for line in ("three\n\ntyped", "two\n\nthree\n\ntyped"):
            await chat.press("f2", shows="A prompt is already waiting; esc takes it back.")
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.prompt == line)  # noqa: B023
        assert (chat.engine.cancelled, chat.screen.view.waiting.display) == (0, False)
        assert "takes it back" not in chat.text
        await chat.press("escape", until=lambda: chat.engine.cancelled)


async def test_an_answer_ends_while_another_conversation_is_open(tmp_path: Path) -> None:
    async with kept_chat(tmp_path / "conversations.db", size=WIDE) as chat:
        await chat.send("old")
        await chat.writes("old words")
        await chat.press("ctrl+n", until=lambda: chat.answers == [])
        await chat.until(lambda: chat.status.startswith('answering "old"'))
        assert "context 0 of 32k" in chat.status
        await chat.shows("… old")
        await queue(chat, "new")
        chat.engine.goes_on(" and more")
        await chat.until(lambda: len(chat.engine.requests) == 2)
        await chat.shows('"old" is answered; ctrl+o opens it.', "✓ old")
        chat.engine.says("fresh")
        await chat.until(lambda: chat.said == ["You", "new", "Answer", "fresh"])


@pytest.mark.parametrize("deleted", [True, False])
async def test_an_answer_stopped_from_another_conversation_is_not_called_answered(deleted: bool) -> None:
    async with open_chat(store=Store) as chat:
        await chat.send("old")
        await chat.writes("old words")
        await chat.press("ctrl+n", until=lambda: chat.status.startswith('answering "old"'))
        if deleted:
            chat.screen.session.library.delete(1)
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.screen.session.phase is Phase.READY)
        await chat.until(lambda: not chat.status.startswith("answering"))
        assert ('"old" was stopped; ctrl+o opens it.' in chat.text) is not deleted
        assert "is answered" not in chat.text


async def test_a_key_that_does_nothing_says_why() -> None:
    async with open_chat() as chat:
        await chat.press("ctrl+r", shows="There is no prompt to answer.")
        await chat.press("ctrl+t", shows="No answer here has reasoning.")
        await chat.press("ctrl+up", shows="There is no message to choose yet.")
        await chat.press("ctrl+e", shows="There is no prompt to edit.")


async def test_loading_another_pair_asks_while_the_current_pair_answers() -> None:
    async with open_chat() as chat:
        pairs = chat.screen._pairs
        assert isinstance(pairs, FakePairs)
        pairs.change("coder-32b", here=True, set_up=True)
        await chat.send("one")
        chat.engine.says("half")
        await chat.press("f6", shows="Choose a pair")
        await chat.press("enter", shows="An answer is being written.")
        await chat.press("enter", shows="is loaded when the answer has ended")
        assert (chat.engine.cancelled, chat.engine.loads, chat.screen.session.phase) == (0, 1, Phase.ANSWERING)
        chat.engine.finishes()
        await chat.until(lambda: chat.engine.loads == 2)


async def test_the_last_conversation_is_opened_on_request(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
        await chat.pilot.press("ctrl+n")
        await chat.exchange("two", "second")
        chat.screen.session.library.pin(1, pinned=True)
    async with kept_chat(file, continues=True) as chat:
        await chat.until(lambda: chat.said == ["You", "two", "Answer", "second"])


async def test_the_size_of_a_long_prompt_is_shown_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.chat.input_line.COUNT_AFTER_S", 0.01)
    async with open_chat() as chat:
        chat.screen.view.prompt.put("word " * 200)
        await chat.until(lambda: chat.engine.jobs)
        chat.engine.emit(JobEnded(chat.engine.job_number, PromptSize(1934, (("a", 700), ("a", 700), ("b", 80)))))
        await chat.shows("With this prompt: 1,934 of 32,768 tokens, 1,480 of them for pictures")
        chat.screen.view.prompt.clear()
        await chat.until(lambda: "With this prompt" not in chat.text)


@pytest.mark.parametrize("first_run", [False, True])
async def test_the_last_conversation_is_continued_with_the_pair_that_answered_it(file: Path, first_run: bool) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
    asked: list[object] = []

    class Known(FakeOpener):
        def written_by(self, models: Mapping[str, object]) -> LoadRequest:
            asked.append(models["target"])
            return LoadRequest(no_loader, "The pair of before")

    app, engine = fake_app(store=lambda: Store(file), continues=True, opener=Known(), first_run=first_run)
    async with app.run_test(size=(80, 24)) as pilot:
        await Driver(pilot).shows("The pair of before")
        assert engine.loads == len(asked) == 1
        engine.loaded()
        await Driver(pilot).until(lambda: app.session.phase is Phase.READY)
        await Driver(pilot).shows("first")


async def test_without_that_pair_and_a_default_a_continued_chat_lets_the_user_choose(file: Path) -> None:
    async with kept_chat(file) as chat:
        await chat.exchange("one", "first")
    app, engine = fake_app(store=lambda: Store(file), continues=True, first_run=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await Driver(pilot).until(lambda: isinstance(app.screen, SetupScreen))
        assert engine.loads == 0
