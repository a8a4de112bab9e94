"""Check keys and clicks for widgets that were just removed, and without a focus."""

from __future__ import annotations

from textual import events
from textual.widgets import Static

from app.ui.screens.key_list import KeyListScreen
from app.ui.screens.palette import Palette
from tests.ui.driver import Chat, open_chat


def point(chat: Chat, kind: type[events.MouseEvent], x: int, y: int, button: int = 0) -> None:
    """Send a mouse event to a cell, as the terminal does."""
    driver = chat.pilot.app._driver
    assert driver is not None
    driver.process_message(kind(None, x, y, 0, 0, button, False, False, False, x, y))


async def test_a_click_on_a_widget_that_has_just_gone_goes_nowhere() -> None:
    async with open_chat() as chat:
        widget = Static("here")
        await chat.screen.view.mount(widget)
        await chat.shows("here")
        x, y = widget.region.x + 1, widget.region.y
        with chat.pilot.app.batch_update():
            await widget.remove()
            for kind in (events.MouseDown, events.MouseMove, events.MouseUp):
                point(chat, kind, x, y, 1)
            await chat.pilot.pause()
        await chat.exchange("And now?", "Still here")
        await chat.shows("Still here")


async def test_the_commands_are_shown_however_narrow_the_terminal() -> None:
    async with open_chat(size=(1, 30)) as chat:
        for columns in (1, 4, 5, 6):
            await chat.pilot.resize_terminal(columns, 30)
            await chat.pilot.press("ctrl+p")
            await chat.until(lambda: isinstance(chat.pilot.app.screen, Palette))
            await chat.pilot.pause()
            await chat.pilot.press("escape")
            await chat.until(lambda: chat.pilot.app.screen is chat.screen)


async def test_a_mouse_outside_of_a_smaller_terminal_leaves_the_keys_with_the_prompt() -> None:
    async with open_chat(size=(100, 30)) as chat:
        point(chat, events.MouseDown, 150, 50, 1)
        point(chat, events.MouseUp, 150, 50, 1)
        await chat.until(lambda: chat.screen.view.prompt.has_focus)
        await chat.send("Hello")


async def test_the_keys_are_shown_once_however_they_are_asked_for() -> None:
    async with open_chat() as chat:
        await chat.press("f1", "ctrl+p", shows="what do you want to do?")
        await chat.press(*"keys", shows="Show every key")
        await chat.pilot.press("enter")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, KeyListScreen))
        await chat.pilot.press("escape")
        await chat.until(lambda: chat.pilot.app.screen is chat.screen)
