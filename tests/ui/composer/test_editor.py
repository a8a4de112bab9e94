"""Files and pastes in a prompt, from the key to the model and back from the store."""

from pathlib import Path

import pytest
from textual import events

from app.conversations.attached import Attachment, compose
from app.conversations.store import Store
from app.engine.types import FinishReason
from app.ui.composer.completion import CHOSEN
from app.ui.composer.editor import Pastes
from tests.ui.driver import Chat, open_chat

LONG = "\n".join(f"line {number} of the log" for number in range(500))
MARK = "[pasted 10 KB, 500 lines]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("Buy milk.\n" * 100)
    (tmp_path / "my files").mkdir()
    (tmp_path / "my files" / "a b.txt").write_text("spaces")
    return tmp_path


async def paste(chat: Chat, text: str) -> None:
    before = chat.prompt
    chat.app.post_message(events.Paste(text))
    await chat.until(lambda: chat.prompt != before)


async def test_a_file_is_offered_included_and_folded(folder: Path) -> None:
    async with open_chat() as chat:
        await chat.type("sum up @no")
        await chat.shows(CHOSEN + "notes.md")
        await chat.pilot.press("enter")
        assert chat.prompt == "sum up @notes.md "
        await chat.next_request("enter")
        file = Attachment("notes.md", "Buy milk.\n" * 100)
        assert chat.engine.requests[0].messages[-1].content == compose("sum up @notes.md", [file])
        await chat.shows("▸ notes.md  1 KB")
        assert "Buy milk" not in chat.text
        await chat.click("notes", shows="Buy milk.")


async def test_each_reference_finds_the_files_below_the_folder(folder: Path) -> None:
    async with open_chat() as chat:
        await chat.type("see @b.txt")
        await chat.shows(f"{CHOSEN}my files/a b.txt")
        (folder / "my files" / "new.txt").write_text("later")
        await chat.type(" and @new")
        await chat.shows(f"{CHOSEN}my files/new.txt")


async def test_tab_completes_through_directories_at_any_speed() -> None:
    async with open_chat() as chat:
        await chat.pilot.press(*"see", "space", "@", *"my", "tab")
        await chat.until(lambda: chat.prompt == 'see @"my files/')
        await chat.press("tab", until=lambda: chat.prompt == 'see @"my files/a b.txt" ')


async def test_a_path_without_a_file_is_not_sent(folder: Path) -> None:
    (folder / "src").mkdir()
    async with open_chat() as chat:
        await chat.enter("what is in @src, ", "src is a folder.")
        await chat.shows("To send it as text")
        assert chat.prompt.strip() == "what is in @src,"
        assert not chat.engine.requests


async def test_a_name_that_no_file_has_is_sent_as_text_the_second_time(folder: Path) -> None:
    async with open_chat() as chat:
        await chat.enter("see @notes.md and @nomatch, me@x.org", "No file matches @nomatch. Press enter again")
        assert not chat.engine.requests
        await chat.next_request("enter")
        assert chat.asked[-1].endswith("see @notes.md and @nomatch, me@x.org")


async def test_a_key_clears_the_prompt_and_undo_brings_it_back() -> None:
    async with open_chat() as chat:
        await chat.pilot.press(*"one", "ctrl+j", *"two", "up", "ctrl+l")
        assert chat.prompt == ""
        await chat.pilot.press("ctrl+underscore")
        assert chat.prompt == "one\ntwo"


async def test_a_stopped_prompt_with_a_file_comes_back_as_typed() -> None:
    async with open_chat() as chat:
        await chat.send("sum up @notes.md ")
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.until(lambda: chat.prompt == "sum up @notes.md")
        await chat.next_request("ctrl+r")
        assert chat.engine.requests[1].messages == chat.engine.requests[0].messages
        assert chat.prompt == ""


async def test_a_long_paste_is_folded_and_sent_whole() -> None:
    async with open_chat() as chat:
        await chat.type("why ")
        await paste(chat, LONG.replace("\n", "\r\n"))
        assert chat.prompt == f"why {MARK}"
        await chat.next_request("enter")
        log = Attachment(MARK[1:-1], LONG, is_file=False)
        assert chat.engine.requests[0].messages[-1].content == compose(f"why {MARK}", [log])
        await chat.shows("▸ pasted 10 KB, 500 lines")


async def test_backspace_deletes_a_whole_mark_and_undo_restores_it() -> None:
    async with open_chat() as chat:
        await paste(chat, LONG)
        await chat.pilot.press("backspace")
        assert chat.prompt == ""
        await chat.pilot.press("ctrl+underscore")
        assert chat.prompt == MARK
        await chat.next_request("enter")
        assert LONG in chat.engine.requests[0].messages[-1].content


async def test_a_paste_waits_in_the_draft_of_its_conversation() -> None:
    store = Store()
    async with open_chat(store=lambda: store) as chat:
        await chat.exchange("hello", "hi")
        number = chat.screen.session.conversation.number
        assert number is not None
        await paste(chat, LONG)
        await chat.press("ctrl+n", until=lambda: chat.prompt == "")
        assert LONG in store.load(number).unsent_text
        await chat.screen.controller.open_conversation(number)
        assert chat.prompt == MARK
        await chat.send("?")
        assert LONG in chat.engine.requests[1].messages[-1].content


def test_short_pastes_stay_text() -> None:
    assert Pastes().fold("a\nb") == "a\nb"
