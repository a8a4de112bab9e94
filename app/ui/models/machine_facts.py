"""This machine and the model files on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import AppError
from app.models.catalog import Pair
from app.models.recommend import Room
from app.models.registry import Registry, SetUp
from app.models.source import HubModel
from app.session.snapshot import Phase
from app.ui.models.state import LoadRequest

_POLL_S = 0.1
log = logging.getLogger("tandem.pairs")


@dataclass(frozen=True, slots=True)
class PairEnvironment:
    """Functions that the pair service calls.

    Attributes:
        machine: Returns the machine in one line and its memory for models; called on a thread.
        demo_file: Returns the demo's target or draft; creates it if missing.
        catalog: Returns the known pairs and a problem of the catalog.
        open_pair: Returns the request that loads a pair.
        current: Returns the pair that the chat was asked for, and its files.
    """

    registry: Registry
    machine: Callable[[], tuple[str, Room]]
    demo_file: Callable[[str], Path]
    demo_is_installed: Callable[[], bool]
    catalog: Callable[[], tuple[Sequence[Pair], AppError | None]]
    open_pair: Callable[[Pair, SetUp], LoadRequest]
    current: Callable[[], tuple[Pair, SetUp | None] | None] = lambda: None
    phase: Callable[[], Phase] = lambda: Phase.READY


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine and the model files on it; `room` is None and `machine` "" until they are known.

    Attributes:
        cached: Models that are on this machine.
    """

    machine: str = ""
    room: Room | None = None
    cached: frozenset[HubModel] = frozenset()


def inspected(environment: PairEnvironment, sources: frozenset[HubModel]) -> MachineFacts:
    """Inspect the machine, and look for these models on it. A load in progress would take memory meanwhile."""
    from app.models.resolve import cached_file

    while environment.phase() is Phase.LOADING:
        time.sleep(_POLL_S)
    room, cached = None, frozenset[HubModel]()
    try:
        machine, room = environment.machine()
    except Exception as error:
        log.exception("the machine could not be inspected")
        machine = error.message if isinstance(error, AppError) else "could not be inspected"
    try:
        cached = frozenset(source for source in sources if cached_file(source) is not None)
    except Exception:
        log.exception("model files could not be found")
    return MachineFacts(machine, room, cached)
