"""Set-ups and questions, each on a thread of its own that only ever replaces one frozen value.

The steps themselves are `app.models.setup`; with the hub's client it takes half a second to import, so that
happens on these threads too. They are daemons: a network that does not answer must not keep the program from ending.
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
from app.models.recommend import Room, weigh
from app.models.source import parse_source
from app.ui.models.state import Download, ModelReport, PairCheck, PairReport, SetupProgress, Stage

if TYPE_CHECKING:
    from app.models.prepared import Prepared
    from app.models.progress import Looking, Progress
    from app.models.registry import SetUp
    from app.models.setup import Setup

log = logging.getLogger("tandem.pairs")
log.addHandler(logging.NullHandler())

MakeSetup = Callable[[], "Setup"]
"""Imports what a set-up needs and makes one; called on the thread that works."""


class _Task:
    """Work with a `Setup` on a thread of its own, until it ends or is cancelled."""

    def __init__(self, make_setup: MakeSetup) -> None:
        self._make_setup = make_setup
        self._setup: Setup | None = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pair", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Stop; what still comes is not told any more. A request on its way may keep the thread for seconds."""
        self._cancelled.set()
        if self._setup is not None:
            self._setup.cancel()

    def join(self, timeout: float | None) -> bool:
        """Wait; returns whether the thread has ended."""
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
            self._failed(error)
        except Exception as error:
            log.exception("unexpected failure in a set-up")
            reason = f"Something unexpected went wrong: {type(error).__name__}: {error}"
            self._failed(AppError(reason, "Please report it; what is downloaded is kept."))

    def _work(self, setup: Setup) -> None:
        raise NotImplementedError

    def _failed(self, error: AppError) -> None:
        raise NotImplementedError


class SetupJob(_Task):
    """The set-up of one pair.

    Args:
        pair: The pair.
        make_setup: Gives the steps.
        changed: Called on the thread when more is known of the pair, and when it is set up.
        prepared: What `Setup.prepare` made of the pair, where that was done already.
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
        """What was set up, also where that cannot be remembered."""
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
            self._tell(replace(job, stage=Stage.ASKING))
            return
        self._tell(replace(job, stage=Stage.DOWNLOADING))
        # Only where there is none yet: another one is changed by who says so.
        for event in setup.bring(prepared, default=False):
            match event:
                case Progress():
                    self._tell(_progressed(self.job, event))
                case Ready(files, unkept=unkept):
                    self.files = files
                    self._changed()
                    until = "Until that is mended it is set up anew at every start."
                    lost = (f"{unkept.message} {until}",) if unkept else ()
                    note = " ".join((*event.notes, *lost))
                    self.job = replace(self.job, stage=Stage.READY, note=note, warnings=prepared.check.warnings)

    def _looks(self, now: Looking) -> None:
        self._tell(replace(self.job, looking=now.line))

    def _failed(self, error: AppError) -> None:
        self._tell(replace(_ended(self.job, Stage.FAILED), error=error))

    def _tell(self, job: SetupProgress) -> None:
        if self._cancelled.is_set():
            raise Interrupted
        self.job = job


class Question(_Task):
    """What are these two models, and can they ride together?

    Args:
        target: As people write it.
        draft: The same; "" for none.
        make_setup: Gives the steps.
        room: The machine's memory, as far as it is known.
    """

    def __init__(self, target: str, draft: str, make_setup: MakeSetup, room: Room | None) -> None:
        super().__init__(make_setup)
        self._target, self._draft = target, draft
        self._room = room
        self.inquiry = PairCheck()
        self.prepared: Prepared | None = None
        """What `SetupJob` can go on with."""

    def _work(self, setup: Setup) -> None:
        from app.models.prepared import DRAFT, TARGET

        setup.current_role = TARGET
        target = parse_source(self._target)
        setup.current_role = DRAFT
        draft = parse_source(self._draft) if self._draft.strip() else None
        prepared = setup.prepare(Pair(pair_name(target), title_of(target, draft), target, draft), self._looks)
        self.prepared = prepared
        self.inquiry = PairCheck(report=_report(prepared, self._room))

    def _looks(self, now: Looking) -> None:
        self.inquiry = PairCheck(looking=now.line)

    def _failed(self, error: AppError) -> None:
        self.inquiry = PairCheck(error=error, error_role=self._setup.current_role if self._setup is not None else "")


def _ended(job: SetupProgress, stage: Stage) -> SetupProgress:
    """A set-up that does not go on: nothing comes any more, and nobody waits for it to come."""
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
