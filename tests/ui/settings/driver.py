"""Open the settings screen in tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from app.session.library import StoreOpener
from app.settings.file import SettingsFile
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.settings.screen import SettingsScreen
from tests.fake_engine import FakeEngine
from tests.ui.driver import Chat
from tests.ui.fakes import FakeOpener, fake_app


class SettingsChat(Chat):
    """A running chat with its settings."""

    def __init__(self, pilot: Pilot[None], app: TandemApp, engine: FakeEngine, live: LiveSettings) -> None:
        super().__init__(pilot, app._chat, engine)
        self.live = live

    @property
    def panel(self) -> SettingsScreen:
        assert isinstance(self.app.screen, SettingsScreen)
        return self.app.screen

    @property
    def setting(self) -> str:
        """The name of the chosen setting."""
        view = self.panel.settings.row
        return view.name if view is not None else ""

    async def open(self) -> None:
        await self.press("f4", until=lambda: isinstance(self.app.screen, SettingsScreen))
        await self.pilot.pause()

    async def close(self) -> None:
        await self.in_front("escape")

    async def change(self, words: str, *keys: str, shows: str | None = None) -> None:
        """Choose the first setting that a filter finds, and press keys; wait for a text if one is given."""
        await self.find(words)
        await self.press(*keys, shows=shows)

    async def find(self, words: str, *, shows: str | None = None) -> None:
        """Filter, so that the first found setting is chosen; wait for a text if one is given."""
        self.panel.filter_input.value = words
        await self.pilot.pause()
        if shows is not None:
            await self.shows(shows)


@asynccontextmanager
async def open_settings(
    file: Path,
    *,
    flags: Layer | None = None,
    pair: Layer | None = None,
    size: tuple[int, int] = (100, 30),
    store: StoreOpener | None = None,
    opened: bool = True,
) -> AsyncIterator[SettingsChat]:
    """Run the program, with the settings open."""
    live = LiveSettings(SettingsFile(file), flags, pair)
    live.loading()
    app, engine = fake_app(opener=FakeOpener(live, "Again"), store=store)
    async with app.run_test(size=size) as pilot:
        chat = SettingsChat(pilot, app, engine, live)
        await chat.until(lambda: engine.loads)
        await chat.load()
        if opened:
            await chat.open()
        yield chat
