"""The pair is measured while nothing is asked."""

import queue
import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from app.conversations.message import Message, Role
from app.core.errors import Interrupted
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event, Finished, JobEnded, Loaded, Measuring
from app.worker.jobs import MeasureJob, TitleJob
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing, script
from tests.pairs import FakePair

QUESTION = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(temperature=0), max_tokens=9)
_TIMEOUT_S = 60


def new_pair() -> FakePair:
    target, draft = (FakeModel(mixing(1), n_ctx=1024, n_batch=1024) for _ in range(2))
    return FakePair(target, draft)


AUTOMATIC = AutoDraft()


def run(pair: FakePair, drafting: Drafting = AUTOMATIC) -> list[Event]:
    return list(MeasureJob(drafting).run(pair, 7, Controls()))


def test_a_new_pair_is_measured_once() -> None:
    pair = new_pair()
    assert run(pair) == [Measuring(7, 0.5), JobEnded(7, result=True)]
    assert pair.remembered == 1
    assert run(pair) == [JobEnded(7, result=True)]


def test_estimated_costs_are_measured() -> None:
    pair = new_pair()
    run(pair)
    assert pair.memory is not None
    pair.memory.is_estimated = True
    assert run(pair)[0] == Measuring(7, 0.5)


def test_another_measurement_gives_its_reason() -> None:
    pair = new_pair()
    run(pair)
    assert pair.memory is not None
    pair.memory.idle_answers = 1
    assert run(pair)[0] == Measuring(7, 0.5, "drafting did not pay before")


@pytest.mark.parametrize("drafting", [None, DraftParams(), AutoDraft(model=False, lookup=False)])
def test_without_automatic_drafting_nothing_is_measured(drafting: Drafting) -> None:
    assert run(new_pair(), drafting) == [JobEnded(7, result=True)]


class Emptying(FakePair):
    """Measures on empty caches, as the real pair does."""

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        self.target.rollback(0)
        self.target.evaluate((9, 9, 9), 1)
        yield from super().measure_costs(cancelled, budget_ns=budget_ns, passes=passes)
        if cancelled():
            raise Interrupted


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_measurement_leaves_even_a_short_conversation_in_the_cache(is_stopped: bool) -> None:
    pair = Emptying(FakeModel(mixing(1), n_ctx=1024, n_batch=1024))
    pair.prompt_cache = type(pair.prompt_cache)(budget_bytes=1 << 20)
    text = [1 + i % 20 for i in range(40)]
    pair.target.evaluate(text, 1)
    *_, ended = MeasureJob(AUTOMATIC).run(pair, 7, Controls(lambda: is_stopped))
    assert ended == JobEnded(7, result=not is_stopped)
    assert pair.target.tokens == text


def test_a_request_that_follows_soon_prevents_the_measurement() -> None:
    pair, waited = new_pair(), []

    def comes(seconds: float) -> bool:
        waited.append(seconds)
        return True

    assert len(list(MeasureJob(AUTOMATIC, 0.5).run(pair, 7, Controls(waits=comes)))) == 1
    assert (waited, pair.memory) == ([0.5], None)


class Endless(FakePair):
    """Measures until it is stopped."""

    def __init__(self) -> None:
        super().__init__(FakeModel(mixing(1)), FakeModel(mixing(1)))
        self.began = threading.Event()

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        while not cancelled():
            self.began.set()
            yield 0.1
        raise Interrupted


def until(events: queue.SimpleQueue[Event], number: int | None) -> Event:
    """Return the last event of a command."""
    while True:
        event = events.get(timeout=_TIMEOUT_S)
        if isinstance(event, Loaded) if number is None else isinstance(event, JobEnded | Finished):
            return event


def test_a_prompt_stops_the_measurement_at_once() -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    worker, pair = EngineWorker(events.put), Endless()
    worker.load(lambda cancel, progress: pair)
    until(events, None)
    measuring = worker.run(MeasureJob(AutoDraft(), after_s=0.0))
    assert pair.began.wait(_TIMEOUT_S)
    answering = worker.answer(replace(QUESTION, drafting=AutoDraft()))
    assert until(events, measuring) == JobEnded(measuring, result=False)
    last = until(events, answering)
    assert isinstance(last, Finished)
    assert (last.request, len(last.text)) == (answering, 9)
    worker.close()


def test_a_measurement_behind_which_a_prompt_waits_does_not_begin() -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    worker, pair = EngineWorker(events.put), Endless()
    loads = threading.Event()

    def load(cancel: threading.Event, progress: object) -> Endless:
        assert loads.wait(_TIMEOUT_S)
        return pair

    worker.load(load)
    measuring, _ = worker.run(MeasureJob(AutoDraft())), worker.answer(QUESTION)
    loads.set()
    until(events, None)
    assert until(events, measuring) == JobEnded(measuring, result=False)
    assert isinstance(until(events, measuring), Finished)
    worker.close()


def test_a_measurement_lets_a_job_end_that_gives_way_too() -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    worker, pair = EngineWorker(events.put), FakePair(FakeModel(script([3, 1, 2], start=3)))
    loads = threading.Event()

    def load(cancel: threading.Event, progress: object) -> FakePair:
        assert loads.wait(_TIMEOUT_S)
        return pair

    worker.load(load)
    title, measuring = worker.run(TitleJob(QUESTION)), worker.run(MeasureJob(AutoDraft()))
    loads.set()
    until(events, None)
    named = until(events, title)
    assert isinstance(named, JobEnded)
    assert (named.request, bool(named.result)) == (title, True)
    assert until(events, measuring) == JobEnded(measuring, result=True)
    worker.close()
