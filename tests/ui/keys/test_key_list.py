"""The keys screen and the footer, and duplicate or early keys."""

import re
from pathlib import Path

import pytest
from textual.app import App
from textual.events import Key

from app.conversations.attached import Attachment, compose
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node
from app.core.errors import AppError
from app.session.state import Phase
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.actions import ACTIONS
from app.ui.composer.input import PromptInput
from app.ui.screens.key_list import KeyListScreen
from app.ui.terminal.driver import InputParser
from tests.ui.driver import Driver, fill, open_chat
from tests.ui.models.driver import open_setup
from tests.ui.settings.driver import open_settings


def live(app: App[None]) -> set[str]:
    """Return the ids of the keys that the last line does not dim."""
    return {one.binding.id or "" for one in app.screen.active_bindings.values() if one.enabled}


async def told(driver: Driver) -> dict[str, str]:
    """Return the text of the keys screen by key."""
    await driver.press("f1", until=lambda: isinstance(driver.app.screen, KeyListScreen))
    await driver.pilot.pause()
    rows = [re.split(" {2,}", row.strip(), maxsplit=1) for row in driver.rows]
    return {row[0]: row[-1] for row in rows}


async def test_f1_shows_the_keys_of_the_settings(file: Path) -> None:
    async with open_settings(file, size=(80, 40)) as chat:
        keys = await told(chat)
        assert "Settings" in keys
        assert (keys["tab"], keys["ctrl+s"]) == ("All conversations, or this one", "Save all as a preset")
        assert (keys["left"], keys["enter"]) == ("Decrease, or previous choice", "Change the setting")


async def test_f1_shows_the_keys_of_a_message_and_one_opens_what_it_includes() -> None:
    async with open_chat(size=(80, 150)) as chat:
        message = compose("look at @notes", (Attachment("notes", "the contents"),))
        chat.screen.view.messages.show([Node(1, None, Role.USER, message)])
        await chat.press("ctrl+up", until=lambda: chat.screen.view.messages.chosen is not None)
        await chat.press("ctrl+t", shows="the contents")
        await chat.press("ctrl+t", until=lambda: "the contents" not in chat.text)
        keys = await told(chat)
        assert keys["enter, ctrl+e"] == "Change it, as a branch"
        rows = [" ".join(row.split()) for row in chat.rows]
        assert "ctrl+t Show or hide attachments and reasoning" in rows
        assert [row for row in rows if row.startswith("Chosen message")] == ["Chosen message"]


async def test_enter_is_dimmed_if_nothing_is_found(file: Path) -> None:
    fill(file, "rivers")
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.list_conversations()
        await chat.until(lambda: "found.open" in live(chat.app))
        await chat.press(*"xyz", shows="Nothing found.")
        await chat.until(lambda: "found.open" not in live(chat.app))


async def test_without_models_what_needs_them_is_dimmed_and_shows_why() -> None:
    async with open_chat(loaded=False) as chat:
        app = chat.app
        assert "chat.drafting" in live(app)
        chat.engine.fails_to_load(AppError("It is no GGUF file."))
        await chat.until(lambda: chat.screen.session.phase is Phase.UNLOADED)
        await chat.until(lambda: not {"chat.compare", "chat.drafting"} & live(app))
        await chat.press("f2", shows="No pair is loaded")


async def test_a_comparison_is_offered_while_there_is_a_prompt_and_no_answer_is_written() -> None:
    async with open_chat() as chat:
        app = chat.app
        assert "chat.compare" not in live(app)
        await chat.exchange("one", "first")
        await chat.until(lambda: "chat.compare" in live(app))
        await chat.send("two")
        await chat.until(lambda: "chat.compare" not in live(app))


async def test_without_a_draft_source_switching_and_comparing_are_disabled() -> None:
    async with open_chat({"draft.mode": "off"}) as chat:
        assert not {"chat.compare", "chat.drafting"} & live(chat.app)
        await chat.press("ctrl+d", shows="Drafting is off in the settings")


async def test_while_a_title_is_written_its_line_has_the_keys_of_the_list(file: Path) -> None:
    fill(file, "rivers", "mountains")
    async with open_chat(store=lambda: Store(file)) as chat:
        screen = await chat.list_conversations()
        await chat.press("ctrl+r", shows="enter rename")
        assert not {"found.delete", "found.pin", "found.rename"} & live(chat.app)
        await chat.press("ctrl+x", "escape", until=lambda: "found.delete" in live(chat.app))
        assert screen.conversations.row is not None
        assert screen.conversations.row.summary.title == "mountains"


async def test_leaving_a_screen_twice_closes_only_that_screen() -> None:
    async with open_setup(first_run=False) as chat:
        # Two keys that are pressed before the first is handled
        setup = chat.setup
        setup.action_leave()
        setup.action_leave()
        await chat.in_front()
        assert chat.app.is_running


@pytest.mark.parametrize("key", ["f4", "f2"])
async def test_a_key_pressed_twice_opens_one_screen(key: str, tmp_path: Path) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    async with open_chat(live=live, store=lambda: Store(), size=(120, 40)) as chat:
        await chat.exchange("Hello", "Hi")
        chat.hit("", key, key, key)
        await chat.until(lambda: len(chat.app.screen_stack) > 1)
        await chat.pilot.pause()
        assert len(chat.app.screen_stack) == 2


async def test_keys_before_the_palette_is_shown_are_harmless() -> None:
    async with open_chat() as chat:
        chat.hit("", "ctrl+p", "pagedown", "pageup", "pagedown")
        await chat.shows("what do you want to do?")
        chat.hit("", "escape", "escape", "escape")
        await chat.in_front()
        await chat.pilot.pause()
        assert chat.app.is_running


async def test_text_enter_and_the_next_text_at_once_send_the_first() -> None:
    async with open_chat() as chat:
        chat.hit("one", "enter")
        chat.hit("two")
        await chat.until(lambda: chat.engine.requests)
        await chat.until(lambda: chat.prompt == "two")
        assert chat.engine.requests[0].messages[-1].content == "one"


ALT_KEYS = {
    "\x1bb": ("one two", (0, 4)),
    "\x1bb\x1bb\x1bf": ("one two", (0, 3)),
    "\x1bb\x1bd": ("one ", (0, 4)),
    "\x1b\x7f": ("one ", (0, 4)),
    "\x1b\r": ("one two\n", (1, 0)),
}
"""The text and the cursor after keys with alt: word left, word right, delete word right and left, new line."""


async def test_alt_does_in_the_prompt_what_it_does_in_shells_and_stops_no_answer() -> None:
    async with open_chat() as chat:
        await chat.send("Hello")
        prompt = chat.screen.query_one(PromptInput)
        for sequence, expected in ALT_KEYS.items():
            prompt.clear()
            await chat.type("one two")
            for event in [*(parser := InputParser()).feed(sequence), *parser.feed("")]:
                chat.app.post_message(event)
            await chat.until(lambda: (chat.prompt, prompt.cursor_location) == expected)  # noqa: B023
        assert not chat.engine.cancelled


def parsed(sequence: str) -> list[tuple[str, str | None]]:
    """Return the keys in a terminal's input, each with the text that it types."""
    parser = InputParser()
    events = [*parser.feed(sequence), *parser.feed("")]
    return [(event.key, event.character) for event in events if isinstance(event, Key)]


WITH_ALT = {key for action in ACTIONS for key in (action.keys or "").split(",") if key.startswith("alt+")}


@pytest.mark.parametrize("key", sorted(key for key in WITH_ALT if len(key) == len("alt+c")))
def test_a_terminal_sends_every_key_with_alt_as_that_key_and_no_text(key: str) -> None:
    assert parsed(f"\x1b{key[-1]}") == [(key, None)]
    # The keyboard protocol of kitty
    assert parsed(f"\x1b[{ord(key[-1])};3u") == [(key, None)]


@pytest.mark.parametrize(
    ("sequence", "key"), [("\x1b\r", "alt+enter"), ("\x1b[1;3A", "alt+up"), ("\x1b-", "alt+minus"), ("\x1bk", "alt+k")]
)
def test_alt_and_any_other_key_is_no_text(sequence: str, key: str) -> None:
    assert parsed(sequence) == [(key, None)]
