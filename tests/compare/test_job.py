"""A comparison as a job: caches, seeds, differences, stops and failures."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.compare import AUTOMATIC, PLAIN
from app.compare.job import EXPLAINING, CompareJob, conversation_prefix
from app.compare.race import WARM_UP, RunBegan, RunEnded, Side, sides_of
from app.compare.report import Comparison
from app.conversations.message import Message, Role
from app.core.errors import ContextOverflowError, UsageError
from app.engine.events import Step
from app.engine.interfaces import Controls
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.worker.events import Event, Finished, JobEnded, JobProgressed, Measuring
from app.worker.request import AnswerRequest, with_seed
from tests.compare.test_difference import Rounding
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.worker.harness import WorkerHarness, finished

MESSAGES = (Message(Role.USER, "abc"), Message(Role.ASSISTANT, "def"))
N_BEFORE = len("abcdef")
REQUEST = AnswerRequest((*MESSAGES, Message(Role.USER, "ghi")), SamplingParams(temperature=0), max_tokens=12)
FIXED = DraftParams(3, 0, 0.0)
TWO = sides_of(AutoDraft(), None)
THREE = sides_of(AutoDraft(), FIXED)


@pytest.fixture
def pair() -> FakePair:
    return FakePair(FakeModel(mixing(4)), FakeModel(mixing(4)))


def job(sides: tuple[Side, ...] = TWO, rounds: int = 1, request: AnswerRequest = REQUEST) -> CompareJob:
    return CompareJob(request, sides, rounds)


def run(work: CompareJob, pair: FakePair, cancelled: Callable[[], bool] = lambda: False) -> list[Event]:
    return list(work.run(pair, 7, Controls(cancelled)))


def result(events: list[Event]) -> Comparison:
    ended = events[-1]
    assert isinstance(ended, JobEnded)
    assert isinstance(ended.result, Comparison)
    return ended.result


def turns(events: list[Event]) -> list[tuple[int, str]]:
    news = [e.what for e in events if isinstance(e, JobProgressed)]
    return [(what.round, what.side) for what in news if isinstance(what, RunBegan)]


def test_each_side_runs_alone_in_alternating_order(pair: FakePair) -> None:
    events = run(job(THREE, rounds=2), pair)

    names = [PLAIN, "fixed 3/0", AUTOMATIC]
    assert turns(events) == [
        *((WARM_UP, name) for name in names),
        *((1, name) for name in names),
        *((2, name) for name in reversed(names)),
    ]
    open_: str | None = None
    for event in events:
        match event:
            case JobProgressed(what=RunBegan(side=side)):
                assert open_ is None
                open_ = side
            case JobProgressed(what=RunEnded(run=ended)):
                assert ended.contender == open_
                open_ = None
            case Step() | Measuring():
                assert open_ is not None, "whose it is must be known"
    assert {e.request for e in events if not isinstance(e, JobEnded)} == {7}  # type: ignore[union-attr]


def test_a_continued_comparison_keeps_alternating_without_a_warm_up(pair: FakePair) -> None:
    events = run(replace(job(rounds=2), first=2, explains=False), pair)

    assert turns(events) == [(2, AUTOMATIC), (2, PLAIN), (3, PLAIN), (3, AUTOMATIC)]
    assert result(events).differences == {}


def test_the_conversation_is_read_once_for_all_sides(pair: FakePair) -> None:
    rounds = result(run(job(THREE, rounds=2), pair)).rounds

    stats = [one.stats for round_ in rounds for one in round_.values()]
    assert {(s.cache_n, s.prompt_n) for s in stats} == {(N_BEFORE, 3)}
    prompt = pair.prompts.build(REQUEST.messages).tokens
    draft = pair.drafter.cache._model if pair.drafter is not None else None
    assert isinstance(draft, FakeModel)
    # The draft reads all but the last prompt token before its first draft.
    read = [batch for batch in draft.batches if batch[:2] == prompt[N_BEFORE : N_BEFORE + 2]]
    # Three runs with fixed drafts; automatic drafting may not draft, depending on the measured costs of these fakes.
    assert 3 <= len(read) <= 6, "no one may find what another run's draft model has read"
    # Measuring empties the caches in the warm-up; otherwise nothing before the prompt is read twice.
    target = pair._model
    assert len([batch for batch in target.batches if batch == prompt[:N_BEFORE]]) <= 2


@pytest.mark.parametrize("last", ["abc", ""])
def test_the_prefix_ends_where_the_last_message_begins(pair: FakePair, last: str) -> None:
    messages = (*MESSAGES, Message(Role.USER, last))
    expected = pair.prompts.build(MESSAGES).tokens
    assert conversation_prefix(pair, AnswerRequest(messages)) == expected[: N_BEFORE if last else N_BEFORE - 1]


def test_every_side_has_the_same_seed(pair: FakePair) -> None:
    sampled = with_seed(SamplingParams(temperature=1.0))
    run(job(rounds=2, request=replace(REQUEST, sampling=sampled)), pair)

    assert sampled.seed is not None
    assert {sampler.seed for sampler in pair.samplers} == {sampled.seed}
    assert with_seed(replace(sampled, seed=3)).seed == 3
    assert with_seed(SamplingParams(temperature=0)).seed is None


def test_a_difference_is_explained_from_the_start_that_the_runs_had() -> None:
    target = Rounding(mixing(4), gap=0.001, moves=0.002, after=N_BEFORE + 3 + 5)
    pair = FakePair(target, FakeModel(mixing(4)))
    events = run(job((Side(PLAIN, None), THREE[1])), pair)

    found = result(events).differences["fixed 3/0"]
    assert found is not None
    assert found.index == 5
    assert found.near_tie is True
    assert JobProgressed(7, EXPLAINING) in events


def test_a_stop_in_the_middle_keeps_whole_rounds(pair: FakePair) -> None:
    work = job(rounds=9).run(pair, 7, Controls(lambda: stopped))
    stopped, events = False, []
    for event in work:
        events.append(event)
        if isinstance(event, Step) and turns(events)[-1] == (2, PLAIN):
            stopped = True
    raced = result(events)
    assert raced.stopped
    assert len(raced.rounds) == 1
    assert raced.differences == {}


def test_a_stop_while_the_conversation_is_read() -> None:
    pair = FakePair(FakeModel(mixing(4), n_batch=2), FakeModel(mixing(4), n_batch=2))
    events = run(job(), pair, lambda: len(pair._model.batches) == 2)
    assert result(events).rounds == ()
    assert len(pair.target) == 4


def test_a_pair_that_lacks_what_a_side_needs() -> None:
    with pytest.raises(UsageError, match="need a draft model"):
        run(job(THREE), FakePair(FakeModel(mixing(4))))
    stateful = FakePair(FakeModel(mixing(4)), can_draft=False)
    with pytest.raises(UsageError, match="cannot be rolled back"):
        run(job(), stateful)


def test_a_prompt_that_does_not_fit_shows_so() -> None:
    with pytest.raises(ContextOverflowError):
        run(job(), FakePair(FakeModel(mixing(4), n_ctx=8)))


def test_job_and_events_are_values(pair: FakePair) -> None:
    work = job(THREE)
    assert pickle.loads(pickle.dumps(work)) == work
    for event in run(work, pair):
        copy = pickle.loads(pickle.dumps(event))
        assert type(copy) is type(event)
        assert copy == event


def test_the_worker_runs_it_and_the_chat_continues_with_its_cache() -> None:
    letters = mixing(4, n_vocab=27)
    pair = FakePair(FakeModel(letters), FakeModel(letters))
    here = WorkerHarness()
    here.load(pair)
    here.worker.answer(replace(REQUEST, drafting=AutoDraft()))
    number = here.worker.run(job())
    seen = here.until(JobEnded)
    text = next(e.text for e in seen if isinstance(e, Finished))
    following = (*REQUEST.messages, Message(Role.ASSISTANT, text), Message(Role.USER, "jkl"))
    here.worker.answer(replace(REQUEST, messages=following))
    last = finished(here.until(Finished)[-1])

    assert isinstance(seen[-1], JobEnded)
    assert seen[-1].request == number
    held = N_BEFORE + len("ghi") + len(text) - 1
    assert last.stats.cache_n >= held, "the same answer need not be read again"
    assert here.worker.close(30)
