"""The palette lists all actions with their keys; clicks and keys on changing screens."""

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Static

from app.conversations.store import Store
from app.ui.actions import ACTIONS
from app.ui.conversations.picker import ConversationsScreen
from app.ui.screens.key_list import KeyListScreen
from app.ui.screens.palette import Palette
from app.ui.text import MARK
from tests.ui.driver import Chat, open_chat
from tests.ui.settings.driver import open_settings


async def open_palette(chat: Chat, query: str = "") -> Palette:
    await chat.press("ctrl+p", until=lambda: isinstance(chat.app.screen, Palette))
    await chat.pilot.pause()
    await chat.pilot.press(*query)
    palette = chat.app.screen
    assert isinstance(palette, Palette)
    return palette


async def test_every_action_is_listed_with_its_key() -> None:
    async with open_chat(store=Store, size=(100, 60)) as chat:
        palette = await open_palette(chat)
        listed = {(entry.name, entry.help) for entry in palette.listed.rows}
        missing = {action.id for action in ACTIONS if action.help and (action.name, action.help) not in listed}
        # They act on objects that exist only sometimes: an edit, a deleted message, the steps of an answer.
        rare = {
            "chat.leave_task",
            "chat.earlier_round",
            "chat.later_round",
            "prompt.dismiss",
            "chat.take_back",
            "chat.undelete",
            "match.above",
            "match.below",
        }
        assert missing == {*rare, "app.commands"}
        await chat.shows("ctrl+n")
        assert all(entry.keys for entry in palette.listed.rows)
        names = [entry.name for entry in palette.listed.rows]
        assert names.index("new") < names.index("stop"), "what does nothing now comes last"


async def test_a_command_is_completed_in_the_input_line_which_keeps_its_text() -> None:
    async with open_chat(store=Store) as chat:
        await chat.exchange("Hello", "Hi")
        await chat.type("Name three")
        for query, prompt in (("import", "/import "), ("title", "/rename Hello"), ("system", "/system ")):
            await open_palette(chat, query)
            await chat.pilot.press("enter")
            await chat.until(lambda: chat.prompt == prompt)  # noqa: B023
            await chat.pilot.press("space", "backspace", *["escape"] * (1 + chat.screen.view.prompt.menu.is_open))
            await chat.until(lambda: chat.prompt == "Name three")


@pytest.mark.parametrize(
    ("query", "keys", "shown"),
    [
        ("temperature", ["down", "enter"], "Temperature; 0 is greedy."),
        ("TTFT", ["enter"], "Time until the first token of an answer (TTFT)"),
        ("what the numbers mean", ["enter"], "Time until the first token of an answer (TTFT)"),
        ("continue", ["enter"], "There is no answer to continue."),
        ("stop", ["enter"], "No answer is being written."),
    ],
)
async def test_an_action_or_a_setting_is_found_and_run(query: str, keys: list[str], shown: str) -> None:
    async with open_chat() as chat:
        await open_palette(chat, query)
        await chat.press(*keys, shows=shown)


async def test_a_message_action_chooses_a_message_first() -> None:
    async with open_chat() as chat:
        await chat.exchange("Hello", "Hi")
        await open_palette(chat, "attachments")
        await chat.shows("ctrl+up ctrl+t")
        await chat.press("enter", until=lambda: chat.screen.view.messages.chosen is not None)


async def test_delete_leads_to_the_list_and_names_the_key(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("Hello", "Hi")
        await open_palette(chat, "delete conv")
        await chat.press("enter", until=lambda: isinstance(chat.app.screen, ConversationsScreen))
        await chat.shows("ctrl+x: Delete a conversation")


async def test_an_unmatched_search_names_the_key_for_all_commands() -> None:
    async with open_chat() as chat:
        await open_palette(chat, "xqz")
        await chat.shows("f1 lists every key and command.")
        await chat.pilot.press("enter")
        assert isinstance(chat.app.screen, Palette)


async def test_a_long_list_scrolls_to_the_chosen_line() -> None:
    async with open_chat(size=(80, 16)) as chat:
        await open_palette(chat)
        await chat.press(*["pagedown"] * 8, shows="Rename a conversation")


async def test_another_screen_lists_its_own_keys(file: Path) -> None:
    async with open_settings(file) as chat:
        palette = await open_palette(chat, "preset")
        await chat.shows("Save all as a preset")
        assert "regenerate" not in {entry.name for entry in palette.listed.rows}
        await chat.press("enter", shows="name of the preset")


def point(chat: Chat, kind: type[events.MouseEvent], x: int, y: int) -> None:
    """Send a mouse event with the left button to a cell."""
    chat.receive(kind(None, x, y, 0, 0, 1, False, False, False, x, y))


async def test_a_click_on_a_removed_widget_is_ignored() -> None:
    async with open_chat() as chat:
        widget = Static("here")
        await chat.screen.view.mount(widget)
        await chat.shows("here")
        x, y = widget.region.x + 1, widget.region.y
        with chat.app.batch_update():
            await widget.remove()
            for kind in (events.MouseDown, events.MouseMove, events.MouseUp):
                point(chat, kind, x, y)
            await chat.pilot.pause()
        await chat.exchange("And now?", "Still here")
        await chat.shows("Still here")


async def test_a_mouse_outside_of_a_smaller_terminal_leaves_the_keys_with_the_prompt() -> None:
    async with open_chat(size=(100, 30)) as chat:
        point(chat, events.MouseDown, 150, 50)
        point(chat, events.MouseUp, 150, 50)
        await chat.until(lambda: chat.screen.view.prompt.has_focus)
        await chat.send("Hello")


async def test_the_keys_are_shown_only_once() -> None:
    async with open_chat() as chat:
        await chat.press("f1", "ctrl+p", shows="what do you want to do?")
        await chat.press(*"keys", shows="Show every key")
        await chat.press("enter", until=lambda: isinstance(chat.app.screen, KeyListScreen))
        await chat.in_front("escape")


async def test_a_palette_has_room_for_entries_in_the_smallest_window() -> None:
    async with open_chat(size=(20, 6)) as chat:
        chat.screen.view.prompt.text = "a\nb\nc"
        await open_palette(chat)
        await chat.shows(f"{MARK} draft")
