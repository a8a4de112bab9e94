"""Background work of the pair service: inspections of this machine, and setups, which only replace their `progress`.

Its threads are daemons and import Hugging Face's client themselves: that takes half a second, and a network that does
not answer must not keep the program from ending.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError, Interrupted
from app.hardware.recommend import Capacity, weigh
from app.models.catalog import Catalog, Pair
from app.models.progress import DownloadProgress
from app.models.registry import Registry, SetUp
from app.models.source import HubModel, ModelSource
from app.session.snapshot import Phase
from app.ui.models.state import LoadRequest, SetupProgress, Stage

if TYPE_CHECKING:
    from app.models.setup import Prepared, Setup

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class PairEnvironment:
    """Functions that the pair service calls.

    Attributes:
        machine: Returns the machine in one line and its memory for models; called on a thread.
        pairs_here: Returns pairs of models that other programs have on this machine; called on a thread.
        demo_file: Returns the demo's target or draft; creates it if missing.
        is_here: Returns whether a model is on this machine.
        current: Returns the pair that the chat was asked for.
    """

    registry: Registry
    machine: Callable[[], tuple[str, Capacity]]
    demo_file: Callable[[str], Path]
    is_here: Callable[[ModelSource], bool]
    catalog: Callable[[], Catalog]
    open_pair: Callable[[Pair, SetUp], LoadRequest]
    current: Callable[[], Pair | None] = lambda: None
    phase: Callable[[], Phase] = lambda: Phase.READY
    pairs_here: Callable[[], Mapping[str, Pair]] = dict


def inspect(environment: PairEnvironment, sources: Set[HubModel]) -> tuple[str, Capacity | None, Set[HubModel]]:
    """Return the machine in one line, its memory if known, and which of these models it has.

    A load in progress would take memory meanwhile.
    """
    while environment.phase() is Phase.LOADING:
        time.sleep(_POLL_S)
    capacity, cached = None, set[HubModel]()
    try:
        machine, capacity = environment.machine()
    except Exception as error:
        machine = error.message if isinstance(error, AppError) else "could not be inspected"
    with suppress(Exception):
        cached = set(filter(environment.is_here, sources))
    return machine, capacity, cached


class PairTask(threading.Thread):
    """Check a pair, then set it up.

    Args:
        environment: Has the registry and the demo.
        pair: Returns the pair; called on the thread, may raise AppError.
        capacity: Memory for models, if known.
        prepared: Result of an earlier `Setup.prepare`.
        installs: Whether to set it up after the check.
        confirmed: Whether models may be downloaded without a question.
        finds_draft: As for `Setup.prepare`, like `latest`.
    """

    def __init__(
        self,
        environment: PairEnvironment,
        pair: Callable[[], Pair],
        capacity: Capacity | None,
        prepared: Prepared | None = None,
        *,
        installs: bool = True,
        confirmed: bool = False,
        finds_draft: bool = False,
        latest: bool = False,
    ) -> None:
        super().__init__(name="pair", daemon=True)
        self.progress = SetupProgress(Stage.CHECKING, prepared=prepared)
        self._confirmed = confirmed
        self._environment = environment
        self._pair = pair
        self._capacity = capacity
        self._installs = installs
        self._finds_draft = finds_draft
        self._latest = latest
        self._setup: Setup | None = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop; a running request may keep the thread for seconds."""
        self._cancelled.set()
        if self._setup is not None:
            self._setup.cancel()
        if self.progress.running:
            self.progress = self.progress.ended(Stage.STOPPED)

    def run(self) -> None:
        try:
            from app.models.setup import Setup

            self._setup = Setup(self._environment.registry, self._environment.demo_file)
            if self._cancelled.is_set():
                self._setup.cancel()
            self._work(self._setup)
        except Interrupted:
            pass
        except AppError as error:
            self._fail(error)
        except Exception as error:
            reason = f"Unexpected error: {type(error).__name__}: {error}"
            self._fail(AppError(reason, "Please report it; downloaded files are kept."))

    def _work(self, setup: Setup) -> None:
        prepared = self.progress.prepared or setup.prepare(
            self._pair(), self._report_headers, finds_draft=self._finds_draft, latest=self._latest
        )
        checked = SetupProgress(Stage.CHECKED, prepared=prepared, fit=weigh(prepared.sized, self._capacity).summary)
        if self._installs and (self._confirmed or not prepared.download_bytes):
            self._report(replace(checked, stage=Stage.DOWNLOADING))
            self._install(setup, prepared)
            return
        if self._installs:
            setup.refuse(prepared)
        self._report(checked)

    def _install(self, setup: Setup, prepared: Prepared) -> None:
        for event in setup.install(prepared, default=None):
            if isinstance(event, DownloadProgress):
                self._report(replace(self.progress, transfer=event))
        self.progress = replace(self.progress, stage=Stage.READY)

    def _fail(self, error: AppError) -> None:
        if not self._cancelled.is_set():
            self.progress = replace(self.progress.ended(Stage.FAILED), error=error)

    def _report(self, progress: SetupProgress) -> None:
        if self._cancelled.is_set():
            raise Interrupted
        self.progress = progress

    def _report_headers(self, line: str) -> None:
        self._report(replace(self.progress, header_progress=line))
