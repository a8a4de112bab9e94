"""A small world of pairs for tests of the set-up screens."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core.errors import CatalogError
from app.models.catalog import Catalog, Pair, WorkingMemory, shipped_file
from app.models.registry import Registry, SetUp
from app.models.setup_task import SetupProgress
from app.models.source import DemoModel, HubModel
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, PairCard, PairEnvironment, PairsState
from app.worker.engine_worker import Progress
from app.worker.known_pairs import is_here
from app.worker.request import LoadedPair
from tests.capacities import in_ram
from tests.models.hub.models import DRAFT, TARGET, tiny

WAIT_S = 240.0
TARGET_SIZE = 3_050_000
"""Bytes; makes a download of several chunks."""


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


class Setting:
    """The pair service in a small world, and the pairs it opened."""

    def __init__(self, folder: Path, *pairs: Pair) -> None:
        self.opened: list[tuple[Pair, SetUp]] = []
        self.pairs = list(pairs)
        self.current: Pair | None = None
        self.here: list[Pair] = []
        """Pairs of models that other programs have."""
        self.broken = False
        self.trouble: CatalogError | None = None
        self.demo = tiny_file(folder / "demo.gguf")
        self.registry = Registry(folder / "data" / "pairs.toml")
        self.surroundings = PairEnvironment(
            catalog=self._catalog,
            registry=self.registry,
            machine=lambda: ("An abacus", in_ram(2_000_000_000)),
            demo_file=lambda part: self.demo,
            is_here=is_here,
            open_pair=self._open,
            current=lambda: self.current,
            pairs_here=lambda: {pair.name: pair for pair in self.here},
        )
        self.service = PairService(self.surroundings)

    def again(self, **surroundings: Any) -> PairService:
        """The service of the next run of the program, perhaps in other surroundings."""
        self.service.close(WAIT_S)
        self.surroundings = replace(self.surroundings, **surroundings)
        self.service = PairService(self.surroundings)
        self.service.state()
        return self.service

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, self.service.state()
            time.sleep(0.01)

    def settled(self) -> PairsState:
        """The state once no work runs."""
        self.until(lambda: not self.service.state().busy)
        return self.service.state()

    def refreshed(self) -> PairsState:
        """The state after everything was read again."""
        self.service.refresh()
        return self.settled()

    def card(self, name: str) -> PairCard:
        return next(card for card in self.service.state().cards if card.name == name)

    def job(self, name: str) -> SetupProgress:
        return self.service.state().setups[name]

    def set_up(self, name: str) -> SetupProgress:
        """Start and wait for the end."""
        self.service.set_up(name, confirmed=True)
        self.until(lambda: not self.job(name).running)
        return self.job(name)

    def ask(self, target: str, draft: str = "") -> SetupProgress:
        """Ask and wait for the answer."""
        self.service.check_sources(target, draft)
        inquiry = self.settled().check
        assert inquiry is not None
        return inquiry

    def _catalog(self) -> Catalog:
        if self.broken:
            raise CatalogError("models.toml cannot be read.", "Fix it.")
        found = Catalog(shipped_file())
        found.pairs, found.unread = {pair.name: pair for pair in self.pairs}, self.trouble
        return found

    def _open(self, pair: Pair, files: SetUp) -> LoadRequest:
        self.opened.append((pair, files))
        self.current = pair
        return LoadRequest(_no_loader, pair.title)


def _no_loader(cancel: threading.Event, progress: Progress) -> LoadedPair:
    raise AssertionError


def tiny_file(path: Path) -> Path:
    tiny(path.parent, path.name)
    return path
