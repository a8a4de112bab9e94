"""Check the keys screen and the footer."""

from __future__ import annotations

import re
from pathlib import Path

from textual.app import App

from app.conversations.attached import Attachment, compose
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node
from app.core.errors import AppError
from app.session.chat_settings import ChatSettings
from app.session.snapshot import Phase
from app.ui.screens.key_list import KeyListScreen
from tests.ui.chat_driver import open_chat
from tests.ui.conversations_driver import fill, look
from tests.ui.driver import Driver
from tests.ui.settings.driver import open_panel


def live(app: App[None]) -> set[str]:
    """The ids of the keys that the last line does not dim."""
    return {one.binding.id or "" for one in app.screen.active_bindings.values() if one.enabled}


async def told(driver: Driver) -> dict[str, str]:
    """Return the text of the keys screen by key."""
    await driver.pilot.press("f1")
    await driver.until(lambda: isinstance(driver.pilot.app.screen, KeyListScreen))
    await driver.pilot.pause()
    rows = [re.split(" {2,}", row.strip(), maxsplit=1) for row in driver.rows]
    return {row[0]: row[-1] for row in rows}


async def test_f1_shows_the_keys_of_the_settings(file: Path) -> None:
    async with open_panel(file, size=(80, 40)) as panel:
        keys = await told(panel.chat)
        assert "Settings" in keys
        assert (keys["tab"], keys["ctrl+s"]) == ("All conversations, or this one", "Save all as a preset")
        assert (keys["left"], keys["enter"]) == ("Decrease, or previous choice", "Change the setting")


async def test_f1_shows_the_keys_of_a_message_and_one_opens_what_it_includes() -> None:
    async with open_chat(size=(80, 60)) as chat:
        message = compose("look at @notes", (Attachment("notes", "the contents"),))
        await chat.screen.messages.show([Node(1, None, Role.USER, message)])
        await chat.pilot.press("ctrl+up")
        await chat.until(lambda: chat.screen.messages.chosen is not None)
        await chat.pilot.press("o")
        await chat.shows("the contents")
        await chat.shows("o open")
        await chat.pilot.press("o")
        await chat.until(lambda: "the contents" not in chat.text)
        keys = await told(chat)
        assert "Chosen message" in keys
        assert keys["o"] == "Show or hide attachments and reasoning"
        assert keys["e"] == "Change it, as a branch"


async def test_where_nothing_is_found_enter_is_dimmed(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(store=lambda: Store(file)) as chat:
        await look(chat)
        await chat.until(lambda: "found.open" in live(chat.pilot.app))
        await chat.pilot.press(*"xyz")
        await chat.shows("Nothing found.")
        await chat.until(lambda: "found.open" not in live(chat.pilot.app))


async def test_where_no_setting_is_found_enter_is_dimmed(file: Path) -> None:
    async with open_panel(file) as panel:
        app = panel.chat.pilot.app
        assert "settings.change" in live(app)
        await panel.find("xyz")
        await panel.chat.until(lambda: "settings.change" not in live(app))


async def test_without_models_what_needs_them_is_dimmed_and_shows_why() -> None:
    async with open_chat(loaded=False) as chat:
        app = chat.pilot.app
        assert {"chat.compare", "chat.drafting"} <= live(app)
        chat.engine.fails_to_load(AppError("It is no GGUF file."))
        await chat.until(lambda: chat.screen.session.phase is Phase.UNLOADED)
        await chat.until(lambda: not {"chat.compare", "chat.drafting"} & live(app))
        await chat.pilot.press("f2")
        await chat.shows("No model is loaded")


async def test_with_nothing_to_draft_with_there_is_nothing_to_switch_or_compare() -> None:
    async with open_chat(ChatSettings("A pair")) as chat:
        assert not {"chat.compare", "chat.drafting"} & live(chat.pilot.app)
        await chat.pilot.press("ctrl+d")
        await chat.shows("There is no draft model.")


async def test_while_a_title_is_written_its_line_has_the_keys_of_the_list(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(store=lambda: Store(file)) as chat:
        screen = await look(chat)
        await chat.pilot.press("ctrl+r")
        await chat.shows("enter rename")
        assert not {"found.delete", "found.pin", "found.rename"} & live(chat.pilot.app)
        await chat.pilot.press("ctrl+x", "escape")
        await chat.until(lambda: "found.delete" in live(chat.pilot.app))
        assert screen.conversations.row is not None
        assert screen.conversations.row.summary.title == "mountains"
