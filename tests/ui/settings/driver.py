"""Open the settings screen in tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.session.library import StoreOpener
from app.settings.file import SettingsFile
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.chat.screen import ChatScreen
from app.ui.settings.screen import SettingsScreen
from tests.ui.driver import Chat
from tests.ui.fakes import FakeOpener, fake_app


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

    async def press(self, *keys: str, shows: str | None = None) -> None:
        await self.chat.press(*keys, shows=shows)

    async def open(self) -> None:
        await self.press("f4")
        await self.chat.until(lambda: isinstance(self.chat.pilot.app.screen, SettingsScreen))
        await self.chat.pilot.pause()

    async def close(self) -> None:
        await self.press("escape")
        await self.chat.until(lambda: isinstance(self.chat.pilot.app.screen, ChatScreen))

    async def find(self, words: str, *, shows: str | None = None) -> None:
        """Filter, so that the first found setting is chosen; wait for a text if one is given."""
        self.screen.filter_input.value = words
        await self.chat.pilot.pause()
        if shows is not None:
            await self.chat.shows(shows)


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
    live.loading()
    app, engine = fake_app(opener=FakeOpener(live, "Again"), store=store)
    async with app.run_test(size=size) as pilot:
        screen = app.screen
        assert isinstance(screen, ChatScreen)
        panel = Panel(Chat(pilot, screen, engine), live)
        await panel.chat.until(lambda: engine.loads)
        await panel.chat.load()
        if opened:
            await panel.open()
        yield panel
