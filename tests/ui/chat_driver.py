"""The chat as a user of it sees it, for tests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual import events
from textual.pilot import Pilot

from app.session.library import StoreOpener
from app.session.snapshot import Phase
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.screens.chat import ChatScreen
from app.ui.sidebar.status_line import StatusLine
from app.ui.transcript.message import AnswerMessage
from tests.ui.driver import Driver
from tests.ui.fakes import FIXED, FakeEngine, fake_app

WIDE = (150, 30)
"""A window with room for everything beside the conversation."""


class Chat(Driver):
    """A running chat: keys in, screen text out."""

    def __init__(self, pilot: Pilot[None], screen: ChatScreen, engine: FakeEngine) -> None:
        super().__init__(pilot)
        self.screen = screen
        self.engine = engine

    async def type(self, text: str) -> None:
        """Type quickly, as a paste into the terminal would."""
        before = self.prompt
        for character in text:
            self.pilot.app.post_message(events.Key("space" if character == " " else character, character))
        await self.until(lambda: self.prompt == before + text)

    async def send(self, text: str) -> None:
        """Type a prompt, press Enter, and wait until the engine was asked."""
        asked = len(self.engine.requests)
        await self.type(text)
        await self.pilot.press("enter")
        await self.until(lambda: len(self.engine.requests) > asked)

    async def click(self, word: str) -> None:
        """Click on a word wherever it first stands on the screen."""
        y = next(y for y, line in enumerate(self.rows) if re.search(rf"\b{word}\b", line))
        await self.pilot.click(offset=(self.rows[y].index(word), y))

    async def exchange(self, prompt: str, answer: str) -> None:
        """Ask something, and let the engine answer it."""
        await self.send(prompt)
        self.engine.says(answer)
        self.engine.finishes()
        await self.ready()

    async def look_away(self) -> None:
        """Another window comes in front of the terminal."""
        self.pilot.app.post_message(events.AppBlur())
        await self.until(lambda: not self.pilot.app.app_focus)
        await self.pilot.pause()

    async def come_back(self) -> None:
        """The terminal is in front again."""
        self.pilot.app.post_message(events.AppFocus())
        await self.until(lambda: self.pilot.app.app_focus)
        await self.pilot.pause()

    async def load(self) -> None:
        self.engine.loaded()
        await self.until(lambda: self.screen.session.phase is Phase.READY)

    async def ready(self) -> None:
        """Wait for the end of the running answer."""
        await self.until(lambda: self.screen.session.phase is Phase.READY)

    @property
    def prompt(self) -> str:
        return self.screen.prompt.text

    @property
    def answers(self) -> list[AnswerMessage]:
        return [answer for answer in self.screen.query(AnswerMessage) if answer.display]

    @property
    def status(self) -> str:
        line = self.screen.query_one(StatusLine)
        return line.lines(*line.size)[0].plain


def said(chat: Chat) -> list[str]:
    """Return the rows of the conversation, without panes and empty rows."""
    left, top, width, height = chat.screen.messages.region
    rows = [row[left : left + width - 1].strip() for row in chat.rows[top : top + height]]
    return [row for row in rows if row]


def n_said(chat: Chat) -> int:
    """Messages of the conversation that is shown, mounted or not."""
    return sum(item.node is not None for item in chat.screen.messages.items)


@asynccontextmanager
async def open_chat(
    flags: Layer = FIXED,
    *,
    loaded: bool = True,
    size: tuple[int, int] = (80, 24),
    closes: bool = True,
    store: StoreOpener | None = None,
    live: LiveSettings | None = None,
    continues: bool = False,
) -> AsyncIterator[Chat]:
    """Run the chat over a fake engine."""
    app, engine = fake_app(flags, closes=closes, store=store, live=live, continues=continues)
    async with app.run_test(size=size) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        chat = Chat(pilot, screen, engine)
        await chat.until(lambda: engine.loads)
        if loaded:
            await chat.load()
        yield chat
