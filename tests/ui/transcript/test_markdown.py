"""Check that streamed Markdown ends like the whole text."""

from __future__ import annotations

import pytest
from textual import events
from textual.selection import SELECT_ALL

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, StoredConversation, Summary, Tree
from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Row
from app.ui.transcript import parts
from tests.ui.driver import open_chat


async def test_a_link_shows_its_address_and_cannot_be_clicked(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    async with open_chat() as chat:
        monkeypatch.setattr(chat.pilot.app, "open_url", opened.append)
        await chat.send("link")
        chat.engine.says("[click me](https://example.org/x) [@click=app.quit]or me[/]")
        await chat.shows("click me (https://example.org/x) [@click=app.quit]or me[/]")
        y = next(y for y, row in enumerate(chat.rows) if "click me" in row)
        for x in (2, 12, 35, 50):
            await chat.pilot.click(offset=(x + 1, y))
        assert chat.pilot.app.is_running
    assert opened == []


async def test_code_is_copied_as_it_was_written() -> None:
    async with open_chat(size=(40, 24)) as chat:
        await chat.send("code")
        chat.engine.says("- one\n\n```py\nif x:\n\ty = " + "'long' " * 12 + "\n```\n")
        await chat.shows("\u21aa")
        copied = chat.screen.view.messages.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0] == "You\ncode\nAnswer\n\u2022 one\n\nif x:\n\ty = " + "'long' " * 12


async def test_text_is_selected_with_the_mouse() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.says("First **bold** words.\n\n```\ncode here\n```\n")
        await chat.shows("code here")
        y = next(y for y, row in enumerate(chat.rows) if "First" in row)
        await chat.pilot.mouse_down(offset=(7, y))
        await chat.pilot.hover(offset=(6, y + 2))
        await chat.pilot.mouse_up(offset=(6, y + 2))
        selected = chat.screen.get_selected_text()
        assert selected is not None
        assert selected.startswith("bold words.\n\ncod")


async def test_keys_have_their_turn_while_a_long_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 50)
    answer = "\n\n".join(f"Paragraph {n} with **bold** words." for n in range(60)) + "\n\nThe very end."
    store = Store()
    nodes = {1: Node(1, None, Role.USER, "go"), 2: Node(2, 1, Role.ASSISTANT, answer)}
    (number,) = store.insert([StoredConversation(Summary(0, "Long"), Tree(nodes, 2))])
    typed: list[str] = []
    async with open_chat(store=lambda: store) as chat:
        append = MarkdownDocument.append

        def noted(self: MarkdownDocument, piece: str) -> tuple[int, list[Row]]:
            if not typed:
                chat.pilot.app.post_message(events.Key("x", "x"))
            typed.append(chat.prompt)
            return append(self, piece)

        monkeypatch.setattr(MarkdownDocument, "append", noted)
        await chat.screen.controller.open_conversation(number)
        assert chat.answers[0].text == answer
        await chat.shows("The very end.")
        assert typed[0] == ""
        assert typed[len(typed) // 2] == "x"
        assert chat.screen.view.messages.following
