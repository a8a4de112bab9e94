"""A comparison on the screen, with an engine that runs jobs on fakes or follows a script."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from app.compare.difference import Difference
from app.compare.job import CompareJob
from app.compare.race import Run, RunBegan, RunEnded
from app.compare.report import Comparison as Compared
from app.core.errors import AppError
from app.engine.events import Step
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.settings.layers import Layer
from app.worker.events import JobEnded, JobProgressed
from tests.ui.driver import Chat, open_chat

SETTINGS: Layer = {"sampling.temp": 0}
PLAIN, AUTOMATIC, FIXED = "plain", "automatic", "fixed 7/0.6"
SAME = {AUTOMATIC: None}
"""No side differs."""
TEXT = "Quicksort picks a pivot and splits the list in two."


def made(side: str, seconds: float, *, text: str = TEXT, first_s: float = 0.21) -> Run:
    """Return a run of a side that took this many seconds after its first token."""
    stats = GenerationStats(
        prompt_n=12,
        predicted_n=201,
        predicted_ns=round(seconds * 1e9),
        first_token_ns=round(first_s * 1e9),
        verify_steps=200,
    )
    if side != PLAIN:
        stats.draft_n, stats.draft_n_accepted, stats.verify_steps, stats.drafted_steps = 200, 156, 50, 50
        stats.drafter = "model"
    return Run(side, tuple(range(201)), text, FinishReason.LENGTH, stats)


Chances = tuple[float, float]
"""Probabilities of the token without drafts and of the token with drafts."""


def tie(index: int, plain: str, drafted: str, alone: Chances, batched: Chances, why: str) -> Difference:
    """Return a difference that rounding explains."""
    logits = (17.25, 17.249), (17.248, 17.251)
    return Difference(index, 11, 12, plain, drafted, 5, *logits, 0.004, True, why, alone, batched)


class Comparison:
    """The compare screen and its engine."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.engine = chat.engine

    async def open(self) -> None:
        """Press the key, and wait for the engine to be asked."""
        asked = len(self.engine.jobs)
        await self.chat.pilot.press("f2")
        await self.chat.until(lambda: len(self.engine.jobs) > asked)

    @property
    def job(self) -> CompareJob:
        job = self.engine.jobs[-1]
        assert isinstance(job, CompareJob)
        return job

    def begins(self, side: str, round_: int = 1) -> None:
        self.engine.emit(JobProgressed(self.engine.job_number, RunBegan(side, round_)))

    def writes(self, text: str, stats: GenerationStats, *, thinking: bool = False) -> None:
        segments = (Segment(text, None, reasoning=thinking),)
        self.engine.emit(Step(self.engine.job_number, segments, stats))

    def ends(self, run: Run, round_: int = 1) -> None:
        self.engine.emit(JobProgressed(self.engine.job_number, RunEnded(round_, run)))

    def runs(self, run: Run, round_: int = 1) -> None:
        """Run a side once."""
        self.begins(run.contender, round_)
        self.writes(run.text, run.stats)
        self.ends(run, round_)

    def finishes(
        self,
        rounds: Sequence[Sequence[Run]],
        differences: Mapping[str, Difference | None] | None = None,
        *,
        stopped: bool = False,
        broken: AppError | None = None,
    ) -> None:
        whole = tuple({run.contender: run for run in runs} for runs in rounds)
        result = Compared(whole, dict(differences or {}), stopped, broken)
        self.engine.emit(JobEnded(self.engine.job_number, result))

    def races(self, *rounds: Sequence[Run], differences: Mapping[str, Difference | None] | None = None) -> None:
        """Run whole rounds, from the first to the result."""
        for number, runs in enumerate(rounds, start=self.job.first):
            for run in runs:
                self.runs(run, number)
        self.finishes(rounds, differences)


@asynccontextmanager
async def open_comparison(
    flags: Layer = SETTINGS, *, size: tuple[int, int] = (80, 24), prompt: str = "Write a quicksort."
) -> AsyncIterator[Comparison]:
    """Open the compare screen on top of a chat in which this prompt is typed."""
    async with open_chat(flags, size=size) as chat:
        await chat.type(prompt)
        comparison = Comparison(chat)
        await comparison.open()
        yield comparison


FIXED_SETTINGS: Layer = {"draft.mode": "fixed", "sampling.temp": 0}
