"""Whatever order things happen in, everything that was asked for ends once, in order, with what was said of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.child import Ending
from app.core.errors import DecodeError, StoppedError
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason, Origin
from app.worker.events import AnswerPlan, Event, Failed, Finished, JobEnded, Loaded, Step
from app.worker.isolated.engine import IsolatedEngine
from app.worker.isolated.protocol import Answer, Begin, Cancel, Load, RunJob
from app.worker.isolated.watchdog import Lost, Quiet
from tests.ui.fakes import PAIR
from tests.worker.isolated.fake_process import FakeJob, FakeLoader, FakeLook, codec
from tests.worker.isolated.harness import question

MOVES = (
    "load", "answer", "job", "look", "cancel", "unheard", "say", "say", "end", "end", "fail", "die", "reap", "lost",
    "quiet", "inspect",
)  # fmt: skip
STATS, PLAN = GenerationStats(), AnswerPlan("off", "none", None, None)


class Child:
    """Satisfies what the engine needs of `app.worker.isolated.process.Process`: does what it is told when a move lets
    it.
    """

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self._number = self._stopped_through = 0
        self._waiting: deque[tuple[int, Load | Answer | RunJob]] = deque()
        self._text = ""
        self._has_pair = False
        self.killed = self.gone = False

    def send(self, message: object) -> None:
        match message:
            case Begin(last_number):
                self._number = last_number
            case Load() | Answer() | RunJob():
                self._number += 1
                self._waiting.append((self._number, message))
            case Cancel():
                self._stopped_through = self._number

    def kill(self) -> None:
        self.killed = True

    def close(self, timeout: float) -> None:
        self.killed = True

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting) and not self.gone

    def end(self) -> None:
        """It is gone; the end of what it says is seen."""
        if not self.gone:
            self.gone = True
            self._listener.ended(self, Ending(-9, ""))

    def go_on(self, what: str) -> None:
        """Let it say something about what it is at; what it said before it was killed may still come."""
        if not self.is_busy:
            return
        number, command = self._waiting[0]
        stopped = number <= self._stopped_through
        if what == "say" and not stopped:
            if isinstance(command, Answer) and self._has_pair:
                self._text += "word "
                self._say(Step(number, (Segment("word ", Origin.TARGET),), STATS))
            return
        self._waiting.popleft()
        text, self._text = self._text, ""
        if isinstance(command, Load):
            self._has_pair = what != "fail" and not stopped
            why = StoppedError("Loading was stopped.") if stopped else DecodeError("It cannot be read.")
            self._say(Loaded(PAIR) if self._has_pair else Failed(None, why))
        elif isinstance(command, RunJob) and not (command.job.loads or self._has_pair):
            self._say(JobEnded(number, None))
        elif what == "fail" or not self._has_pair:
            self._say(Failed(number, DecodeError("The fake failed.")))
        elif isinstance(command, RunJob):
            self._say(JobEnded(number, None))
        else:
            reason = FinishReason.CANCELLED if stopped else FinishReason.STOP
            self._say(Finished(number, reason, text, "", STATS, PLAN))

    def _say(self, event: Event) -> None:
        self._listener.heard(self, event)


class Life:
    """An engine whose children, timers and watchdog do what a test says."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.children: list[Child] = []
        self.timers: deque[Callable[[], None]] = deque()
        self.events: list[Event] = []
        self.asked: list[int | None] = []
        patch.setattr("app.worker.isolated.engine.Process", self._child)
        patch.setattr("app.worker.isolated.engine.threading", SimpleNamespace(Lock=threading.Lock, Timer=self._timer))
        self.engine = IsolatedEngine(self.events.append, (), codec())

    def _child(self, command: Sequence[str], codec: object, listener: object) -> Child:
        assert all(child.killed or child.gone for child in self.children), "two children have the models at once"
        self.children.append(Child(listener))
        return self.children[-1]

    def _timer(self, seconds: float, call: Callable[..., None], args: tuple[Any, ...]) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: self.timers.append(lambda: call(*args)))

    def do(self, move: str) -> None:
        engine, child = self.engine, self.children[-1] if self.children else None
        match move:
            case "load":
                self.asked.append(None)
                engine.load(FakeLoader())
            case "answer":
                self.asked.append(engine.answer(question()))
            case "job":
                self.asked.append(engine.run(FakeJob()))
            case "look":
                self.asked.append(engine.run(FakeLook()))
            case "cancel":
                engine.cancel()
            case "unheard":
                if self.timers:
                    self.timers.popleft()()
            case "inspect":
                engine.inspect(True)
            case "reap":
                for each in self.children:
                    if each.killed:
                        each.end()
            case "lost" | "quiet" if child is not None:
                engine._found(child, Lost("host:1 is gone") if move == "lost" else Quiet("It is quiet."))  # type: ignore[arg-type]
            case "die" if child is not None:
                child.end()
            case "say" | "end" | "fail" if child is not None:
                child.go_on(move)

    def finish(self) -> None:
        """Let everything come to its end."""
        for _ in range(200):
            self.do("reap")
            self.do("end")
        assert not any(child.is_busy and not child.killed for child in self.children)

    @property
    def ends(self) -> list[int | None]:
        """What has ended, in order; None is a load."""
        found: list[int | None] = []
        for event in self.events:
            if isinstance(event, Loaded):
                found.append(None)
            elif isinstance(event, Failed | Finished | JobEnded):
                found.append(event.request)
        return found


def live(moves: Sequence[str]) -> Life:
    with pytest.MonkeyPatch.context() as patch:
        life = Life(patch)
        for move in moves:
            life.do(move)
        life.finish()
        assert life.ends == life.asked, life.events
        for event in life.events:
            if isinstance(event, Finished):
                before = life.events[: life.events.index(event)]
                steps = [each for each in before if isinstance(each, Step) and each.request == event.request]
                assert event.text == "".join(part.text for step in steps for part in step.segments)
        last = {event.request: at for at, event in enumerate(life.events) if isinstance(event, Finished | Failed)}
        for at, event in enumerate(life.events):
            if isinstance(event, Step):
                assert at < last[event.request], "an answer goes on after its end"
        for move in ("load", "answer"):
            life.do(move)
            life.finish()
        assert isinstance(life.events[-1], Finished), life.events[-1]
        return life


@given(st.lists(st.sampled_from(MOVES), max_size=30))
@settings(max_examples=300, deadline=None)
def test_everything_ends_once(moves: list[str]) -> None:
    live(["load", *moves])


@given(st.lists(st.sampled_from(MOVES), max_size=30))
@settings(max_examples=150, deadline=None)
def test_everything_ends_once_where_nothing_was_loaded(moves: list[str]) -> None:
    live(moves)


@pytest.mark.parametrize("end", ["end", "fail"])
def test_a_load_that_was_stopped_without_its_process_is_not_told_again(end: str) -> None:
    life = live(["answer", "load", "cancel", "unheard", "end", end])
    assert [event for event in life.events if isinstance(event, Loaded)] == [life.events[-2]]
