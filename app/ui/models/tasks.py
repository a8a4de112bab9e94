"""Background threads of the pair service; each only replaces one frozen value.

They are daemons and import Hugging Face's client themselves: it takes half a second, and a network that does not answer
must not keep the program from ending.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError, Interrupted
from app.core.regular_file import is_file
from app.models.catalog import Pair
from app.models.expected_speedup import Seen
from app.models.pair_names import pair_name, title_of
from app.models.recommend import USUAL_CONTEXT, Room, weigh
from app.models.registry import Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource, parse_source
from app.ui.models.state import Download, LoadRequest, ModelReport, PairReport, SetupProgress, SourceCheck, Stage

if TYPE_CHECKING:
    from app.models.prepared import Prepared
    from app.models.progress import Looking, Progress
    from app.models.setup import Setup

log = logging.getLogger("tandem.pairs")
log.addHandler(logging.NullHandler())

MakeSetup = Callable[[], "Setup"]
"""Creates a setup; called on the thread of the task."""


@dataclass(frozen=True, slots=True)
class PairEnvironment:
    """Functions that the pair service calls; those of the second group run on the screen's thread.

    Attributes:
        registry: Stores the pairs that were set up.
        machine: Returns the machine in one line and its memory for models.
        demo_file: Returns the demo's target or draft; creates it if missing.
        demo_is_installed: Returns whether the demo is installed.
        is_cached: Returns whether a model is on this machine.
        came: Returns bytes of a model that a cut download left.
        seen: Returns measurements of pairs by name.
        is_loading: Returns whether models are loading.
        free_disk: Returns free bytes of the download disk; None if unknown.
        catalog: Returns the known pairs and a problem of the catalog.
        open_pair: Returns the request that loads a pair.
        current: Returns the pair that the chat was asked for, and its files.
        is_unloaded: Returns whether that pair is neither loaded nor loading.
        lacks_draft: Returns whether it runs without its draft, which failed.
        n_ctx: Returns the context length of the settings.
    """

    registry: Registry
    machine: Callable[[], tuple[str, Room]]
    demo_file: Callable[[str], Path]
    demo_is_installed: Callable[[], bool]
    catalog: Callable[[], tuple[Sequence[Pair], AppError | None]]
    open_pair: Callable[[Pair, SetUp], LoadRequest]
    is_cached: Callable[[HubModel], bool] = lambda _: False
    came: Callable[[HubModel], int] = lambda _: 0
    seen: Callable[[], Mapping[str, Seen]] = dict
    is_loading: Callable[[], bool] = lambda: False
    free_disk: Callable[[], int | None] = lambda: None
    current: Callable[[], tuple[Pair, SetUp | None] | None] = lambda: None
    is_unloaded: Callable[[], bool] = lambda: False
    lacks_draft: Callable[[], bool] = lambda: False
    n_ctx: Callable[[], int] = lambda: USUAL_CONTEXT


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine and the model files on it; `room` is None and `machine` "" until they are known.

    Attributes:
        has_demo: Whether the demo is installed.
        cached: Models that are on this machine.
        came: Bytes that cut downloads left.
        seen: Measurements of pairs by name.
        free_disk: Free bytes of the download disk; None if unknown.
    """

    machine: str = ""
    room: Room | None = None
    has_demo: bool = True
    cached: frozenset[HubModel] = frozenset()
    came: Mapping[HubModel, int] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    free_disk: int | None = None

    def is_here(self, source: ModelSource) -> bool:
        match source:
            case LocalModel(path):
                return is_file(path)
            case DemoModel():
                return self.has_demo
            case HubModel():
                return source in self.cached

    def n_came(self, source: ModelSource) -> int:
        """Return bytes of a model that a cut download left."""
        return self.came.get(source, 0) if isinstance(source, HubModel) else 0


class MachineProbe:
    """Inspects the machine once, and its model files at every refresh.

    Args:
        environment: What to ask.
        changed: Called on the thread after a change.
    """

    def __init__(self, environment: PairEnvironment, changed: Callable[[], None]) -> None:
        self._environment = environment
        self._changed = changed
        self._thread: threading.Thread | None = None
        self.facts = MachineFacts()
        self.is_provisional = False
        """Whether models were loading, so that the memory must be inspected again."""

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def refresh(self, sources: frozenset[HubModel]) -> None:
        """Inspect the machine and these models unless an inspection is running."""
        if not self.is_running:
            self._thread = threading.Thread(target=self._run, args=(sources,), name="machine", daemon=True)
            self._thread.start()

    def _run(self, sources: frozenset[HubModel]) -> None:
        outside, facts = self._environment, self.facts
        if not facts.machine or self.is_provisional:
            was_loading = outside.is_loading()
            try:
                machine, room = outside.machine()
                facts = replace(facts, machine=machine, room=room, has_demo=outside.demo_is_installed())
            except Exception as error:
                log.exception("the machine could not be inspected")
                reason = error.message if isinstance(error, AppError) else "could not be inspected"
                facts = replace(facts, machine=reason, room=None)
            self.is_provisional = was_loading or outside.is_loading()
        try:
            cached = frozenset(filter(outside.is_cached, sources))
            came = {source: n for source in sources - cached if (n := outside.came(source))}
            facts = replace(facts, cached=cached, came=came, seen=outside.seen(), free_disk=outside.free_disk())
        except Exception:
            log.exception("model files and measurements could not be read")
        if facts != self.facts:
            self.facts = facts
            self._changed()


class _Task:
    """Work with a `Setup` on its own thread until it ends or is cancelled."""

    def __init__(self, make_setup: MakeSetup) -> None:
        self._make_setup = make_setup
        self._setup: Setup | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pair", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop; a running request may keep the thread for seconds."""
        self._cancelled.set()
        if self._setup is not None:
            self._setup.cancel()

    def join(self, timeout: float | None) -> bool:
        """Wait; return whether the thread has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._setup = self._make_setup()
            if self._cancelled.is_set():
                self._setup.cancel()
            self._work(self._setup)
        except Interrupted:
            pass
        except AppError as error:
            self._fail(error)
        except Exception as error:
            log.exception("unexpected failure in a setup")
            reason = f"Unexpected error: {type(error).__name__}: {error}"
            self._fail(AppError(reason, "Please report it; downloaded files are kept."))

    def _work(self, setup: Setup) -> None:
        raise NotImplementedError

    def _fail(self, error: AppError) -> None:
        raise NotImplementedError


class SetupTask(_Task):
    """The setup of one pair.

    Args:
        pair: The pair.
        make_setup: Creates the setup.
        changed: Called on the thread when more is known of the pair, and when it is ready.
        prepared: Result of an earlier `Setup.prepare`.
        agreed: Whether models may be downloaded without asking.
    """

    def __init__(
        self,
        pair: Pair,
        make_setup: MakeSetup,
        changed: Callable[[], None],
        prepared: Prepared | None = None,
        *,
        agreed: bool = False,
    ) -> None:
        super().__init__(make_setup)
        self._pair = pair
        self._changed = changed
        self.prepared = prepared
        self.agreed = agreed
        self.files: SetUp | None = None
        """The files, even if the registry could not store them."""
        self.job = SetupProgress(Stage.CHECKING)

    def cancel(self) -> None:
        super().cancel()
        if self.job.running:
            self.job = _ended(self.job, Stage.STOPPED)

    def _work(self, setup: Setup) -> None:
        from app.models.progress import Progress
        from app.models.setup import Ready

        prepared = self.prepared or setup.prepare(self._pair, self._looks)
        job = replace(self.job, warnings=(*prepared.check.warnings, *prepared.notes), looking="")
        if prepared.download_bytes and not self.agreed:
            setup.refuse(prepared)
            self.prepared = prepared
            self._changed()
            to_come, size = prepared.download_bytes, sum(model.size for _, model in prepared.models)
            job = replace(job, to_come=to_come, came=size - to_come, free=prepared.free_bytes)
            self._report(replace(job, stage=Stage.ASKING))
            return
        self._report(replace(job, stage=Stage.DOWNLOADING))
        for event in setup.bring(prepared, default=False):
            match event:
                case Progress():
                    self._report(_progressed(self.job, event))
                case Ready(files, unkept=unkept):
                    self.files = files
                    self._changed()
                    lost = (f"{unkept.message} Tandem repeats this setup at every start.",) if unkept else ()
                    note = " ".join((*event.notes, *lost))
                    self.job = replace(self.job, stage=Stage.READY, note=note, warnings=prepared.check.warnings)

    def _looks(self, now: Looking) -> None:
        self._report(replace(self.job, looking=now.line))

    def _fail(self, error: AppError) -> None:
        self._report(replace(_ended(self.job, Stage.FAILED), error=error))

    def _report(self, job: SetupProgress) -> None:
        if self._cancelled.is_set():
            raise Interrupted
        self.job = job


class CheckTask(_Task):
    """Check whether two models, given as text, are compatible and fit.

    Args:
        target: Source of the target.
        draft: Source of the draft; "" for none.
        make_setup: Creates the setup.
        room: Memory for models, if known.
    """

    def __init__(self, target: str, draft: str, make_setup: MakeSetup, room: Room | None) -> None:
        super().__init__(make_setup)
        self._target, self._draft = target, draft
        self._room = room
        self.inquiry = SourceCheck()
        self.prepared: Prepared | None = None
        """Input for `SetupTask`."""

    def _work(self, setup: Setup) -> None:
        from app.models.prepared import DRAFT, TARGET

        setup.current_role = TARGET
        target = parse_source(self._target)
        setup.current_role = DRAFT
        draft = parse_source(self._draft) if self._draft.strip() else None
        prepared = setup.prepare(Pair(pair_name(target), title_of(target, draft), target, draft), self._looks)
        self.prepared = prepared
        self.inquiry = SourceCheck(report=_report(prepared, self._room))

    def _looks(self, now: Looking) -> None:
        self.inquiry = SourceCheck(looking=now.line)

    def _fail(self, error: AppError) -> None:
        self.inquiry = SourceCheck(error=error, error_role=self._setup.current_role if self._setup is not None else "")


def _ended(job: SetupProgress, stage: Stage) -> SetupProgress:
    downloads = tuple(replace(one, waiting="", wait_s=0.0) for one in job.downloads)
    return replace(job, stage=stage, looking="", downloads=downloads, bytes_per_s=0.0, left_s=None)


def _progressed(job: SetupProgress, progress: Progress) -> SetupProgress:
    return replace(
        job,
        downloads=tuple(Download(f.role, f.done, f.total, f.waiting, f.wait_s, f.came) for f in progress.files),
        bytes_per_s=progress.bytes_per_s,
        left_s=progress.left_s,
    )


def _report(prepared: Prepared, room: Room | None) -> PairReport:
    facts = {"target": prepared.check.target, "draft": prepared.check.draft}
    models = tuple(
        ModelReport(role, one.name, files.quant, files.size, here=files.path is not None)
        for role, files in prepared.models
        if (one := facts[role]) is not None
    )
    proposal = weigh(prepared.sized, room) if room is not None else None
    return PairReport(
        models=models,
        problems=prepared.check.problems,
        remedy=prepared.check.remedy,
        warnings=(*prepared.check.warnings, *prepared.notes),
        fit=proposal.fit if proposal is not None else None,
        reason=proposal.reason if proposal is not None else "",
        slow=proposal is not None and proposal.slow,
        licence=prepared.pair.licence,
        gated=any(files.gated for _, files in prepared.models),
        download_bytes=prepared.download_bytes,
        free_bytes=prepared.free_bytes,
    )
