"""Run rounds of a comparison and collect their results."""

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
    from app.ui.compare.result import Result
    from app.ui.compare.side_pane import SidePane


class ComparisonView(Protocol):
    """The screen of a comparison; `panes` by the names of the sides."""

    @property
    def panes(self) -> Mapping[str, SidePane]: ...

    @property
    def result(self) -> Result: ...

    def show_side(self, name: str) -> None: ...

    def show_result(self, *, stopped: bool) -> None: ...

    async def fail(self, error: AppError) -> None: ...


class ComparisonRunner:
    """Runs rounds on the engine and keeps their results; an `app.ui.event_dispatcher.EventHandler`."""

    def __init__(self, what: Comparable, engine: Engine, screen: ComparisonView) -> None:
        self._what = what
        self._engine = engine
        self._screen = screen
        self.sides: tuple[Side, ...] = sides_of(what.automatic, what.fixed)
        self.stopping = False
        self._rounds: list[Round] = []
        self._differences: dict[str, Difference | None] = {}
        self._goal = 0
        self._warm = False
        self._number: int | None = None
        self._turn = RunBegan("", WARM_UP)

    @property
    def expects_events(self) -> bool:
        """Return whether rounds are running."""
        return self._number is not None

    @property
    def result(self) -> Comparison | None:
        """The result so far; None before the first whole round."""
        return compared(self._rounds, self._differences) if self._rounds else None

    @property
    def has_fixed(self) -> bool:
        return any(isinstance(side.drafting, DraftParams) for side in self.sides)

    def more(self, rounds: int) -> None:
        """Run more rounds."""
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
        """Stop; whole rounds are kept."""
        self.stopping = True
        self._engine.cancel()

    def add_fixed(self) -> None:
        """Add fixed draft parameters as a side; raise UsageError without a draft model."""
        if self._what.pair.draft is None:
            raise UsageError("Fixed parameters need a draft model, and this pair has none.")
        self.sides = sides_of(self._what.automatic, self._what.fixed or DraftParams())

    def drop_fixed(self) -> None:
        """Remove the side with fixed draft parameters."""
        self.sides = sides_of(self._what.automatic, None)
        names = {side.name for side in self.sides}
        self._rounds = [{name: run for name, run in round_.items() if name in names} for round_ in self._rounds]
        self._differences = {name: found for name, found in self._differences.items() if name in names}

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to the running rounds, or to a load that they wait for."""
        of_it = isinstance(event, LoadProgress) or getattr(event, "request", None) == self._number
        return self._number is not None and of_it

    def rest(self, next_s: float) -> None:
        """Do nothing; no event is held back."""

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
            stats = batch.latest.stats if isinstance(batch.latest, Step) else None
            self._screen.panes[self._turn.side].add(batch.segments, stats)
        self._show_activity(doing)

    async def handle(self, event: SingleEvent) -> None:
        match event:
            case JobProgressed(what=RunBegan() as turn):
                self._turn = turn
                if turn.round != WARM_UP:
                    self._screen.panes[turn.side].begin()
                    self._screen.show_side(turn.side)
            case JobProgressed(what=RunEnded(round=number, run=run)) if number != WARM_UP:
                self._screen.panes[run.contender].end(run)
            case JobProgressed(what=Explaining()):
                self._show_activity("finding out why the texts differ")
            case JobEnded(result=Raced() as raced):
                self._end(raced)
                if raced.broken is not None:
                    await self._screen.fail(raced.broken)
            case Failed(error=error):
                self._number = None
                await self._screen.fail(error)

    def _show_activity(self, text: str) -> None:
        if not self.stopping:
            self._screen.result.show_activity(text)

    def _end(self, raced: Raced) -> None:
        self._number = None
        self._rounds += raced.rounds
        # The first round of a side has the text that is shown.
        self._differences = {**raced.differences, **self._differences}
        self._warm = self._warm or bool(raced.rounds)
        self._screen.show_result(stopped=raced.stopped)
