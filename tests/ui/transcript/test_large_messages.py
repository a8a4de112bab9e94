"""Huge messages and columns: shown piece by piece, and no more expensive where there is more of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App
from textual.selection import SELECT_ALL

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.ui.reading.document import MarkdownDocument
from app.ui.transcript import message, text_views
from app.ui.transcript.column import Column, Entry
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_data import AnswerData, PromptData
from app.ui.transcript.text_views import ModelMarkdown, PlainText
from tests.ui.chat_driver import Chat, open_chat

ANSWER = "\n\n".join(f"Paragraph {n} with **bold** words." for n in range(60)) + "\n\nThe very end."


@asynccontextmanager
async def conversation(*texts: str) -> AsyncIterator[Chat]:
    """A chat in which prompts and answers are there already."""
    nodes = {
        n: Node(n, n - 1 or None, Role.USER if n % 2 else Role.ASSISTANT, text, "", State.COMPLETE, float(n))
        for n, text in enumerate(texts, 1)
    }
    store = Store.in_memory()
    (number,) = store.insert([Transcript(Conversation(Summary(0, "Long"), Tree(nodes, len(texts))))])
    async with open_chat(store=lambda: store) as chat:
        await chat.screen.open_conversation(number)
        yield chat


def whole(text: str) -> list[str]:
    document = MarkdownDocument()
    document.append(text)
    return [row.text for row in (*document.frozen, *document.open)]


# A text that is read piece by piece


async def test_keys_have_their_turn_while_a_long_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelMarkdown, "AT_ONCE", 50)
    read, typed = ModelMarkdown.read, list[str]()
    async with conversation("go", ANSWER) as chat:

        def noted(self: ModelMarkdown, piece: str) -> None:
            if not typed:
                chat.pilot.app.post_message(events.Key("x", "x"))
            typed.append(chat.prompt)
            read(self, piece)

        monkeypatch.setattr(ModelMarkdown, "read", noted)
        text = chat.screen.query_one(ModelMarkdown)
        assert not text.is_whole
        assert chat.answers[0].text == ANSWER
        await chat.until(lambda: text.is_whole)
        assert typed[0] == ""
        assert typed[len(typed) // 2] == "x"
        assert [row.text for row in text.rows] == whole(ANSWER)
        await chat.shows("The very end.")
        assert chat.screen.messages.following


async def test_what_comes_while_a_long_text_is_read_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelMarkdown, "AT_ONCE", 50)
    app = App[None]()
    async with app.run_test() as pilot:
        view = ModelMarkdown()
        view.append(ANSWER)
        view.append("\n\nAnd more.")
        await app.mount(view)
        view.append("\n\nAnd even more.")
        while not view.is_whole:
            await pilot.pause()
        assert [row.text for row in view.rows] == whole(f"{ANSWER}\n\nAnd more.\n\nAnd even more.")


async def test_an_answer_that_goes_before_it_is_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelMarkdown, "AT_ONCE", 50)
    monkeypatch.setattr(message, "_DEAR", 100)
    async with open_chat():
        gone = AnswerMessage(AnswerData(ANSWER)).data()
        assert gone.text == ANSWER
        assert gone.document is None


# A prompt as it was typed


@given(text=st.text("ab \n你", max_size=200))
@settings(max_examples=100, deadline=None)
def test_a_prompt_in_pieces_is_copied_as_it_was_typed(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainText, "AT_ONCE", 7)
        patch.setattr(text_views, "_LONGEST_ROW", 5)
        view = PlainText(text)
        while not view.is_whole:
            view._read_on()
        assert max(len(row.content) for row in view.rows) <= 5
        assert view.get_selection(SELECT_ALL) == (text, "\n")


async def test_a_long_prompt_looks_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "A question of some length, which takes more than one line of the screen.\n\n  indented\n" + "word " * 80
    shown = []
    for dear in (10, 10_000):
        monkeypatch.setattr(message, "_DEAR", dear)
        async with conversation(prompt, "Yes.", "And then?", "No.") as chat:
            await chat.shows("No.")
            await chat.pilot.press("ctrl+home")
            await chat.shows("A question")
            shown.append(chat.text)
            assert bool(chat.screen.query(PlainText)) is (dear == 10)
    assert shown[0] == shown[1]


# Where things are in a long column


@given(
    heights=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    changes=st.lists(st.tuples(st.sampled_from(["put", "take", "hide", "show", "measure"]), st.integers(0, 99))),
)
@settings(max_examples=200, deadline=None)
def test_every_entry_is_where_those_above_it_end(heights: list[int], changes: list[tuple[str, int]]) -> None:
    column = Column()
    column.fit(80)
    column.put([Entry(PromptData("\n" * height)) for height in heights])
    for what, number in changes:
        entry = column.entries[number % len(column.entries)] if column.entries else None
        if what == "put" or entry is None:
            column.put([Entry(PromptData("a\nb")), Entry(PromptData("c"))], entry)
        elif what == "take":
            column.take_out({entry})
            assert not column.holds(entry)
        elif what == "measure":
            column.measured(entry, 0 if entry.hidden else number)
        else:
            column.hide([entry], what == "hide")
        rows = [each.rows(80) for each in column.entries]
        assert column.tops == list(accumulate(rows, initial=0))
        assert [each.number for each in column.entries] == list(range(len(rows)))
        assert all(map(column.holds, column.entries))


# One change at a time
