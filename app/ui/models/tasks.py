"""Background threads of the pair service; each only replaces its `progress`.

They are daemons and import Hugging Face's client themselves: it takes half a second, and a network that does not answer
must not keep the program from ending.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.errors import AppError, Interrupted
from app.models.catalog import Pair
from app.models.pair_names import pair_name, title_of
from app.models.progress import Progress
from app.models.recommend import Room, weigh
from app.models.registry import SetUp
from app.models.source import parse_source
from app.ui.models.state import ModelReport, PairReport, SetupProgress, Stage

if TYPE_CHECKING:
    from app.models.setup import Prepared, Setup

log = logging.getLogger("tandem.pairs")
log.addHandler(logging.NullHandler())

MakeSetup = Callable[[], "Setup"]
"""Creates a setup; called on the thread of the task."""


class PairTask(threading.Thread):
    """Work with a `Setup` until it ends or is cancelled."""

    def __init__(self, make_setup: MakeSetup) -> None:
        super().__init__(name="pair", daemon=True)
        self.progress = SetupProgress(Stage.CHECKING)
        self.prepared: Prepared | None = None
        self._make_setup = make_setup
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
        if not self._cancelled.is_set():
            self.progress = replace(self.progress.ended(Stage.FAILED), error=error)

    def _report(self, progress: SetupProgress) -> None:
        if self._cancelled.is_set():
            raise Interrupted
        self.progress = progress

    def _report_headers(self, line: str) -> None:
        self._report(replace(self.progress, header_progress=line))


class SetupTask(PairTask):
    """The setup of one pair.

    Args:
        changed: Called on the thread when more is known of the pair, and when it is ready.
        prepared: Result of an earlier `Setup.prepare`.
        confirmed: Whether models may be downloaded without a question.
    """

    def __init__(
        self,
        pair: Pair,
        make_setup: MakeSetup,
        changed: Callable[[], None],
        prepared: Prepared | None = None,
        *,
        confirmed: bool = False,
    ) -> None:
        super().__init__(make_setup)
        self._pair = pair
        self._changed = changed
        self.prepared = prepared
        self.confirmed = confirmed
        self.files: SetUp | None = None
        """The files, even if the registry could not store them."""

    def _work(self, setup: Setup) -> None:
        from app.models.setup import Ready

        prepared = self.prepared or setup.prepare(self._pair, self._report_headers)
        report = pair_report(prepared, None)
        checked = replace(self.progress, header_progress="", report=report, warnings=report.warnings)
        if prepared.download_bytes and not self.confirmed:
            setup.refuse(prepared)
            self.prepared = prepared
            self._changed()
            self._report(replace(checked, stage=Stage.CHECKED))
            return
        self._report(replace(checked, stage=Stage.DOWNLOADING))
        for event in setup.install(prepared, default=False):
            match event:
                case Progress():
                    self._report(replace(self.progress, transfer=event))
                case Ready(files, unkept=unkept):
                    self.files = files
                    self._changed()
                    lost = f"{unkept.message} Tandem repeats this setup at every start." if unkept else ""
                    warnings = prepared.check.warnings
                    self.progress = replace(self.progress, stage=Stage.READY, note=lost, warnings=warnings)


class CheckTask(PairTask):
    """Check whether two models, given as text, are compatible and fit.

    Args:
        target: Source of the target.
        draft: Source of the draft; "" for none.
        room: Memory for models, if known.
    """

    def __init__(self, target: str, draft: str, make_setup: MakeSetup, room: Room | None) -> None:
        super().__init__(make_setup)
        self._target, self._draft = target, draft
        self._room = room

    def _work(self, setup: Setup) -> None:
        target = parse_source(self._target)
        draft = parse_source(self._draft) if self._draft.strip() else None
        pair = Pair(pair_name(target), title_of(target, draft), target, draft)
        self.prepared = setup.prepare(pair, self._report_headers)
        self._report(SetupProgress(Stage.CHECKED, report=pair_report(self.prepared, self._room)))


def pair_report(prepared: Prepared, room: Room | None) -> PairReport:
    """Describe a checked pair; its fit only if `room` is known."""
    facts = {"target": prepared.check.target, "draft": prepared.check.draft}
    models = tuple(
        ModelReport(role, one.name, files.quant, files.size, on_disk=files.path is not None)
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
