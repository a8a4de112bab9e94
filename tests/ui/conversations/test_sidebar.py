"""Check the list of conversations in the sidebar."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversations.store import Store
from app.conversations.tree import Summary
from app.ui.chat.inspector import Inspector
from app.ui.conversations.picker import ConversationsScreen
from app.ui.transcript.list import MessageList
from tests.ui.chat_driver import WIDE, open_chat
from tests.ui.conversations_driver import chosen, fill, filled, texts


async def test_the_sidebar_lists_marks_and_opens(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await filled(chat)
        await chat.shows("mountains")
        await chat.click("rivers")
        await chat.shows("The answer about rivers is long.")
        assert any(line.startswith(" ● rivers") for line in chat.rows)
        await chat.send("and lakes?")
        assert chat.engine.requests[0].messages[0].content == "rivers"


async def test_a_new_conversation_appears_and_moves_up(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await filled(chat)
        await chat.send("lakes")
        await chat.shows(" ● lakes")
        chat.engine.says("Como")
        chat.engine.finishes()
        await chat.ready()
        await chat.click("new")
        await chat.until(lambda: chat.answers == [])
        assert "●" not in chat.text
        assert chat.screen.prompt.has_focus


async def test_a_long_title_continues_in_a_second_line(file: Path) -> None:
    long = "Why does my build fail only on Windows when the path holds a space and a bracket"
    fill(file, "rivers", *(f"{number} {long}" for number in range(40)))
    async with open_chat(size=(120, 24), store=lambda: Store(file)) as chat:
        picker = await filled(chat)
        await chat.shows(" 39 Why does my build")
        rows = [row[:27].rstrip() for row in chat.rows if row[:27].strip() and row.startswith("   ")]
        assert rows[:3] == ["   39 Why does my build", "   fail only on Windows…", "   38 Why does my build"]
        await chat.pilot.press("ctrl+o", "down", "down")
        assert chosen(picker).startswith("37 ")
        await chat.pilot.press("pageup")
        assert chosen(picker).startswith("39 ")
        await chat.pilot.press(*["down"] * 45)
        await chat.until(lambda: chosen(picker) == "rivers")
        await chat.shows("   0 Why does my build")
        await chat.click("rivers")
        await chat.shows("The answer about rivers is long.")
        # A click on the second line opens as well.
        line = next(at for at, row in enumerate(chat.rows) if row.startswith("   0 Why"))
        await chat.pilot.click(offset=(5, line + 1))
        await chat.shows("The answer about 0 Why")


@pytest.mark.parametrize("leaves", ["ctrl+n", "enter"])
async def test_what_continues_is_not_hidden_by_a_filter_that_has_found_something(file: Path, leaves: str) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await filled(chat)
        await chat.pilot.press("ctrl+o", *"rivers")
        await chat.until(lambda: "mountains" not in chat.text)
        await chat.pilot.press(leaves)
        await chat.until(lambda: chat.screen.prompt.has_focus and "mountains" in chat.text)
        await chat.send("lakes")
        await chat.shows(" ● lakes" if leaves == "ctrl+n" else " ● rivers")


async def test_text_that_comes_does_not_ask_the_store(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await filled(chat)
        await chat.send("go")
        asked: list[int] = []
        summaries = Store.summaries

        def counted(store: Store) -> tuple[Summary, ...]:
            asked.append(1)
            return summaries(store)

        monkeypatch.setattr(Store, "summaries", counted)
        for n in range(5):
            chat.engine.says(f"word{n} ")
            await chat.shows(f"word{n}")
        assert asked == []
        chat.engine.finishes()
        await chat.ready()
        # The list, and the title of a first answer.
        assert len(asked) <= 2


async def test_ctrl_o_searches_in_the_sidebar_and_once_more_on_a_whole_screen(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await filled(chat)
        await chat.pilot.press("ctrl+o", *"rivers")
        await chat.until(lambda: chosen(picker) == "rivers")
        assert "mountains" not in chat.text
        await chat.shows("…out rivers is long.")
        await chat.pilot.press("enter")
        await chat.shows("The answer about rivers is long.")
        assert chat.screen.prompt.has_focus
        await chat.pilot.press("ctrl+o", "escape")
        assert chat.screen.prompt.has_focus
        assert picker.search_input.value == ""
        await chat.pilot.press("ctrl+o", "ctrl+o")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ConversationsScreen))


async def test_a_hit_is_in_sight_however_narrow_the_list(file: Path) -> None:
    fill(file, "a long beginning, and then the Tagliamento comes")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await filled(chat)
        await chat.pilot.press("ctrl+o", *"long.")
        await chat.until(lambda: any("long." in row[:28] for row in chat.rows))


async def test_renaming_by_key_and_not(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await filled(chat)
        await chat.pilot.press("ctrl+o", "ctrl+r")
        assert picker.title_input.value == "rivers"
        await chat.pilot.press("end", *" of Italy", "escape")
        await chat.until(lambda: picker.search_input.has_focus)
        assert chosen(picker) == "rivers"
        await chat.pilot.press("ctrl+r", *" x", "enter")
        await chat.until(lambda: chosen(picker) == "rivers x")
        await chat.pilot.press("ctrl+r", *["backspace"] * 8, "enter")
        await chat.until(lambda: chosen(picker) == "rivers")


async def test_the_mouse_pins_deletes_and_downloads_back(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await filled(chat)
        await chat.click("rivers")
        await chat.shows("● rivers")
        await chat.click("pin")
        await chat.shows("▴")
        listed = [line[:28] for line in chat.rows]
        assert next(line for line in listed if "rivers" in line or "mountains" in line).startswith(" ● rivers")
        await chat.click("delete")
        await chat.shows('Deleted "rivers"; ctrl+_ restores it.')
        await chat.until(lambda: chat.answers == [])
        assert chosen(picker) == "mountains"
        await chat.click("undo")
        await chat.until(lambda: chosen(picker) == "rivers")
        assert texts(file)[0] == "rivers"


async def test_the_sidebar_comes_and_goes_by_a_key(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(store=lambda: Store(file)) as chat:
        assert "rivers" not in chat.text
        await chat.pilot.press("f7")
        await chat.shows("rivers")
        await chat.pilot.press("ctrl+o", "f7")
        await chat.until(lambda: "rivers" not in chat.text)
        assert chat.screen.prompt.has_focus


async def test_the_keys_of_the_sidebar_are_not_taken_by_the_chat(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    monkeypatch.setattr(MessageList, "page", lambda self, direction: taken.append("page"))
    monkeypatch.setattr(Inspector, "step", lambda self, by: taken.append("round"))
    fill(file, "rivers", "mountains", "lakes")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await filled(chat)
        await chat.pilot.press("f3", "ctrl+o", *"rivers", "left", "x")
        await chat.until(lambda: picker.search_input.value == "riverxs")
        picker.search_input.clear()
        await chat.until(lambda: chosen(picker) == "lakes")
        await chat.pilot.press("pagedown")
        await chat.until(lambda: chosen(picker) == "rivers")
        await chat.pilot.press("ctrl+x")
        await chat.until(lambda: chosen(picker) != "rivers")
        await chat.pilot.press("ctrl+underscore")
        await chat.until(lambda: chosen(picker) == "rivers")
        assert taken == []
        await chat.pilot.press("escape", "left", "pageup")
        assert taken == ["round", "page"]
