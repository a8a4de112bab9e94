"""This machine and the model files on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.core.errors import AppError
from app.core.regular_file import is_file
from app.models.catalog import Pair
from app.models.recommend import USUAL_CONTEXT, PairSpeed, Room
from app.models.registry import Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.session.snapshot import Phase
from app.ui.models.state import LoadRequest

log = logging.getLogger("tandem.pairs")


@dataclass(frozen=True, slots=True)
class PairEnvironment:
    """Functions that the pair service calls.

    Attributes:
        machine: Returns the machine in one line and its memory for models; called on a thread.
        demo_file: Returns the demo's target or draft; creates it if missing.
        catalog: Returns the known pairs and a problem of the catalog.
        open_pair: Returns the request that loads a pair.
        seen: Returns measurements of pairs by name; called on a thread.
        free_disk: Returns free bytes of the download disk; None if unknown.
        current: Returns the pair that the chat was asked for, and its files.
        lacks_draft: Returns whether the chat runs without its draft, which failed.
        n_ctx: Returns the context length of the settings.
    """

    registry: Registry
    machine: Callable[[], tuple[str, Room]]
    demo_file: Callable[[str], Path]
    demo_is_installed: Callable[[], bool]
    catalog: Callable[[], tuple[Sequence[Pair], AppError | None]]
    open_pair: Callable[[Pair, SetUp], LoadRequest]
    seen: Callable[[], Mapping[str, PairSpeed]] = dict
    free_disk: Callable[[], int | None] = lambda: None
    current: Callable[[], tuple[Pair, SetUp | None] | None] = lambda: None
    phase: Callable[[], Phase] = lambda: Phase.READY
    lacks_draft: Callable[[], bool] = lambda: False
    n_ctx: Callable[[], int] = lambda: USUAL_CONTEXT


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine and the model files on it; `room` is None and `machine` "" until they are known.

    Attributes:
        is_provisional: Whether models were loading, so that the memory must be inspected again.
        cached: Models that are on this machine.
        partial: Bytes that cut downloads left.
        seen: Measurements of pairs by name.
        free_disk: Free bytes of the download disk; None if unknown.
    """

    machine: str = ""
    room: Room | None = None
    is_provisional: bool = False
    has_demo: bool = True
    cached: frozenset[HubModel] = frozenset()
    partial: Mapping[HubModel, int] = field(default_factory=dict)
    seen: Mapping[str, PairSpeed] = field(default_factory=dict)
    free_disk: int | None = None

    def is_on_disk(self, source: ModelSource) -> bool:
        match source:
            case LocalModel(path):
                return is_file(path)
            case DemoModel():
                return self.has_demo
            case HubModel():
                return source in self.cached

    def partial_bytes(self, source: ModelSource) -> int:
        """Return bytes of a model that a cut download left."""
        return self.partial.get(source, 0) if isinstance(source, HubModel) else 0


def inspected(facts: MachineFacts, environment: PairEnvironment, sources: frozenset[HubModel]) -> MachineFacts:
    """Inspect the machine unless it is known, and look for these models on it; what fails stays as it was."""
    from app.models.resolve import cached_file, downloaded_before

    if not facts.machine or facts.is_provisional:
        was_loading = environment.phase() is Phase.LOADING
        try:
            machine, room = environment.machine()
            facts = replace(facts, machine=machine, room=room, has_demo=environment.demo_is_installed())
        except Exception as error:
            log.exception("the machine could not be inspected")
            reason = error.message if isinstance(error, AppError) else "could not be inspected"
            facts = replace(facts, machine=reason, room=None)
        facts = replace(facts, is_provisional=was_loading or environment.phase() is Phase.LOADING)
    try:
        cached = frozenset(source for source in sources if cached_file(source) is not None)
        partial = {source: n for source in sources - cached if (n := downloaded_before(source))}
        facts = replace(
            facts, cached=cached, partial=partial, seen=environment.seen(), free_disk=environment.free_disk()
        )
    except Exception:
        log.exception("model files and measurements could not be read")
    return facts
