"""Rounds of a comparison and their result."""

from __future__ import annotations

from app.compare.difference import Difference
from app.compare.job import CompareJob, Raced
from app.compare.race import Round
from app.compare.report import Comparison
from app.compare.sides import Side, sides_of
from app.core.errors import UsageError
from app.engine.types import DraftParams
from app.session.comparison import Comparable


class ComparisonRounds:
    """The sides of a comparison, and what their rounds have shown."""

    def __init__(self, comparable: Comparable) -> None:
        self._comparable = comparable
        self.sides: tuple[Side, ...] = sides_of(comparable.automatic, comparable.fixed)
        self.goal = 0
        """Rounds that will have been run."""
        self._rounds: list[Round] = []
        self._differences: dict[str, Difference | None] = {}

    @property
    def result(self) -> Comparison | None:
        """The result so far; None before the first whole round."""
        return Comparison(self._rounds, self._differences) if self._rounds else None

    def next_job(self, n_rounds: int) -> CompareJob:
        """Return the job that runs more rounds."""
        n_done = len(self._rounds)
        self.goal = n_done + n_rounds
        return CompareJob(
            self._comparable.request,
            self.sides,
            n_rounds,
            first=n_done + 1,
            warm_up=not n_done,
            explains=len(self._differences) < len(self.sides) - 1,
        )

    def add(self, raced: Raced) -> None:
        """Add the whole rounds of a job."""
        self._rounds += raced.rounds
        # The first round of a side has the text that is shown.
        self._differences = {**raced.differences, **self._differences}

    def toggle_fixed(self) -> bool:
        """Add a side with fixed draft parameters, or remove it; return whether it was added.

        Raises:
            UsageError: The pair has no draft model.
        """
        if any(isinstance(side.drafting, DraftParams) for side in self.sides):
            self.sides = sides_of(self._comparable.automatic, None)
            names = {side.name for side in self.sides}
            self._rounds = [{name: run for name, run in round_.items() if name in names} for round_ in self._rounds]
            self._differences = {name: found for name, found in self._differences.items() if name in names}
            return False
        if self._comparable.pair.draft is None:
            raise UsageError("Fixed parameters need a draft model, and this pair has none.")
        self.sides = sides_of(self._comparable.automatic, self._comparable.fixed or DraftParams())
        return True
