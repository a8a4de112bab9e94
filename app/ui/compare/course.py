"""A comparison as the screen goes through it: what is asked of the engine, and what has come of it so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from app.compare.difference import Difference
from app.compare.job import CompareJob, Explaining, Raced, RunBegan
from app.compare.race import WARM_UP, Round, RunEnded
from app.compare.report import Comparison, compared
from app.compare.sides import Side, sides_of
from app.core.errors import AppError, UsageError
from app.engine.types import DraftParams
from app.session.comparison import Comparable
from app.ui.event_queue import Batch, SingleEvent
from app.ui.text import percent
from app.worker.events import (
    Event,
    Failed,
    JobEnded,
    JobProgressed,
    LoadProgress,
    Measuring,
    PromptProgress,
    Step,
)

if TYPE_CHECKING:
    from app.session.engine import Engine
    from app.ui.compare.outcome import Outcome
    from app.ui.compare.side_pane import SidePane


class ComparisonView(Protocol):
    """Where a comparison is shown."""

    @property
    def panes(self) -> Mapping[str, SidePane]:
        """A pane for every side, by its name."""

    @property
    def outcome(self) -> Outcome: ...

    def show_result(self, *, stopped: bool) -> None:
        """Show what was measured so far."""

    async def fail(self, error: AppError) -> None:
        """Say why it cannot go on."""


class Comparing:
    """Asks the engine for rounds and keeps them; see `app.ui.event_dispatcher.EventHandler`.

    Args:
        what: What is compared.
        engine: Runs it.
        view: Shows it.
    """

    def __init__(self, what: Comparable, engine: Engine, view: ComparisonView) -> None:
        self._what = what
        self._engine = engine
        self._view = view
        self.sides: tuple[Side, ...] = sides_of(what.automatic, what.fixed)
        self.stopping = False
        self._rounds: list[Round] = []
        self._differences: dict[str, Difference | None] = {}
        self._goal = 0
        self._warm = False
        self._number: int | None = None
        self._turn = RunBegan("", WARM_UP)

    # What is asked for

    @property
    def expects_events(self) -> bool:
        """Whether a comparison is going on."""
        return self._number is not None

    @property
    def result(self) -> Comparison | None:
        """What was measured so far; None before everybody has answered once."""
        return compared(self._rounds, self._differences) if self._rounds else None

    @property
    def has_fixed(self) -> bool:
        """Whether fixed parameters take part."""
        return any(isinstance(side.drafting, DraftParams) for side in self.sides)

    def more(self, rounds: int) -> None:
        """Ask for more rounds; they go on where the last ones ended."""
        done = len(self._rounds)
        self._goal, self.stopping, self._turn = done + rounds, False, RunBegan("", WARM_UP)
        job = CompareJob(
            self._what.request,
            self.sides,
            rounds,
            first=done + 1,
            warm_up=not self._warm,
            explains=len(self._differences) < len(self.sides) - 1,
        )
        self._number = self._engine.run(job)

    def stop(self) -> None:
        """Ask for an end; whole rounds are kept."""
        self.stopping = True
        self._engine.cancel()

    def add_fixed(self) -> None:
        """Let fixed parameters take part from the next round on; what the others have done stays.

        Raises:
            UsageError: There is no draft model.
        """
        if self._what.pair.draft is None:
            raise UsageError("Fixed parameters need a draft model, and this pair has none.")
        self.sides = sides_of(self._what.automatic, self._what.fixed or DraftParams())

    def drop_fixed(self) -> None:
        """Let fixed parameters no longer take part; what the others have done stays."""
        self.sides = sides_of(self._what.automatic, None)
        names = {side.name for side in self.sides}
        self._rounds = [{name: run for name, run in round_.items() if name in names} for round_ in self._rounds]
        self._differences = {name: found for name, found in self._differences.items() if name in names}

    # What the engine says

    def expects(self, event: Event) -> bool:
        """Whether an event belongs to the comparison that is going on, or keeps it waiting."""
        # Nobody else can wait for a load meanwhile.
        of_it = isinstance(event, LoadProgress) or getattr(event, "request", None) == self._number
        return self._number is not None and of_it

    def rest(self, next_s: float) -> None:
        """Nothing is kept."""

    async def show(self, batch: Batch) -> None:
        turn = "warming up" if self._turn.round == WARM_UP else f"round {self._turn.round} of {self._goal}"
        doing = f"{turn}, {self._turn.side}"
        match batch.latest:
            case LoadProgress(share=share):
                doing = f"loading the models again: {percent(share)}"
            case Measuring() as measuring:
                doing = f"{measuring.what}: {percent(measuring.share)}"
            case PromptProgress() as progress:
                doing += f": {progress.line()}"
        if self._turn.round != WARM_UP:
            # The draft may read its prompt behind the first token of the target.
            stats = batch.latest.stats if isinstance(batch.latest, Step) else None
            self._view.panes[self._turn.side].add(batch.segments, stats)
        self._tell(doing)

    async def handle(self, event: SingleEvent) -> None:
        match event:
            case JobProgressed(what=RunBegan() as turn):
                self._turn = turn
                if turn.round != WARM_UP:
                    self._view.panes[turn.side].begin()
            case JobProgressed(what=RunEnded(round=number, run=run)) if number != WARM_UP:
                self._view.panes[run.contender].end(run)
            case JobProgressed(what=Explaining()):
                self._tell("finding out why the texts differ")
            case JobEnded(result=Raced() as raced):
                self._end(raced)
                if raced.broken is not None:
                    await self._view.fail(raced.broken)
            case Failed(error=error):
                self._number = None
                await self._view.fail(error)

    def _tell(self, doing: str) -> None:
        if not self.stopping:
            self._view.outcome.tell(doing)

    def _end(self, raced: Raced) -> None:
        self._number = None
        self._rounds += raced.rounds
        # Of the first round that a side took part in, whose text the sentence is about.
        self._differences = {**raced.differences, **self._differences}
        self._warm = self._warm or bool(raced.rounds)
        self._view.show_result(stopped=raced.stopped)
