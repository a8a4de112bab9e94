"""Code blocks by key, and the way to what was searched for."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App

from app.conversations.message import Role
from app.conversations.store import Store
from tests.ui.driver import WIDE, Chat, open_chat

TWO = "First:\n```py\na = 1\n```\n- and\n  ```sh\n  ls\n  ```\n"
ONE = "```\nthird\n```\n"


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []

    def copy(app: App[None], text: str, what: str = "") -> None:
        texts.append((text, what))

    monkeypatch.setattr("app.ui.chat.conversation_commands.copy_text", copy)
    return texts


def marked(chat: Chat) -> list[int]:
    """Return the number of the marked code block of each answer."""
    return [answer.marked_code for answer in chat.answers]


async def test_a_code_block_shows_and_has_its_own_key(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.until(lambda: any("ls" in row and row.rstrip().endswith("/copy 2") for row in chat.rows))
        await chat.pilot.press("alt+2")
        await chat.until(lambda: copied == [("ls", "code block 2 of 2")])
        await chat.pilot.press(*"/copy 1", "enter")
        await chat.until(lambda: copied[1:] == [("a = 1", "code block 1 of 2")])
        await chat.press("alt+3", shows="The answer has 2 code blocks, and no number 3.")


async def test_a_key_copies_from_the_answer_in_view(copied: list[tuple[str, str]]) -> None:
    async with open_chat(size=(60, 12)) as chat:
        await chat.exchange("code", ONE + "words\n\n" * 12)
        await chat.exchange("more", TWO + "words\n\n" * 12)
        await chat.press("ctrl+home", shows="third")
        await chat.pilot.press("alt+1")
        await chat.until(lambda: copied == [("third", "the code")])


async def test_a_click_on_its_label_copies_a_code_block(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.click("copy 2")
        await chat.until(lambda: copied == [("ls", "code block 2 of 2")])
        assert chat.screen.view.messages.chosen is None


async def test_keys_lead_from_block_to_block(copied: list[tuple[str, str]]) -> None:
    async with open_chat() as chat:
        await chat.exchange("code", TWO)
        await chat.exchange("more", ONE)
        await chat.exchange("words", "No code at all.")
        await chat.press("ctrl+up", shows="esc back")
        active = {one.binding.id: one.enabled for one in chat.screen.active_bindings.values()}
        assert not active["message.next_code"]
        await chat.pilot.press("escape", "alt+c")
        await chat.until(lambda: marked(chat) == [0, 1, 0])
        await chat.pilot.press("shift+tab", "alt+c")
        await chat.until(lambda: marked(chat) == [1, 0, 0])
        await chat.press("shift+tab", shows="There is no code block above.")
        assert "message.next_code" in {one.binding.id for one in chat.screen.active_bindings.values() if one.enabled}
        await chat.pilot.press("tab")
        await chat.until(lambda: marked(chat) == [2, 0, 0])
        await chat.pilot.press("y")
        await chat.until(lambda: copied == [("ls", "code block 2 of 2")])
        await chat.pilot.press("escape")
        await chat.until(lambda: marked(chat) == [0, 0, 0])


async def test_without_code_the_key_says_so() -> None:
    async with open_chat() as chat:
        await chat.press("alt+c", shows="There is no code block.")


@pytest.mark.parametrize("size", [(80, 24), WIDE])
async def test_a_search_opens_at_its_hit_and_highlights_it(file: Path, size: tuple[int, int]) -> None:
    store = Store(file)
    number = store.create()
    asked = store.add(number, Role.USER, "tests", parent=None)
    before = "\n\n".join(f"paragraph {n}" for n in range(60))
    store.add(number, Role.ASSISTANT, f"{before}\n\nThen a UnitTest helps.\n\n{before}", parent=asked.id)
    store.close()
    async with open_chat(size=size, store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.press(*"unittest", shows="UnitTest")
        await chat.press("enter", shows="Then a UnitTest helps.")
        (answer,) = chat.answers
        hits = [row for row in answer.markdown.rows if any("bold" in str(span.style) for span in row.content.spans)]
        assert [row.content.plain for row in hits] == ["Then a UnitTest helps."]


async def test_a_hit_in_the_reasoning_opens_it(file: Path) -> None:
    store = Store(file)
    number = store.create()
    asked = store.add(number, Role.USER, "why", parent=None)
    store.add(number, Role.ASSISTANT, "Because.", parent=asked.id, reasoning="It is the Tagliamento.")
    store.close()
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.press(*"tagliamento", "enter", shows="It is the Tagliamento.")
