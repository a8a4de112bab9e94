"""The pair is measured while the engine is idle."""

import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from app.core.errors import Interrupted
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.worker.events import Event, Finished, JobEnded, Loaded, Measuring
from app.worker.jobs import MeasureJob, TitleJob
from tests.fakes import FakeModel, mixing, script
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.worker.harness import WorkerHarness, finished, question

QUESTION = question("abc", 9)


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
    """Measures on empty caches, like the real pair."""

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
    pair.caches = pair.prompt_cache(1 << 20)
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


def test_a_prompt_stops_the_measurement_at_once(here: WorkerHarness) -> None:
    pair = Endless()
    here.load(pair)
    here.until(Loaded)
    measuring = here.worker.run(MeasureJob(AutoDraft(), after_s=0.0))
    assert pair.began.wait(HANGS_S)
    answering = here.worker.answer(replace(QUESTION, drafting=AutoDraft()))
    assert here.until(JobEnded)[-1] == JobEnded(measuring, result=False)
    last = finished(here.until(Finished)[-1])
    assert (last.request, len(last.text)) == (answering, 9)


def test_a_measurement_behind_which_a_prompt_waits_does_not_begin(here: WorkerHarness) -> None:
    loads = here.load_when_set(Endless())
    measuring, _ = here.worker.run(MeasureJob(AutoDraft())), here.worker.answer(QUESTION)
    loads.set()
    assert here.until(JobEnded)[-1] == JobEnded(measuring, result=False)
    here.until(Finished)


def test_a_measurement_lets_a_job_end_that_gives_way_too(here: WorkerHarness) -> None:
    loads = here.load_when_set(FakePair(FakeModel(script([3, 1, 2], start=3))))
    title, measuring = here.worker.run(TitleJob(QUESTION)), here.worker.run(MeasureJob(AutoDraft()))
    loads.set()
    named = here.until(JobEnded)[-1]
    assert isinstance(named, JobEnded)
    assert (named.request, bool(named.result)) == (title, True)
    assert here.until(JobEnded)[-1] == JobEnded(measuring, result=True)
