"""Open the settings screen in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.session.library import StoreOpener
from app.settings.file import SettingsFile
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.models.state import LoadRequest, Tuning
from app.ui.screens.chat import ChatScreen
from app.ui.settings.screen import SettingsScreen
from app.worker.events import Event
from tests.ui.chat_driver import Chat
from tests.ui.fakes import FakeEngine, no_loader
from tests.ui.models.fake_pairs import FakePairs


@dataclass
class Panel:
    """The program with its settings."""

    chat: Chat
    live: LiveSettings

    @property
    def screen(self) -> SettingsScreen:
        screen = self.chat.pilot.app.screen
        assert isinstance(screen, SettingsScreen)
        return screen

    @property
    def chosen(self) -> str:
        view = self.screen.settings.row
        return view.name if view is not None else ""

    async def press(self, *keys: str) -> None:
        await self.chat.pilot.press(*keys)
        await self.chat.pilot.pause()

    async def open(self) -> None:
        await self.press("f4")
        await self.chat.until(lambda: isinstance(self.chat.pilot.app.screen, SettingsScreen))
        await self.chat.pilot.pause()

    async def close(self) -> None:
        await self.press("escape")
        await self.chat.until(lambda: isinstance(self.chat.pilot.app.screen, ChatScreen))

    async def find(self, words: str) -> None:
        """Filter, so that the first setting found is the chosen one."""
        self.screen.filter_input.value = words
        await self.chat.pilot.pause()


@asynccontextmanager
async def open_panel(
    file: Path,
    *,
    flags: Layer | None = None,
    pair: Layer | None = None,
    model: Layer | None = None,
    size: tuple[int, int] = (100, 30),
    store: StoreOpener | None = None,
    opened: bool = True,
) -> AsyncIterator[Panel]:
    """Run the program, with the panel open."""
    live = LiveSettings(SettingsFile(file), flags, pair, model)
    engines: list[FakeEngine] = []

    def factory(emit: Callable[[Event], None]) -> FakeEngine:
        engines.append(FakeEngine(emit))
        return engines[0]

    def reopen() -> LoadRequest:
        live.loading()
        return LoadRequest(no_loader, "Again")

    live.loading()
    app = TandemApp(factory, no_loader, "A pair", Tuning(live, reopen), FakePairs(), store=store)
    async with app.run_test(size=size) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        panel = Panel(Chat(pilot, screen, engines[0]), live)
        await panel.chat.until(lambda: engines[0].loads)
        await panel.chat.load()
        if opened:
            await panel.open()
        yield panel
