"""An engine that does what it is asked for in order, as slowly as the moves of a session let it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from app.compare.job import CompareJob, Raced, RunBegan
from app.compare.race import RunEnded
from app.core.errors import AppError, DecodeError, EngineLostError, ModelLoadError, StoppedError
from app.engine.text.segments import Segment
from app.engine.types import DraftParams, FinishReason, Origin
from app.session.chat_settings import ChatSettings
from app.ui.models.fit_options import FitOption, NoRoomError
from app.ui.models.state import LoadRequest
from app.worker.commands import Job, Loader
from app.worker.counting import CountJob
from app.worker.events import (
    AnswerPlan,
    Event,
    Failed,
    Finished,
    JobEnded,
    JobProgressed,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PromptProgress,
    Step,
    StepDetails,
)
from app.worker.request import AnswerRequest
from tests.ui.compare.driver import made
from tests.ui.fakes import PAIR, STATS, no_loader

_DETAILS = StepDetails(
    number=1,
    drafted=(b" pivot", b" =", b"\xff"),
    n_model=2,
    confidences=(0.97, 0.999, 0.5),
    written=(b" pivot", b" =", b"0"),
    n_accepted=2,
    chosen=(0.98, 0.99, 0.54),
    declined=0.08,
    total_ns=38_000_000,
    plain_ns=34_000_000.0,
)
_PLAN = AnswerPlan("fixed", "model", DraftParams(), None)


@dataclass
class _Asked:
    """What waits for its turn; `number` is None for a load."""

    number: int | None
    answer: AnswerRequest | None = None
    job: Iterator[Event] | None = None
    stopped: bool = False
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)


class MonkeyEngine:
    """Satisfies `app.session.engine.Engine`.

    Args:
        emit: The screen's side.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.emit = emit
        self.closed = False
        self.answers_asked = 0
        self._number = 0
        self._waiting: deque[_Asked] = deque()
        self._inspected = False
        self._has_pair = False

    # What the program asks for

    def load(self, loader: Loader) -> None:
        self._waiting.append(_Asked(None))

    def answer(self, request: AnswerRequest) -> int:
        begun = [request.begun.text] if request.begun is not None else []
        self.answers_asked += 1
        return self._ask(_Asked(self._next(), request, text=begun))

    def run(self, job: Job) -> int:
        number = self._next()
        if isinstance(job, CountJob):
            return self._ask(_Asked(number, job=iter([JobEnded(number, len(job.text))])))
        assert isinstance(job, CompareJob)
        return self._ask(_Asked(number, job=_comparison(job, number)))

    def cancel(self) -> None:
        for asked in self._waiting:
            asked.stopped = True

    def inspect(self, on: bool) -> None:
        self._inspected = on

    def draft(self, on: bool) -> None:
        """Drafts are told as they come; no one asks whether they should."""

    def close(self, timeout: float | None = None) -> bool:
        self.closed = True
        return True

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, asked: _Asked) -> int:
        self._waiting.append(asked)
        assert asked.number is not None
        return asked.number

    # What a session lets happen

    @property
    def is_busy(self) -> bool:
        """Whether something is asked for that has not ended."""
        return bool(self._waiting)

    def go_on(self, what: str, text: str = "") -> None:
        """Let something happen to what is asked for: a word of it, or its end.

        Args:
            what: `say`, `think`, `read`, `notice`, `end`, `cut`, `fail` or `die`.
            text: What is said.
        """
        if what == "notice" or not self._waiting:
            self.emit(Notice(text or "Something is worth a word."))
            return
        now = self._waiting[0]
        if now.number is None:
            self._load(now, what)
        elif now.stopped or not self._has_pair or what in ("end", "cut", "fail", "die"):
            self._waiting.popleft()
            self._end(now, what)
        elif now.job is not None:
            event = next(now.job)
            if isinstance(event, JobEnded):
                self._waiting.popleft()
            self.emit(event)
        elif what == "read":
            self.emit(Measuring(now.number, 0.5) if len(text) % 2 else PromptProgress(now.number, False, 512, 1700))
        elif text:
            (now.thought if what == "think" else now.text).append(text)
            details = _DETAILS if self._inspected else None
            segments = tuple(Segment(part, origin, reasoning=what == "think") for part, origin in _pieces(text))
            self.emit(Step(now.number, segments, STATS, None, details))

    def _load(self, now: _Asked, what: str) -> None:
        if now.stopped or what in ("end", "fail", "cut", "die"):
            self._waiting.popleft()
            self._has_pair = what == "end" and not now.stopped
            if now.stopped:
                self.emit(Failed(None, StoppedError("Loading was stopped.")))
            elif what == "end":
                self.emit(Loaded(PAIR))
            else:
                self.emit(
                    Failed(None, _no_room() if what == "cut" else ModelLoadError("It is gone.", "Bring it back."))
                )
        else:
            self.emit(LoadProgress("target", 0.5))

    def _end(self, now: _Asked, what: str) -> None:
        assert now.number is not None
        error: AppError = EngineLostError("The engine process ended.", "Send it again.")
        if not self._has_pair:
            self.emit(Failed(now.number, DecodeError("No model is loaded.")))
        elif what == "die" or (what == "fail" and not now.stopped):
            self.emit(Failed(now.number, error if what == "die" else DecodeError("The target failed.")))
        elif now.job is not None:
            self.emit(JobEnded(now.number, Raced((), {}, stopped=True)))
        else:
            reason = {"end": FinishReason.STOP, "cut": FinishReason.LENGTH, "fail": FinishReason.CONTEXT}.get(what)
            if now.stopped or reason is None:
                reason = FinishReason.CANCELLED
            text = "".join(now.text)
            text = text.strip() if reason is FinishReason.STOP else text.lstrip()
            self.emit(Finished(now.number, reason, text, "".join(now.thought).strip(), STATS, _PLAN))


def _pieces(text: str) -> Iterator[tuple[str, Origin]]:
    random = Random(text)
    while text:
        size = random.randint(1, max(1, len(text)))
        yield text[:size], random.choice(list(Origin))
        text = text[size:]


def _comparison(job: CompareJob, number: int) -> Iterator[Event]:
    rounds = []
    for round_ in range(job.first, job.first + job.rounds):
        runs = {}
        for side in job.sides:
            run = made(side.name, 2.0)
            yield JobProgressed(number, RunBegan(side.name, round_))
            yield Step(number, (Segment(run.text, Origin.TARGET),), run.stats)
            yield JobProgressed(number, RunEnded(round_, run))
            runs[side.name] = run
        rounds.append(runs)
    yield JobEnded(number, Raced(tuple(rounds), {}, stopped=False))


def _no_room() -> NoRoomError:
    smaller = LoadRequest(no_loader, ChatSettings("A smaller one", drafting=DraftParams()))
    ways = (
        FitOption("a smaller context", "frees 2 GB", "less is remembered", lambda: smaller),
        FitOption("buy", "all", "money"),
    )
    return NoRoomError("It does not fit.", ways, "Take another one.")
