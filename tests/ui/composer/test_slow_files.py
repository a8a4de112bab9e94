"""Files on a disk that does not answer: nothing waits for them but the prompt that names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from app.conversations.attached import Attachment, compose
from app.conversations.store import Store
from app.ui.commands import table
from app.ui.compare.screen import CompareScreen
from app.ui.composer.completion import Completion
from app.ui.composer.included_files import include_files
from app.ui.conversations.picker import ConversationPicker
from app.worker.events import Notice
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.kept_driver import kept_chat
from tests.ui.steering_driver import answer_with, asked, exchange, next_request, palette, press

READS = "The files are being read; esc stops that."


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Answers once this is set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.ui.background.BRIEF_S", 0.01)
    (tmp_path / "a.md").write_text("milk")
    answers = Event()

    def slowly(*args: object, **options: object) -> str:
        answers.wait()
        return include_files(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("app.ui.chat.prompt_sender.include_files", slowly)
    yield answers
    answers.set()


async def send(chat: Chat, text: str) -> None:
    """Type a prompt with a file that does not come, and press Enter."""
    await chat.type(text)
    await press(chat, "enter")
    await chat.shows(READS)


async def test_the_chat_goes_on_and_the_prompt_is_asked_when_its_file_is_there(disk: Event) -> None:
    async with open_chat() as chat:
        await send(chat, "sum @a.md up")
        assert chat.screen.pending_text == "sum @a.md up"
        chat.engine.emit(Notice("Something else."))
        await chat.shows("Something else.")
        await chat.type("and then")
        disk.set()
        await chat.until(lambda: chat.engine.requests)
        assert asked(chat) == [compose("sum @a.md up", [Attachment("a.md", "milk")])]
        assert chat.prompt == chat.screen.pending_text == "and then"
        await chat.until(lambda: READS not in chat.text)


async def test_esc_takes_it_back_in_front_of_what_was_typed_since(disk: Event) -> None:
    async with open_chat() as chat:
        await send(chat, "sum @a.md up")
        await chat.type("and then")
        assert chat.screen.pending_text == "sum @a.md up\nand then"
        await press(chat, "enter")
        await chat.shows("Files are still being read; esc stops that.")
        assert chat.prompt == "and then"
        await press(chat, "escape")
        assert chat.prompt == chat.screen.pending_text == "sum @a.md up\nand then"
        disk.set()
        chat.screen.prompt.clear()
        await chat.send("Hello")
        assert asked(chat) == ["Hello"]


async def test_quitting_waits_for_no_disk_and_keeps_the_prompt(file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await send(chat, "sum @a.md up")
        await press(chat, "ctrl+q")
        assert not chat.pilot.app.is_running
    async with kept_chat(file, again=True) as chat:
        assert chat.prompt == "sum @a.md up"


async def test_a_file_that_comes_when_the_program_is_being_left_is_nobodys(disk: Event) -> None:
    async with open_chat() as chat:
        await send(chat, "sum @a.md up")
        chat.pilot.app.exit()
        disk.set()
    assert chat.pilot.app._exception is None


async def test_a_prompt_waits_in_the_conversation_that_is_left(disk: Event, file: Path) -> None:
    async with kept_chat(file) as chat:
        await exchange(chat, "one", "first")
        await send(chat, "sum @a.md up")
        await press(chat, "ctrl+n")
        await chat.until(lambda: not chat.answers)
        disk.set()
        await chat.send("Hello")
        assert asked(chat) == ["Hello"]
        await chat.screen.open_conversation(1)
        assert chat.prompt == "sum @a.md up"


async def test_an_edit_goes_on_when_its_file_is_not_waited_for(disk: Event) -> None:
    async with open_chat(store=Store.in_memory) as chat:
        await exchange(chat, "one", "first")
        await chat.type("not yet sent")
        await press(chat, "ctrl+up", "up", "e")
        await send(chat, " @a.md")
        assert chat.prompt == "not yet sent"
        assert chat.screen.pending_text == "one @a.md\nnot yet sent"
        await press(chat, "escape")
        assert chat.prompt == "one @a.md"
        assert chat.screen.input_mode.is_active
        await press(chat, "enter")
        await chat.shows(READS)
        disk.set()
        await chat.until(lambda: len(chat.engine.requests) > 1)
        assert asked(chat) == [compose("one @a.md", [Attachment("a.md", "milk")])]
        assert chat.prompt == "not yet sent"


async def test_an_edit_comes_back_when_a_title_was_written_meanwhile(disk: Event) -> None:
    async with open_chat(store=Store.in_memory) as chat:
        await exchange(chat, "one", "first")
        await press(chat, "ctrl+up", "up", "e")
        await send(chat, " @a.md")
        await palette(chat, "Rename")
        await press(chat, "ctrl+u")
        await chat.type("Shopping")
        await press(chat, "enter")
        await chat.shows('The conversation is called "Shopping".')
        await press(chat, "escape")
        assert chat.prompt == "one @a.md"
        await press(chat, "enter")
        await chat.shows(READS)
        disk.set()
        await chat.until(lambda: len(chat.engine.requests) > 1)
        assert asked(chat) == [compose("one @a.md", [Attachment("a.md", "milk")])]
        assert chat.screen.library.summary(1).title == "Shopping"  # type: ignore[union-attr]


async def test_a_file_that_is_not_found_at_once_is_named_all_the_same(
    disk: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "text_size", lambda path, name: disk.wait())
    async with open_chat() as chat:
        await chat.type("/include a.md ")
        await press(chat, "enter")
        await chat.until(lambda: chat.prompt == "@a.md ")


async def test_a_prompt_that_waits_for_its_file_stays_in_its_branch(disk: Event) -> None:
    async with open_chat(store=Store.in_memory) as chat:
        await exchange(chat, "one", "first")
        (other,) = (node.id for node in chat.screen.session.conversation.tree.path if node.text == "first")
        await next_request(chat, "ctrl+r")
        await answer_with(chat, "second")
        await send(chat, "sum @a.md up")
        await chat.screen.switcher.open_found(ConversationPicker.Chosen(1, other))
        await chat.shows("It stands in another branch; esc stops what is being asked here.")
        disk.set()
        await chat.until(lambda: len(chat.engine.requests) > 2)
        assert asked(chat)[:-1] == ["one", "second"]


async def test_a_comparison_waits_for_its_file_beside_the_chat(disk: Event) -> None:
    async with open_chat() as chat:
        await chat.type("sum @a.md up")
        for stops in (True, False):
            await press(chat, "f2")
            await chat.shows(READS)
            assert chat.prompt == chat.screen.pending_text == "sum @a.md up"
            if stops:
                await press(chat, "escape")
                await chat.until(lambda: READS not in chat.text)
        disk.set()
        await chat.until(lambda: isinstance(chat.pilot.app.screen, CompareScreen))


async def test_completing_a_path_keeps_neither_the_keys_nor_the_end(
    disk: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chat() as chat:
        monkeypatch.setattr(Completion, "offer", lambda self, site: disk.wait())
        await chat.type("@a")
        await press(chat, "tab")
        await chat.type("bc")
        await press(chat, "tab", "ctrl+q")
        assert not chat.pilot.app.is_running
