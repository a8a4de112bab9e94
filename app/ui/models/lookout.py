"""What the pairs are held against: the machine, the files that are here, what answers have shown; all found beside the
screen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.core.errors import AppError
from app.core.regular_file import is_file
from app.models.catalog import Pair
from app.models.expected_speedup import Seen
from app.models.recommend import USUAL_CONTEXT, Room
from app.models.registry import Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.ui.models.opened import Current
from app.ui.models.state import LoadRequest

log = logging.getLogger("tandem.pairs")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the program knows and the screens must not import.

    All but `catalog`, `open_pair`, `current`, `is_unloaded`, `lacks_draft` and `n_ctx` run on other threads;
    `is_loading` on any.

    Attributes:
        catalog: The known pairs, and what is wrong with others; raises AppError if a file is wrong.
        registry: Where pairs are remembered.
        machine: The machine in one line, and its memory for models. What the engine itself holds at that time counts
            as free; what models that are being loaded have taken so far does not.
        demo_file: Where the demo's target or draft is, made if missing.
        demo_is_installed: Whether there is a demo.
        open_pair: How a pair is loaded and asked, from the catalogue's entry and its files.
        is_cached: Whether a model of the hub is on this machine already, brought by whatever program.
        came: Bytes of a model of the hub that a download which was cut has left.
        seen: What answers on this machine have shown of pairs, by their names.
        current: The pair that the chat was asked for; asked on the screen's thread, at every look.
        is_unloaded: Whether that pair is not there, and nobody waits for it any more; likewise.
        lacks_draft: Whether it goes on without its draft, which failed; likewise.
        is_loading: Whether models are being loaded.
        free_disk: Bytes of the disk that downloads come to; None where that is not told.
        n_ctx: The context that pairs get as the settings are, tokens.
    """

    catalog: Callable[[], tuple[Sequence[Pair], AppError | None]]
    registry: Registry
    machine: Callable[[], tuple[str, Room]]
    demo_file: Callable[[str], Path]
    demo_is_installed: Callable[[], bool]
    open_pair: Callable[[Pair, SetUp], LoadRequest]
    is_cached: Callable[[HubModel], bool] = lambda _: False
    came: Callable[[HubModel], int] = lambda _: 0
    seen: Callable[[], Mapping[str, Seen]] = dict
    current: Current = lambda: None
    is_unloaded: Callable[[], bool] = lambda: False
    lacks_draft: Callable[[], bool] = lambda: False
    is_loading: Callable[[], bool] = lambda: False
    free_disk: Callable[[], int | None] = lambda: None
    n_ctx: Callable[[], int] = lambda: USUAL_CONTEXT


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, at one moment.

    Attributes:
        machine: The machine in one line; "" before it was looked at.
        room: Its memory; None where that is not known.
        has_demo: Whether there is a demo.
        cached: Models of the hub that are here.
        came: Of those that are not, what an earlier download has left, in bytes.
        seen: What answers have shown of pairs, by their names.
        free_disk: Bytes of the disk that downloads come to; None where that is not known.
    """

    machine: str = ""
    room: Room | None = None
    has_demo: bool = True
    cached: frozenset[HubModel] = frozenset()
    came: Mapping[HubModel, int] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    free_disk: int | None = None

    def is_here(self, source: ModelSource) -> bool:
        """Whether a model is on this machine."""
        match source:
            case LocalModel(path):
                return is_file(path)
            case DemoModel():
                return self.has_demo
            case HubModel():
                return source in self.cached

    def n_came(self, source: ModelSource) -> int:
        """Bytes of a model that an earlier download has left."""
        return self.came.get(source, 0) if isinstance(source, HubModel) else 0


class Lookout:
    """Looks on a thread of its own, which only ever replaces one frozen value.

    Args:
        surroundings: What can be asked.
        changed: Called on that thread when something else was found.
    """

    def __init__(self, surroundings: Surroundings, changed: Callable[[], None]) -> None:
        self._outside = surroundings
        self._changed = changed
        self._thread: threading.Thread | None = None
        self._ended: frozenset[object] = frozenset()
        self._is_due = False
        self.found = Found()
        self.is_provisional = False
        """Whether models were being loaded while the machine was looked at: its memory is to be looked at again."""

    @property
    def is_looking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def is_due(self, ended: frozenset[object]) -> bool:
        """Whether what was found is not so any more, once anything was.

        Args:
            ended: The set-ups that do not go on; each has changed what is on the disk.
        """
        new, self._ended = not ended <= self._ended, ended
        self._is_due = self._thread is not None and (self._is_due or new)
        return self._is_due or (self.is_provisional and not self._outside.is_loading())

    def begin(self, sources: frozenset[HubModel]) -> None:
        """Look, if nobody does. A machine that was at rest stays what it was; files come, answers show more of a pair.

        Args:
            sources: Models that may be here already.
        """
        if not self.is_looking:
            self._is_due = False
            look = self._look_again if self._thread and not self.is_provisional else self._look_around
            self._thread = threading.Thread(target=look, args=(sources,), name="machine", daemon=True)
            self._thread.start()

    def _look_around(self, sources: frozenset[HubModel]) -> None:
        was_loading = self._outside.is_loading()
        try:
            machine, room = self._outside.machine()
            found = self._with_files(Found(machine, room, self._outside.demo_is_installed()), sources)
        except Exception as error:
            log.exception("the machine could not be read")
            found = Found(error.message if isinstance(error, AppError) else "what it has could not be read")
        self.found = replace(found, seen=self._seen(), free_disk=self._outside.free_disk())
        self.is_provisional = was_loading or self._outside.is_loading()
        self._changed()

    def _look_again(self, sources: frozenset[HubModel]) -> None:
        found = self._with_files(replace(self.found, seen=self._seen()), sources)
        found = replace(found, free_disk=self._outside.free_disk())
        if found != self.found:
            self.found = found
            self._changed()

    def _with_files(self, found: Found, sources: frozenset[HubModel]) -> Found:
        """What was found, with what of the sources is here."""
        known = {source: self._n_here(source) for source in sources}
        cached = frozenset(source for source, n_bytes in known.items() if n_bytes is None)
        return replace(found, cached=cached, came={source: n_bytes for source, n_bytes in known.items() if n_bytes})

    def _n_here(self, source: HubModel) -> int | None:
        """What is here of a model, in bytes; None for all of it. What was known stays where it cannot be read."""
        try:
            return None if self._outside.is_cached(source) else self._outside.came(source)
        except Exception:
            log.exception("what is in the cache could not be read")
            return None if source in self.found.cached else self.found.came.get(source, 0)

    def _seen(self) -> Mapping[str, Seen]:
        try:
            return self._outside.seen()
        except Exception:
            log.exception("what was measured of pairs could not be read")
            return self.found.seen
