"""Check long pastes behind marks in a prompt."""

from __future__ import annotations

from app.conversations.attached import Attachment, compose
from app.conversations.message import Role
from app.conversations.store import Store
from app.ui.composer.editor import LONGEST, Pastes
from tests.ui.driver import open_chat


def alike(letter: str) -> str:
    """A text that is called like every other of these."""
    return letter * (LONGEST + 1)


def message(*letters: str) -> str:
    """A prompt with such pastes, as another session has sent it."""
    pastes = Pastes()
    question = "compare " + " and ".join(pastes.fold(alike(letter)) for letter in letters)
    return compose(question, pastes.found_in(question))


def test_a_mark_stands_for_its_text_however_much_is_pasted_behind_it() -> None:
    pastes = Pastes()
    texts = [f"{number} " * LONGEST for number in range(100)]
    assert [each.text for each in pastes.found_in(" ".join(map(pastes.fold, texts)))] == texts


def test_a_paste_keeps_its_first_name_when_its_number_changes() -> None:
    pastes = Pastes()
    marks = [pastes.remember(Attachment("pasted 4 KB, 1 line, no. 2", letter, is_file=False)) for letter in "abc"]
    assert marks == [f"[pasted 4 KB, 1 line{number}]" for number in (", no. 2", "", ", no. 3")]


async def test_a_recalled_prompt_has_all_its_pastes_and_the_keys_still_step() -> None:
    store = Store()
    for prompt in ("before", message("a", "b")):
        store.add(store.create(), Role.USER, prompt, parent=None)
    async with open_chat(store=lambda: store) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        chat.screen.view.prompt._pastes.fold(alike("c"))
        await chat.pilot.press("up")
        assert [paste.text for paste in chat.screen.view.prompt.pastes] == [alike("a"), alike("b")]
        await chat.pilot.press("up")
        assert chat.prompt == "before"
        await chat.pilot.press("down", "down")
        assert chat.prompt == ""


async def test_what_only_looks_like_a_paste_is_recalled_with_every_line() -> None:
    written = "x:\n```\nsome text\n```\n\nwhat of [x]?"
    store = Store()
    store.add(store.create(), Role.USER, written, parent=None)
    async with open_chat(store=lambda: store) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.pilot.press("up")
        assert chat.prompt == chat.screen.view.prompt.written == written
        await chat.pilot.press("down")
        assert chat.prompt == ""
