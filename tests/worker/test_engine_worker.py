"""The worker: one thread, commands in order, and cancellations of earlier commands only."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from app.compare.job import CompareJob
from app.compare.race import Side
from app.compare.report import Comparison
from app.conversations.message import Prefill
from app.core.errors import ComputeError, Interrupted, ModelFileError
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.events import Step
from app.engine.text.reasoning import RenderedPrompt
from app.engine.types import AutoDraft, Drafting, DraftingStatus, DraftParams, FinishReason
from app.worker.engine_worker import EngineWorker, Progress
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, LoadProgress, Measuring, Notice, PairChanged
from app.worker.request import LoadedPair
from tests.fakes import FakeModel, mixing, script
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.worker.harness import ENDLESS, WorkerHarness, answered, failed, finished, question

QUESTION = question()


def test_events_come_from_the_workers_own_thread() -> None:
    threads: set[str] = set()
    done = threading.Event()

    def emit(event: Event) -> None:
        threads.add(threading.current_thread().name)
        if isinstance(event, Finished):
            done.set()

    worker = EngineWorker(emit)
    worker.load(lambda cancel, progress: FakePair(FakeModel(mixing(1))))
    worker.answer(QUESTION)

    assert done.wait(HANGS_S)
    assert threads == {"engine"}
    assert worker.close(30)


def test_notices_of_a_load_come_before_it_is_loaded(here: WorkerHarness) -> None:
    here.load(FakePair(FakeModel(mixing(1)), notices=["Running without this draft."]))

    assert [type(e) for e in here.until(Loaded)] == [Notice, Loaded]


def test_an_idle_pair_is_unloaded_and_loaded_again_for_the_next_answer(here: WorkerHarness) -> None:
    loaded: list[FakePair] = []

    def loader(cancel: object, progress: object) -> FakePair:
        loaded.append(FakePair(FakeModel(mixing(1))))
        loaded[-1].idle_s = 0.01 if len(loaded) == 1 else None
        return loaded[-1]

    here.worker.load(loader)
    *_, notice = here.until(Notice)
    assert isinstance(notice, Notice)
    assert "unloaded" in notice.text
    assert loaded[0].closed
    here.worker.answer(QUESTION)
    assert isinstance(here.until(Finished, Failed)[-1], Finished)
    assert len(loaded) == 2
    assert here.worker.close(30)


def test_a_failed_load_is_an_event_and_the_worker_lives_on(here: WorkerHarness) -> None:
    def missing(cancel: threading.Event, progress: Progress) -> LoadedPair:
        raise ModelFileError("There is no file x.", "Check the path.")

    here.worker.load(missing)
    here.worker.answer(QUESTION)
    missed, refused = (failed(here.until(Failed)[-1]) for _ in range(2))
    here.load(FakePair(FakeModel(mixing(1))))
    number = here.worker.answer(QUESTION)

    assert (missed.request, missed.error.message) == (None, "There is no file x.")
    assert refused.error.message == "No model is loaded."
    last = finished(here.until(Finished)[-1])
    assert last.request == number


def test_a_second_load_frees_the_first_pair_before(here: WorkerHarness) -> None:
    first = FakePair(FakeModel(mixing(1)))
    closed_before_second: list[bool] = []

    def second(cancel: threading.Event, progress: Progress) -> LoadedPair:
        closed_before_second.append(first.closed)
        return FakePair(FakeModel(mixing(2)))

    here.load(first)
    here.worker.load(second)
    here.until(Loaded)
    here.until(Loaded)

    assert closed_before_second == [True]


def test_an_unexpected_failure_becomes_a_sentence(here: WorkerHarness) -> None:
    pair = FakePair(FakeModel(mixing(1)))

    def fail(*_: object) -> RenderedPrompt:
        raise ZeroDivisionError

    pair.prompts.build = fail  # type: ignore[method-assign, assignment]
    here.load(pair)
    here.worker.answer(QUESTION)

    *_, failed = here.until(Failed)

    assert isinstance(failed, Failed)
    assert "ZeroDivisionError" in failed.error.message
    assert failed.error.hint


class TestCancel:
    def test_one_waiting_answer_can_be_cancelled_alone(self, here: WorkerHarness) -> None:
        here.load(FakePair(FakeModel(mixing(1), n_ctx=100_000)))
        running = here.worker.answer(ENDLESS)
        waiting, later = (here.worker.answer(QUESTION) for _ in range(2))
        here.until(Step)
        here.worker.cancel(waiting)
        here.worker.cancel(running)

        reasons: dict[int, FinishReason] = {}
        while len(reasons) < 3:
            last = finished(here.until(Finished)[-1])
            reasons[last.request] = last.reason
        stopped = FinishReason.CANCELLED
        assert reasons == {running: stopped, waiting: stopped, later: FinishReason.LENGTH}

    def test_a_load_can_be_stopped(self, here: WorkerHarness) -> None:
        entered = threading.Event()

        def endless(cancel: threading.Event, progress: Progress) -> LoadedPair:
            entered.set()
            while progress(0.5):
                pass
            raise Interrupted

        here.worker.load(endless)
        assert entered.wait(HANGS_S)
        here.worker.cancel()

        assert isinstance(here.until(Failed)[0], LoadProgress)


@pytest.mark.parametrize("is_asked", [True, False], ids=["the request's", "the template's"])
def test_a_stop_string_ends_the_answer_before_itself(is_asked: bool) -> None:
    pair, request = FakePair(FakeModel(script([9, 10, 11, 12], 3))), question(stops=("jk",) if is_asked else ())
    built = pair.prompts.build(request.messages)
    pair.prompts.build = lambda *_: replace(built, stops=() if is_asked else ("jk",))  # type: ignore[method-assign]

    _, last = answered(pair, request)
    assert (last.text, last.reason) == ("i", FinishReason.STOP)


def test_an_answer_continues_where_it_ended() -> None:
    request, pair = replace(question(), prefill=Prefill("hi, ", "hm")), FakePair(FakeModel(script([9, 10], 7)))
    _, last = answered(pair, request)

    assert pair.samplers[0].prompt == pair.prompts.build(request.messages, request.prefill).tokens
    assert (last.text, last.reasoning, last.reason) == ("hi, ij", "hm", FinishReason.STOP)


def test_a_lost_draft_is_a_notice_in_the_middle_of_the_answer() -> None:
    draft = FakeModel(mixing(1))
    draft.fail_at = 3
    seen, last = answered(FakePair(FakeModel(mixing(1)), draft), question("abc", 9, DraftParams(3, 0, 0.0)))

    notices = [e.text for e in seen if isinstance(e, Notice)]
    assert notices == ["The draft model failed, the answer goes on without it: The fake failed."]
    assert (last.reason, last.lost) == (FinishReason.LENGTH, "The fake failed.")


@pytest.mark.parametrize("on", [True, False])
def test_steps_are_inspected_only_if_requested(here: WorkerHarness, on: bool) -> None:
    here.load(FakePair(FakeModel(mixing(1)), FakeModel(mixing(2))))
    here.worker.inspect(on)
    here.worker.answer(question("abc", 15, DraftParams(4, 0, 0.0)))
    first, *seen = [event.details for event in here.until(Finished) if isinstance(event, Step)]

    assert first is None, "the first token comes from the prompt"
    steps = [details for details in seen if details is not None]
    assert [details.number for details in steps] == list(range(1, len(seen) + 1))
    for details in steps:
        assert len(details.confidences) == len(details.drafted)
        assert bool(details.chosen) is on
        assert on or details.declined is None
        assert details.total_ns > 0


class TestFailedComputation:
    """A context is unusable after a failed batch."""

    def failing(self, here: WorkerHarness) -> list[FakePair]:
        """Return the loaded pairs; the second batch of the first fails, and its answer is over."""
        pairs: list[FakePair] = []

        def load(cancel: threading.Event, progress: Progress) -> FakePair:
            if len(pairs) == 2:
                raise ModelFileError("It is gone.", "Bring it back.")
            target = FakeModel(mixing(1)) if pairs else failing_at(2)
            pairs.append(FakePair(target, notices=["A notice."]))
            return pairs[-1]

        here.worker.load(load)
        here.until(Loaded)
        here.worker.answer(QUESTION)
        assert failed(here.until(Failed)[-1]).error.message == "It failed."
        assert [pair.closed for pair in pairs] == [True]
        return pairs

    def test_the_next_answer_loads_the_pair_again(self, here: WorkerHarness) -> None:
        pairs = self.failing(here)
        number = here.worker.answer(QUESTION)
        *before, last = here.until(Finished, Failed)
        assert (finished(last).request, len(pairs)) == (number, 2)
        assert not any(isinstance(event, Loaded | Notice) for event in before)

    def test_a_failed_draft_is_left_out_with_a_notice(self, here: WorkerHarness) -> None:
        pair = FakePair(FakeModel(mixing(1)), failing_at(3))
        here.load(pair)
        here.until(Loaded)
        drafted = replace(QUESTION, drafting=DraftParams(3, 0, 0.0), max_tokens=9)
        here.worker.answer(drafted)
        first = here.until(Finished, Failed)[-1]
        # Immediately, not with the next request
        assert here.until(PairChanged) == [Notice("It is left out."), PairChanged(pair.info)]
        here.worker.answer(drafted)
        *before, second = here.until(Finished, Failed)

        assert (finished(first).lost, finished(second).lost) == ("It failed.", None)
        assert finished(first).text == finished(second).text
        assert not any(isinstance(event, Loaded | PairChanged | Notice) for event in before)
        assert (pair.closed, pair.info.draft) == (False, None)

    def test_a_failure_in_a_job_loads_the_pair_again(self, here: WorkerHarness) -> None:
        first = FakePair(failing_at(40))
        pairs = self.one_after_another(here, first, FakePair(FakeModel(mixing(1))))
        sides = (Side("plain", None), Side("again", None))
        here.worker.run(CompareJob(replace(QUESTION, max_tokens=9), sides, rounds=50, explains=False))
        ended = here.until(JobEnded, Failed)[-1]
        here.worker.answer(QUESTION)

        assert isinstance(ended, JobEnded)
        assert isinstance(ended.result, Comparison)
        assert str(ended.result.broken) == "It failed."
        assert isinstance(here.until(Finished, Failed)[-1], Finished)
        assert (first.closed, len(pairs)) == (True, 0)

    def one_after_another(self, here: WorkerHarness, *pairs: FakePair) -> list[FakePair]:
        """Load the first pair with a loader that returns the next pair every time; return the remaining pairs."""
        left = list(pairs)
        here.worker.load(lambda cancel, progress: left.pop(0))
        here.until(Loaded)
        return left


def failing_at(call: int) -> FakeModel:
    model = FakeModel(mixing(1))
    model.fail_at, model.fail_with = call, ComputeError("It failed.")
    return model


def new_pair(**changes: Any) -> FakePair:
    return FakePair(FakeModel(mixing(1)), FakeModel(mixing(1)), **changes)


def test_the_first_answer_is_drafted_without_a_measurement_and_every_answer_is_remembered() -> None:
    request, pair = question("abc", 20, AutoDraft()), new_pair()
    pair.info = replace(pair.info, draft=replace(pair.info.target, size_bytes=100))

    first, last = answered(pair, request)
    assert pair.memory is not None
    assert pair.memory.is_estimated
    second, _ = answered(pair, request)

    assert not any(isinstance(e, Measuring) for e in first + second)
    assert last.stats.draft_n > 0
    assert pair.remembered == 2
    assert last.text == answered(FakePair(FakeModel(mixing(1))), replace(request, drafting=None))[1].text
    assert (last.stats.mode, last.stats.drafter) == ("auto", "model+ngram")
    assert {event.stats.drafter for event in first if isinstance(event, Step)} == {"model+ngram"}
    assert last.drafting is not None


def test_the_native_time_of_both_models_is_counted() -> None:
    _, last = answered(new_pair(), question("abc", 9, DraftParams(3, 0, 0.0)))
    # A batch of a fake takes a microsecond, and each step has one batch of the target.
    assert last.stats.native_ns > 1000 * last.stats.verify_steps > 0


def test_an_estimate_that_forbids_drafts_is_made_again() -> None:
    pair = new_pair()
    pair.memory = wrong = PairStatistics.estimated(CostProfile({1: 1.0, 64: 64.0}, draft_ns=1.0))
    request = question("abc", 20, AutoDraft())
    answered(pair, request)
    assert pair.memory is wrong
    assert wrong.idle_answers == 1
    answered(pair, request)
    assert pair.memory is not wrong


def test_a_first_answer_of_few_tokens_learns_nothing() -> None:
    pair = new_pair()
    _, last = answered(pair, question("abc", 1, AutoDraft()))
    assert (last.stats.mode, last.stats.draft_n, pair.memory, pair.remembered) == ("auto", 0, None, 0)


@pytest.mark.parametrize(
    ("can_draft", "drafting", "why"),
    [
        (False, AutoDraft(), "the state of this model cannot be rolled back"),
        (True, AutoDraft(lookup=False), "there is no draft model, and n-gram drafting is off"),
        (True, DraftParams(), "there is no draft model"),
    ],
)
def test_without_a_draft_source_nothing_is_measured_and_the_reason_is_shown(
    can_draft: bool, drafting: Drafting, why: str
) -> None:
    pair = FakePair(FakeModel(mixing(1)), can_draft=can_draft)
    seen, last = answered(pair, question("abc", 9, drafting))

    assert not any(isinstance(event, Measuring) for event in seen)
    assert (last.stats.mode, last.stats.draft_n, pair.memory) == ("off", 0, None)
    assert (last.drafting, last.why_undrafted) == (DraftingStatus("off", why), why)


def test_n_min_above_the_rollback_limit_drafts_nothing() -> None:
    pair = new_pair(most_drafted=7)
    _, last = answered(pair, question("abc", 9, DraftParams(9, 8, 0.0)))

    assert last.drafting is not None
    assert last.drafting.reason == "no draft can reach n_min 8, for at most 7 tokens can be rolled back"
    assert pair.drafter is not None
    assert len(pair.drafter.cache) == 0
    assert pair.info.why_no_draft(DraftParams(9, 7, 0.0)) is None
    assert pair.info.sources(DraftParams(9, 7, 0.0)) == ("model",)
    assert pair.info.sources(AutoDraft()) == ("model", "ngram")
