"""What is unmounted because it is far comes back as it was."""

from __future__ import annotations

import pytest
from textual.selection import SELECT_ALL

from app.conversations.attached import Attachment, compose
from app.core.errors import AppError
from app.ui.reading.token_rows import TokenRuns
from app.ui.transcript import message, view
from app.ui.transcript.column import Entry
from app.ui.transcript.foldable import FoldedText, Reasoning
from app.ui.transcript.message import AnswerMessage, UserMessage
from app.ui.transcript.message_data import AnswerData, PromptData
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.transcript.driver import (
    MESSAGES,
    long_chat,
    path,
    press,
    settled,
)

pytestmark = pytest.mark.usefixtures("near")


async def test_marked_text_is_still_copied_when_it_is_far_away() -> None:
    async with long_chat(path()) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        text = chat.screen.messages.message_views[0].query_one(".said")
        chat.screen.selections = {text: SELECT_ALL}
        await press(chat, "ctrl+end")
        await chat.shows(f"message {MESSAGES}.")
        await settled(chat)
        assert (chat.screen.get_selected_text() or "").startswith("message 1.")


async def test_what_was_unfolded_is_so_when_it_comes_back() -> None:
    first = compose("look at this @notes", (Attachment("notes", "the contents"),))
    async with long_chat(path(first=first, reasoning="deep thought")) as chat:
        await press(chat, "ctrl+home")
        await chat.shows("look at this")
        chat.screen.query(FoldedText).first().open = True
        chat.screen.query(Reasoning).first().open = True
        await chat.shows("deep thought")
        gone = chat.screen.messages.message_views[0]
        await press(chat, "ctrl+end")
        await chat.until(lambda: not gone.is_attached)
        await press(chat, "ctrl+home")
        await chat.shows("the contents")
        await chat.shows("deep thought")


async def test_one_key_unfolds_the_thinking_of_all() -> None:
    async with long_chat(path(reasoning="deep thought")) as chat:
        await press(chat, "ctrl+t")
        await press(chat, "ctrl+home")
        await chat.shows("message 1.")
        await chat.shows("deep thought")


async def test_what_stands_for_a_message_makes_the_same_one_again() -> None:
    included = compose("look at @notes and @more", (Attachment("notes", "the contents"), Attachment("more", "others")))
    prompts = PromptData("hello", "System", 3, []), PromptData(included, "You", None, [False, True])
    answers = (
        AnswerData("*text*", "a thought", 5.0, opened=True, remark="stopped", is_final=True, node=7),
        AnswerData("text", error=AppError("It broke.", "Fix it.")),
        AnswerData("text", token_runs=TokenRuns()),
    )
    async with open_chat():
        assert [UserMessage(was).data() for was in prompts] == [*prompts]
        assert [AnswerMessage(was).data() for was in answers] == [*answers]


@pytest.mark.parametrize("opened", [False, True])
async def test_what_a_prompt_includes_is_guessed_as_high_as_it_is_shown(opened: bool) -> None:
    long = "".join(f"line {number}\n" for number in range(3_000))
    was = PromptData(compose("look at @a.py and @b.py", (Attachment("a.py", long), Attachment("b.py", "x"))), "You")
    was.opened = [opened, False]
    async with open_chat() as chat:
        column = chat.screen.messages.column
        chat.screen.messages.said.put([entry := Entry(was)])
        guessed = column.top_of(entry), column.tops[-1]
        await chat.screen.messages.notice("below")
        await chat.until(lambda: entry.message_view is not None and entry.message_view.size.height)
        assert guessed[1] - guessed[0] == entry.rows(chat.screen.messages.said.size.width)


async def bury(chat: Chat, answer: AnswerMessage) -> None:
    """Let so much be said below an answer that it is unmounted."""
    await chat.exchange("another prompt", "long\n\n" * 60)
    await chat.send("and another")
    await chat.until(lambda: not answer.is_attached)


@pytest.mark.parametrize("expensive", [0, 1_000])
async def test_an_answer_comes_back_as_it_was(expensive: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MOST_FAR", 0)
    monkeypatch.setattr(message, "_DEAR", expensive)
    async with open_chat() as chat:
        await chat.send("first prompt")
        chat.engine.says("**bold** words", thinking=False)
        chat.engine.finishes()
        await chat.ready()
        first = chat.answers[0]
        first.note("a remark")
        await bury(chat, first)
        await press(chat, "ctrl+home")
        await chat.shows("bold words")
        await chat.shows("a remark")
        again = chat.answers[0]
        assert again is not first
        assert again.text == "**bold** words"
        await press(chat, "f3")
        await chat.shows("**bold** words")


async def test_the_writers_of_an_answer_that_comes_back_are_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MOST_FAR", 0)
    async with open_chat() as chat:
        await chat.exchange("first prompt", "**bold** words")
        first = chat.answers[0]
        await bury(chat, first)
        await press(chat, "f3")
        await press(chat, "ctrl+home")
        await chat.shows("**bold** words")
