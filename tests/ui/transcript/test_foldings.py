"""Pictures in a prompt: named, dropped or pasted; their preview, and what edits and later runs keep."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from app.conversations.store import Store
from app.core.pictures import MARK, read_picture
from app.ui.composer.included_files import dropped_files
from app.ui.transcript.foldings import half_cells
from app.worker.events import JobEnded
from app.worker.jobs import PromptSize
from tests.core.test_pictures import gif, png
from tests.ui.driver import Chat, open_chat


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat.png").write_bytes(png(40, 20))
    (tmp_path / "my dog.gif").write_bytes(gif(40, 30))
    return tmp_path


def _asked(chat: Chat) -> tuple[list[str], list[str | None]]:
    request = chat.engine.requests[-1]
    return [each.content for each in request.messages], [each.name for each in request.pictures]


async def test_a_named_picture_is_sent_and_shown(folder: Path) -> None:
    async with open_chat() as chat:
        await chat.send("Is @cat.png like @my dog.gif ?")
        assert _asked(chat) == ([f"Is {MARK} like {MARK} ?"], ["cat.png", "my dog.gif"])
        await chat.shows("▾ cat.png  40 × 20  ", "▾ my dog.gif  40 × 30  ")
        sizes = tuple((each.digest, 77) for each in chat.engine.requests[-1].pictures)
        chat.engine.emit(JobEnded(chat.engine.job_number, PromptSize(170, sizes)))
        await chat.shows(f"▾ cat.png  40 × 20  {len(png(40, 20))} B  77 tokens", "▀" * 24)
        await chat.click("cat.png", shows="▸ cat.png")


async def test_an_edited_prompt_keeps_a_picture_whose_file_is_gone(folder: Path) -> None:
    store = Store()
    async with open_chat(store=lambda: store) as chat:
        await chat.exchange("What is @cat.png ?", "A cat.")
        (folder / "cat.png").unlink()
        await chat.press("ctrl+e", until=lambda: chat.prompt == "What is [cat.png] ?")
        await chat.type(" Really?")
        await chat.next_request("enter")
        assert _asked(chat) == ([f"What is {MARK} ? Really?"], ["cat.png"])


async def test_a_picture_that_cannot_be_read_is_not_sent(folder: Path) -> None:
    (folder / "cat.png").write_bytes(png(40, 20)[:50])
    async with open_chat() as chat:
        await chat.enter("What is @cat.png ?", "cat.png is damaged or incomplete.")
        assert not chat.engine.requests
        await chat.until(lambda: chat.prompt == "What is @cat.png ?")


async def test_the_picture_on_the_clipboard_is_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.chat.conversation_commands.clipboard_picture", lambda: png(30, 30))
    async with open_chat() as chat:
        await chat.enter("/paste", until=lambda: chat.prompt == "[pasted picture]")
        await chat.type(" what?")
        await chat.next_request("enter")
        assert _asked(chat) == ([f"{MARK} what?"], ["pasted picture"])


async def test_a_dropped_file_is_referred_to(folder: Path) -> None:
    async with open_chat() as chat:
        chat.app.post_message(events.Paste(f"{folder / 'cat.png'}"))
        await chat.until(lambda: chat.prompt == f"@{folder / 'cat.png'} ")


def test_dropped_paths_are_read_as_terminals_write_them(folder: Path) -> None:
    dog = folder / "my dog.gif"
    expected = f'@"{dog}" '
    written = [f"{dog}", f"'{dog}'", f'"{dog}"', dog.as_uri()]
    written += [] if sys.platform == "win32" else [str(dog).replace(" ", "\\ ") + "\n"]
    assert [dropped_files(each) for each in written] == [expected] * len(written)
    cat = folder / "cat.png"
    for both in (f"'{dog}' '{cat}'", f"{dog}\n{cat}", f"{dog.as_uri()}\n\n{cat.as_uri()}"):
        assert dropped_files(both) == f"{expected}@{cat} "
    urls = ("file://[/cat.png", "file:///a|b|.png")
    for other in ("cat.txt", "see cat.png", "absent.png", "it's.png", "", "a\n" * 3000 + "cat.png", *urls):
        assert dropped_files(other) is None


def test_a_preview_has_two_pixels_in_a_cell() -> None:
    wide, small = read_picture(png(40, 20)), read_picture(png(2, 2))
    assert half_cells(wide, 10, 10).plain == "\n".join(["▀" * 10] * 3)
    assert half_cells(small, 40, 12).plain == "▀▀"
    assert half_cells(replace(small, data=b"damaged"), 40, 12).plain == ""
    assert str(half_cells(wide, 10, 10).spans[0].style) == "rgb(128,128,128) on rgb(128,128,128)"


async def test_a_preview_is_cut_off_in_a_narrow_window() -> None:
    async with open_chat() as chat:
        await chat.send("Is @cat.png large?")
        await chat.shows("▀" * 24)
        shown = [row.strip() for row in chat.rows if "▀" in row]
        await chat.pilot.resize_terminal(20, 24)
        await chat.until(lambda: max(map(len, chat.rows)) <= 20)
        assert [row.strip(" ▀▇▆▅▄▃▂▁█…") for row in chat.rows if "▀▀" in row] == [""] * len(shown)
