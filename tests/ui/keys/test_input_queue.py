"""Keys that come twice, or before what they are for is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from textual.app import App

from app.conversations.store import Store
from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.composer.input import PromptInput
from app.ui.keys.input_queue import QueuedInputApp
from app.ui.screens.chat import ChatScreen
from app.ui.terminal.input_parser import InputParser
from tests.ui.chat_driver import Chat, open_chat
from tests.ui.models.driver import open_setup
from tests.ui.monkey.haste import must_end_alike, random_bursts
from tests.ui.monkey.moves import Engine, Key, Paste, Session, Type, Wait
from tests.ui.monkey.play import TroubleError

_LOOKS = 500
SAID: Session = (Type("Hello"), Key("enter"), Wait(), Engine("say", "Hi there"), Engine("end"), Wait())
BURSTS: dict[str, Session] = {
    "a message is changed": (Key("ctrl+up"), Key("up"), Key("e"), Key("ctrl+u"), Type("again")),
    "a changed one is sent, and the next typed": (
        Key("ctrl+up"), Key("up"), Key("e"), Type(" now"), Key("enter"), Type("next"),
    ),
    "a change is left": (Key("ctrl+up"), Key("up"), Key("e"), Type("x"), Key("escape"), Type("next")),
    "a prompt is sent, and the next typed": (Type("one"), Key("enter"), Type("two")),
    "a paste is sent": (Type("one "), Paste("line\n", 20), Key("enter"), Type("two")),
    "a new conversation": (Type("old"), Key("ctrl+n"), Type("new")),
    "a command": (Type("/new"), Key("enter"), Type("more")),
    "settings": (Type("typed"), Key("f4"), Type("temp")),
    "settings, and back": (Key("f4"), Type("temp"), Key("escape"), Type("more")),
    "a conversation is looked for": (Key("ctrl+n"), Key("ctrl+o"), Type("Hello"), Key("enter"), Type("more")),
    "commands": (Key("ctrl+p"), Type("keys"), Key("enter"), Key("escape"), Type("more")),
}  # fmt: skip


def hit(chat: Chat, *keys: str) -> None:
    """Keys that arrive at once; nothing is waited for."""
    for key in keys:
        chat.pilot.app.post_message(events.Key(key, None))


async def without_the_pilot(condition: Callable[[], bool]) -> None:
    """Wait until it holds; the pilot would wait for the screen, which waits itself."""
    for _ in range(_LOOKS):
        await asyncio.sleep(0.01)
        if condition():
            return
    pytest.fail("never came true")


async def test_a_screen_that_is_left_twice_takes_no_other_one_with_it() -> None:
    async with open_setup(first_run=False) as window:
        # What two keys do that were both pressed before the first was seen.
        setup = window.setup
        setup.action_leave()
        setup.action_leave()
        await window.until(lambda: window.in_chat)
        assert window.app.is_running


@pytest.mark.parametrize("key", ["f4", "f2"])
async def test_a_screen_that_is_asked_for_twice_comes_once(key: str, tmp_path: Path) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    async with open_chat(live=live, store=lambda: Store.in_memory(), size=(120, 40)) as chat:
        await chat.exchange("Hello", "Hi")
        hit(chat, key, key, key)
        await chat.until(lambda: len(chat.pilot.app.screen_stack) > 1)
        await chat.pilot.pause()
        assert len(chat.pilot.app.screen_stack) == 2


async def test_the_command_list_is_asked_to_move_before_it_is_there() -> None:
    async with open_chat() as chat:
        hit(chat, "ctrl+p", "pagedown", "pageup", "pagedown")
        await chat.shows("search the commands")
        hit(chat, "escape", "escape", "escape")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))
        await chat.pilot.pause()
        assert chat.pilot.app.is_running


@pytest.mark.parametrize("burst", BURSTS.values(), ids=BURSTS)
async def test_a_burst_ends_as_its_keys_one_by_one(burst: Session) -> None:
    await must_end_alike((SAID, burst))


@pytest.mark.parametrize("seed", [3, 11])
async def test_random_bursts_end_as_their_keys_one_by_one(seed: int) -> None:
    await must_end_alike(random_bursts(seed, 5))


async def test_a_key_that_overtakes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QueuedInputApp, "on_event", App.on_event)
    with pytest.raises(TroubleError, match="at once"):
        await must_end_alike((SAID, BURSTS["settings"]))


async def test_a_key_that_takes_forever_keeps_the_others_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.keys.input_queue.PATIENCE_S", 0.01)
    ends = asyncio.Event()
    async with open_chat() as chat:
        monkeypatch.setattr(chat.screen.sender, "send", lambda text: ends.wait())
        chat.pilot.app.post_message(events.Key("x", "x"))
        hit(chat, "enter")
        chat.pilot.app.post_message(events.Key("y", "y"))
        try:
            await without_the_pilot(lambda: chat.prompt == "y")
        finally:
            ends.set()
        assert chat.prompt == "y"


async def test_where_keys_are_kept_no_longer_enter_still_sends_all_that_was_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.ui.keys.input_queue.PATIENCE_S", 0.01)
    sent: list[str] = []
    ends = asyncio.Event()
    async with open_chat() as chat:
        app = chat.pilot.app
        assert isinstance(app, QueuedInputApp)

        async def send(text: str) -> None:
            sent.append(text)
            await ends.wait()

        monkeypatch.setattr(chat.screen.sender, "send", send)
        app.post_message(events.Key("x", "x"))
        hit(chat, "enter")
        try:
            await without_the_pilot(lambda: app.input_queue._is_late)
            for character in "yz":
                app.post_message(events.Key(character, character))
            hit(chat, "enter")
            await without_the_pilot(
                lambda: not chat.prompt and app.input_queue._is_late and not app.input_queue._waiting
            )
        finally:
            ends.set()
        await chat.until(lambda: len(sent) > 1)
        assert sent == ["x", "yz"]


async def test_text_with_alt_is_text_and_stops_no_answer() -> None:
    async with open_chat() as chat:
        await chat.send("Hello")
        parser = InputParser()
        for event in [*parser.feed("\x1b.x"), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        await chat.until(lambda: chat.prompt == ".x")
        assert not chat.engine.cancelled


@pytest.mark.parametrize(
    ("sequence", "text", "cursor"),
    [
        ("\x1bb", "one two", (0, 4)),
        ("\x1bb\x1bb\x1bf", "one two", (0, 3)),
        ("\x1bb\x1bd", "one ", (0, 4)),
        ("\x1b\x7f", "one ", (0, 4)),
        ("\x1b\r", "one two\n", (1, 0)),
    ],
    ids=["word left", "word right", "delete word right", "delete word left", "new line"],
)
async def test_alt_does_in_the_prompt_what_it_does_in_shells_and_stops_no_answer(
    sequence: str, text: str, cursor: tuple[int, int]
) -> None:
    async with open_chat() as chat:
        await chat.send("Hello")
        await chat.type("one two")
        parser = InputParser()
        for event in [*parser.feed(sequence), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        prompt = chat.screen.query_one(PromptInput)
        await chat.until(lambda: (chat.prompt, prompt.cursor_location) == (text, cursor))
        assert not chat.engine.cancelled


async def test_an_own_key_with_alt_is_no_text() -> None:
    async with open_chat() as chat:
        chat.pilot.app.set_keymap({"chat.tokens": "alt+k"})
        before = chat.text
        for event in [*(parser := InputParser()).feed("\x1bk"), *parser.feed("")]:
            chat.pilot.app.post_message(event)
        await chat.until(lambda: chat.text != before)
        assert chat.prompt == ""
