"""A small world of pairs for tests of the setup screens."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.compare import measured_pairs
from app.core.errors import CatalogError
from app.hardware.recommend import Capacity
from app.models.catalog import Catalog, Pair, WorkingMemory, shipped_file
from app.models.registry import SetUp
from app.models.setup_task import SetupProgress
from app.models.source import DemoModel, HubModel
from app.session.state import Phase
from app.settings.layers import Layer
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, PairCard, PairsState
from app.worker import known_pairs
from app.worker.known_pairs import KnownPair
from tests.capacities import in_ram
from tests.fake_engine import no_loader
from tests.hanging import HANGS_S
from tests.models.hub.models import DRAFT, TARGET, tiny
from tests.ui.fakes import FakeOpener

TARGET_SIZE = 3_050_000
"""Size in bytes for a download of several chunks."""


MINE = Pair(
    "mine",
    "Big with small",
    HubModel(TARGET, quant="Q4_K_M", size=TARGET_SIZE),
    HubModel(DRAFT),
    memory_gb=1,
    working=WorkingMemory(per_token=100_000, fixed=0, main=0),
    context=4096,
)
DEMO = Pair("demo", "A demo", DemoModel("target"), DemoModel("draft"), memory_gb=1)
HUGE = Pair("huge", "Huge", HubModel("owner/huge-GGUF", size=90_000_000_000), None, memory_gb=96)


class Opened(FakeOpener):
    """Keeps the pairs that are opened, and loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[Pair, SetUp]] = []
        self.pair: Pair | None = None

    @property
    def current(self) -> Pair | None:
        return self.pair

    def open(self, known: KnownPair, changes: Layer | None = None) -> LoadRequest:
        assert known.files is not None
        self.opened.append((known.pair, known.files))
        self.pair = known.pair
        return LoadRequest(no_loader, known.pair.title)


class Setting:
    """The pair service in a small world.

    Attributes:
        here: Pairs of models that other programs have.
        session: The session of the chat, with what the service reads.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *pairs: Pair) -> None:
        self.opener = Opened()
        self.session: Any = SimpleNamespace(phase=Phase.READY, pair=None, will_load=False)
        self.pairs = list(pairs)
        self.here: list[Pair] = []
        self.broken = False
        self.trouble: CatalogError | None = None
        self.demo = tiny_file(folder / "demo.gguf")
        patch.setattr(known_pairs, "pairs_file", lambda: folder / "data" / "pairs.toml")
        patch.setattr(known_pairs, "catalog", self._catalog)
        patch.setattr(known_pairs, "demo_file", lambda part: self.demo)
        patch.setattr(known_pairs, "pairs_here", lambda _: {pair.name: pair for pair in self.here})
        self.patch = patch
        self.machine(lambda: in_ram(2_000_000_000))
        self.registry = known_pairs.registry()
        self.service = self._service()

    def machine(self, capacity: Callable[[], Capacity]) -> None:
        """Inspect another machine from now on."""
        self.patch.setattr(measured_pairs, "measured_capacity", lambda *_: ("An abacus", capacity()))

    def _service(self) -> PairService:
        return PairService(self.opener, self.session)

    def again(self) -> PairService:
        """The service of the next run of the program."""
        self.service.close(HANGS_S)
        self.service = self._service()
        self.service.state()
        return self.service

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + HANGS_S
        while not condition():
            assert time.monotonic() < end, self.service.state()
            time.sleep(0.01)

    def settled(self) -> PairsState:
        """Return the state when no work runs."""
        self.until(lambda: not self.service.state().busy)
        return self.service.state()

    def refreshed(self) -> PairsState:
        """Return the state after a refresh."""
        self.service.refresh()
        return self.settled()

    def card(self, name: str) -> PairCard:
        return next(card for card in self.service.state().cards if card.name == name)

    def job(self, name: str) -> SetupProgress:
        return self.service.state().setups[name]

    def set_up(self, name: str) -> SetupProgress:
        """Start a setup and wait for its end."""
        self.service.set_up(name, confirmed=True)
        self.until(lambda: not self.job(name).running)
        return self.job(name)

    def ask(self, target: str, draft: str = "") -> SetupProgress:
        """Start a check and wait for its result."""
        check = self.service.check(target, draft)
        self.settled()
        return check.progress

    def _catalog(self) -> Catalog:
        if self.broken:
            raise CatalogError("models.toml cannot be read.", "Fix it.")
        found = Catalog(shipped_file())
        found.pairs, found.unread = {pair.name: pair for pair in self.pairs}, self.trouble
        return found


def tiny_file(path: Path) -> Path:
    tiny(path.parent, path.name)
    return path
