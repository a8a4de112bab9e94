"""The list of conversations in the sidebar."""

from pathlib import Path

import pytest

from app.conversations.store import Store
from app.conversations.tree import Summary
from app.ui.conversations.picker import ConversationsScreen
from tests.ui.driver import NOW, WIDE, converse, fill, open_chat, texts, title_of


async def test_the_sidebar_lists_marks_and_opens(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await chat.picker()
        await chat.shows("mountains")
        await chat.click("rivers", shows="The answer about rivers is long.")
        assert any(line.startswith(" ● rivers") for line in chat.rows)
        await chat.send("and lakes?")
        assert chat.engine.requests[0].messages[0].content == "rivers"


async def test_a_new_conversation_appears_and_moves_up(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await chat.picker()
        await chat.send("lakes")
        await chat.shows(" ● lakes")
        await chat.answer("Como")
        await chat.click("new", until=lambda: chat.answers == [])
        assert "●" not in chat.text
        assert chat.screen.view.prompt.has_focus


async def test_a_long_title_continues_in_a_second_line(file: Path) -> None:
    long = "Why does my build fail only on Windows when the path holds a space and a bracket"
    fill(file, "rivers", *(f"{number} {long}" for number in range(40)))
    async with open_chat(size=(120, 24), store=lambda: Store(file)) as chat:
        picker = await chat.picker()
        await chat.shows(" 39 Why does my build")
        rows = [row[:27].rstrip() for row in chat.rows if row[:27].strip() and row.startswith("   ")]
        assert rows[:3] == ["   Today", "   39 Why does my build", "   fail only on Windows…"]
        picker.conversations.choose(40)
        await chat.shows("   0 Why does my build")
        await chat.click("rivers", shows="The answer about rivers is long.")
        # A click on the second line opens as well.
        line = next(at for at, row in enumerate(chat.rows) if row.startswith("   0 Why"))
        await chat.pilot.click(offset=(5, line + 1))
        await chat.shows("The answer about 0 Why")


async def test_text_that_comes_does_not_ask_the_store(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await chat.picker()
        await chat.send("go")
        await chat.until(lambda: picker.conversations.row is not None and picker.conversations.row.is_open)
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


@pytest.mark.parametrize("by_mouse", [False, True])
async def test_a_search_uses_the_whole_screen_at_any_width(file: Path, by_mouse: bool) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await chat.picker()
        await (chat.click("search") if by_mouse else chat.pilot.press("ctrl+o"))
        await chat.until(lambda: isinstance(chat.app.screen, ConversationsScreen))
        await chat.pilot.pause()
        await chat.press(*"is long", "down", shows="The answer about rivers is long.")
        await chat.press("enter", until=lambda: chat.screen.view.messages.is_seeking)
        await chat.shows("The answer about rivers is long.")


@pytest.mark.usefixtures("even_clock")
async def test_the_sidebar_shows_days_as_headings(file: Path) -> None:
    now = [NOW - 40 * 86_400]
    store = Store(file, now=lambda: now[0])
    for title, days in (("old", 40), ("last week", 3), ("new", 0)):
        now[0] = NOW - days * 86_400
        converse(store, title)
    async with open_chat(size=WIDE, store=lambda: store) as chat:
        await chat.picker()
        await chat.shows("old")
        rows = [row[:27].strip() for row in chat.rows]
        assert [row for row in rows if row][3:9] == ["Today", "new", "Last 7 days", "last week", "October", "old"]


async def test_the_mouse_pins_deletes_and_restores_the_open_conversation(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        picker = await chat.picker()
        await chat.shows("rivers")
        assert "delete" not in chat.text
        await chat.click("rivers", shows="● rivers")
        await chat.click("pin", shows="▴")
        listed = [line[:28] for line in chat.rows]
        assert next(line for line in listed if "rivers" in line or "mountains" in line).startswith(" ● rivers")
        await chat.click("delete", shows='Deleted "rivers"; undo below the list restores it.')
        await chat.until(lambda: chat.answers == [])
        assert title_of(picker) == "mountains"
        await chat.click("undo", until=lambda: title_of(picker) == "rivers")
        assert texts(file)[0] == "rivers"


async def test_a_key_toggles_the_sidebar(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(store=lambda: Store(file)) as chat:
        assert "rivers" not in chat.text
        await chat.press("f7", shows="rivers")
        await chat.press("f7", until=lambda: "rivers" not in chat.text)
        assert chat.screen.view.prompt.has_focus
