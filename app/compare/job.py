"""A comparison as a job that a worker can run on whatever thread or process holds the pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.compare.difference import Difference, explain, first_difference
from app.compare.race import Round, RunBegan, RunEnded, Steps, in_process, race
from app.compare.recorder import conversation_prefix, preserved_caches
from app.compare.sides import Side, check_sides
from app.core.errors import AppError, Interrupted
from app.engine.interfaces import Cancelled
from app.worker.events import Event, JobEnded, JobProgressed, Measuring, PromptProgress, Step
from app.worker.request import AnswerRequest, LoadedPair


@dataclass(frozen=True, slots=True)
class Explaining:
    """The texts differ, and the cause is being computed."""


@dataclass(frozen=True, slots=True)
class Raced:
    """Result of a comparison.

    Attributes:
        rounds: The rounds that every side finished.
        differences: The first difference of each side from the first one; None for the same text. A side is missing
            if it was not compared.
        stopped: Whether it was cancelled.
        broken: The error that ended it early.
    """

    rounds: tuple[Round, ...]
    differences: Mapping[str, Difference | None]
    stopped: bool
    broken: AppError | None = None


@dataclass(frozen=True, slots=True)
class CompareJob:
    """One prompt, answered by every side in turn; see `app.compare.race`.

    Both models read the conversation before the prompt first, for all sides alike.

    Attributes:
        request: What to answer. Sampling needs a seed.
        sides: The sides, no draft first.
        first: Number of the first one, for a comparison that goes on.
        warm_up: Whether each side warms up before.
        explains: Whether the texts of the first round are compared.
    """

    request: AnswerRequest
    sides: tuple[Side, ...]
    rounds: int
    first: int = 1
    warm_up: bool = True
    explains: bool = True
    loads = True

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        """Run the comparison; a stop ends it early and is no failure.

        Yields:
            Progress of the answers and, as `JobProgressed`, `RunBegan`, `RunEnded` and `Explaining`; `Raced` in the
            `JobEnded` at the end.

        Raises:
            AppError: The pair lacks what a side needs, or the first round failed.
        """
        check_sides(pair, self.sides)
        with preserved_caches(pair):
            prefix = conversation_prefix(pair, self.request.messages, self.request.thinking)
            contenders = [in_process(pair, s.name, s.drafting, prefix=prefix, number=number) for s in self.sides]
            steps = Steps(
                race(contenders, self.request, self.rounds, cancelled, warm_up=self.warm_up, first=self.first)
            )
            for event in steps:
                if isinstance(event, RunBegan | RunEnded):
                    yield JobProgressed(number, event)
                # The end of an answer and its notices are in the run.
                elif isinstance(event, Measuring | PromptProgress | Step):
                    yield event
            rounds, broken = steps.result.rounds, steps.result.broken
            if broken is not None and not rounds:
                raise broken
            differences: dict[str, Difference | None] = {}
            if self.explains and rounds and broken is None and not cancelled():
                plain, *others = rounds[0].values()
                if any(first_difference(plain, other) is not None for other in others):
                    yield JobProgressed(number, Explaining())
                try:
                    for other in others:
                        found = explain(pair, plain, other, self.request.sampling, cancelled)
                        differences[other.contender] = found
                except Interrupted:
                    pass
                except AppError as error:
                    broken = error
        yield JobEnded(number, Raced(rounds, differences, cancelled(), broken))
