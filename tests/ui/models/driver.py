"""The setup screens as seen by their user, for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from app.ui.app import TandemApp
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.setup_screen import SetupScreen
from tests.fake_engine import FakeEngine
from tests.settings.in_memory import in_memory
from tests.ui.driver import Chat
from tests.ui.fakes import FakeOpener, fake_app
from tests.ui.models.fake_pairs import FakePairs


class SetupChat(Chat):
    """A running chat whose user chooses a pair."""

    def __init__(self, pilot: Pilot[None], app: TandemApp, engine: FakeEngine, pairs: FakePairs) -> None:
        super().__init__(pilot, app._chat, engine)
        self.pairs = pairs

    async def reach_setup(self, *, first_run: bool) -> None:
        """Reach the setup screen; any run except the first has a pair loaded below it."""
        if not first_run:
            await self.until(lambda: self.engine.loads)
            await self.load()
            await self.press("f6")
        await self.until(lambda: isinstance(self.app.screen, SetupScreen) and ("refresh",) in self.pairs.calls)

    @property
    def setup(self) -> SetupScreen:
        assert isinstance(self.app.screen, SetupScreen)
        return self.app.screen

    async def add(self) -> AddPairScreen:
        """Open the screen that adds a pair."""
        await self.press("ctrl+a", until=lambda: self.is_adding)
        assert isinstance(self.app.screen, AddPairScreen)
        return self.app.screen

    @property
    def is_adding(self) -> bool:
        return isinstance(self.app.screen, AddPairScreen)

    @property
    def pair(self) -> str:
        """The name of the chosen pair; "" for the line that adds a pair."""
        card = self.setup.pairs.row
        return card.name if card is not None else ""


def setup_app(pairs: FakePairs, *, first_run: bool) -> tuple[TandemApp, FakeEngine]:
    """Return the real application over a fake engine and these pairs."""
    opener = FakeOpener(in_memory({"draft.mode": "off"}))
    return fake_app(opener=opener, pairs=pairs, title="No pair" if first_run else "A pair", first_run=first_run)


@asynccontextmanager
async def open_setup(
    pairs: FakePairs | None = None, *, first_run: bool = True, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[SetupChat]:
    """Run the program up to its setup screen, with a pair loaded below it unless it is the first run."""
    pairs = pairs or FakePairs()
    app, engine = setup_app(pairs, first_run=first_run)
    async with app.run_test(size=size) as pilot:
        chat = SetupChat(pilot, app, engine, pairs)
        await chat.reach_setup(first_run=first_run)
        yield chat
