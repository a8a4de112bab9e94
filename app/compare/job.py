"""A comparison as a value: anyone who holds a loaded pair can run it, on whatever thread or in whatever process."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

from app.compare.difference import Difference, explain, first_difference
from app.compare.race import WARM_UP_TOKENS, RaceBroken, Round, RunEnded, Steps, in_process, race
from app.compare.sides import Side, check_sides
from app.compare.tap import conversation_prefix, preserved_caches
from app.core.errors import AppError, Interrupted
from app.engine.interfaces import Cancelled
from app.worker.events import Event, JobEnded, JobProgressed, Measuring, PromptProgress, Step
from app.worker.request import AnswerRequest, LoadedPair


@dataclass(frozen=True, slots=True)
class RunBegan:
    """A side's turn has come; what is read, measured and written from here on is its own.

    Attributes:
        side: Its name.
        round: The round, from 1; `app.compare.race.WARM_UP` is not counted.
    """

    side: str
    round: int


@dataclass(frozen=True, slots=True)
class Explaining:
    """The texts differ, and why is being computed."""


@dataclass(frozen=True, slots=True)
class Raced:
    """Result of a comparison.

    Attributes:
        rounds: The rounds that every side finished; after a stop fewer than asked for.
        differences: The first difference of each side from the first one, in the first round; None where there is
            none, and a side is missing where it was not looked for.
        stopped: Whether it was stopped.
        broken: Why it ended before its time, if a side failed or its text could not be compared; the rounds before
            count.
    """

    rounds: tuple[Round, ...]
    differences: Mapping[str, Difference | None]
    stopped: bool
    broken: AppError | None = None


@dataclass(frozen=True, slots=True)
class CompareJob:
    """One prompt, answered by every side in turn; see `app.compare.race` for what makes that fair.

    The conversation before the prompt is read before anybody's turn, by both models, and is there for everybody.

    Attributes:
        request: What to answer; its `drafting` is the sides' business. A random draw needs a seed.
        sides: Who takes part, no draft first.
        rounds: How many rounds.
        first: Number of the first one, for a comparison that goes on.
        warm_up: Whether everybody warms up before.
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
        """Do it; a stop ends it early and is no failure.

        Yields:
            Progress of the answers and, as `JobProgressed`, `RunBegan`, `app.compare.race.RunEnded` and `Explaining`;
            `Raced` in the `JobEnded` at the end.

        Raises:
            AppError: The pair lacks what a side needs, the prompt does not fit, or the target failed at first.
        """
        check_sides(pair, self.sides)
        with preserved_caches(pair):
            result = yield from self._compare(pair, number, cancelled)
        yield JobEnded(number, result)

    def _compare(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Generator[Event, None, Raced]:
        rounds, broken = yield from self._race(pair, number, cancelled)
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
        return Raced(tuple(rounds), differences, cancelled(), broken)

    def _race(
        self, pair: LoadedPair, number: int, cancelled: Cancelled
    ) -> Generator[Event, None, tuple[list[Round], AppError | None]]:
        prefix = conversation_prefix(pair, self.request.messages, self.request.thinking)
        contenders = [in_process(pair, s.name, s.drafting, prefix=prefix, number=number) for s in self.sides]
        warm_up = WARM_UP_TOKENS if self.warm_up else 0
        steps = Steps(race(contenders, self.request, self.rounds, cancelled, warm_up_tokens=warm_up, first=self.first))
        turn: RunBegan | None = None
        broken: AppError | None = None
        for event in steps:
            if isinstance(event, RaceBroken):
                broken = event.error
                continue
            if isinstance(event, RunEnded):
                yield JobProgressed(number, event)
                continue
            began = RunBegan(event.contender, event.round)
            if began != turn:
                turn = began
                yield JobProgressed(number, began)
            # An answer's end and its notices are in the run.
            if isinstance(event.event, Measuring | PromptProgress | Step):
                yield event.event
        if broken is not None and not steps.result:
            raise broken
        return steps.result, broken
