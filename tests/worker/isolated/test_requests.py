"""The account of what a child was asked for, without a child."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.models.pair_info import ModelInfo, PairInfo
from app.worker.engine_worker import CancelSwitch, Progress
from app.worker.events import Failed, Loaded, LoadProgress, Notice, PairChanged, Step
from app.worker.isolated.protocol import Answer, Load, RunJob
from app.worker.isolated.requests import PendingRequest, RequestQueue
from app.worker.request import LoadedPair
from tests.worker.isolated.fake_process import FakeJob, FakeLook
from tests.worker.isolated.harness import question

LOADED = Loaded(PairInfo(ModelInfo("a", "a.gguf", "Q4", 1, 1), None, 8, "CPU"))
SHORTER = Loaded(replace(LOADED.pair, n_ctx=4))
SLOW = Notice("It takes its time.")


@dataclass(frozen=True, slots=True)
class NamedLoader:
    name: str

    def __call__(self, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        raise AssertionError(self.name)


PAIR = NamedLoader("a")


@pytest.fixture
def turns() -> list[int]:
    """The numbers of the requests that the child came to; 0 when nothing was left."""
    return []


@pytest.fixture
def requests(turns: list[int]) -> RequestQueue:
    return RequestQueue(lambda request: turns.append(request.number if request is not None else 0))


def numbers(told: object) -> list[tuple[int, bool]]:
    assert isinstance(told, list)
    assert all(isinstance(request, PendingRequest) for request in told)
    return [(request.number, request.is_reload) for request in told]


def test_one_comes_after_another(requests: RequestQueue, turns: list[int]) -> None:
    requests.add(Load(PAIR))
    requests.add(Answer(question()))
    assert requests.activity == "loading the models"
    requests.follow(LoadProgress("target", 0.5))
    assert requests.activity == "loading the target model"

    assert requests.follow(LOADED) == LOADED
    assert (requests.loader, requests.activity) == (PAIR, "reading the prompt")
    requests.follow(Step(2, (), GenerationStats()))
    assert requests.activity == "writing the answer"
    failed = Failed(2, AppError("It went wrong."))
    assert requests.follow(failed) == failed
    assert turns == [1, 2, 0]


def test_a_pair_that_was_lost_is_loaded_again_and_nobody_hears_of_it(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(SLOW)
    requests.follow(LOADED)
    requests.clear()

    assert numbers(requests.add(Answer(question()))) == [(2, True), (3, False)]
    assert requests.follow(SLOW) is None
    assert requests.follow(LOADED) is None
    assert requests.follow(SLOW) == SLOW


def test_but_of_what_is_another_pair_then(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    requests.clear()
    requests.add(Answer(question()))

    assert requests.follow(SLOW) == SLOW
    assert requests.follow(SHORTER) == PairChanged(SHORTER.pair)
    assert numbers([requests.current]) == [(3, False)]


def test_a_pair_that_has_changed_by_itself_is_the_end_of_nothing(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    requests.add(Load(PAIR))
    changed = PairChanged(SHORTER.pair)

    assert requests.follow(changed) == changed
    assert requests.loader is PAIR
    assert numbers([requests.current]) == [(2, False)]
    requests.follow(SHORTER)
    requests.clear()
    requests.add(Answer(question()))
    assert requests.follow(SHORTER) is None


def test_a_pair_that_cannot_be_loaded_again_fails_all_that_waits_for_it(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    requests.clear()
    requests.add(Answer(question()))
    error = AppError("It is gone.")

    requests.add(RunJob(FakeJob()))
    requests.add(Answer(question()))
    requests.add(Load(PAIR))
    requests.add(Answer(question()))

    # Of itself the child only knows that it has none.
    assert requests.follow(Failed(None, error)) is None
    none = AppError("There is no pair.")
    assert [requests.follow(Failed(number, none)) for number in (3, 4, 5)] == [
        Failed(number, error) for number in (3, 4, 5)
    ]
    assert requests.follow(LOADED) == LOADED
    assert requests.follow(Failed(7, none)) == Failed(7, none)


def test_why_a_pair_could_not_be_loaded_again_is_not_said_of_a_new_child(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    requests.clear()
    requests.add(Answer(question()))
    requests.follow(Failed(None, AppError("It is gone.")))
    left = requests.unsettled()
    requests.clear()

    assert numbers(requests.reissue(left)) == [(2, True), (3, False)]
    requests.follow(LOADED)
    failed = Failed(3, AppError("It went wrong."))
    assert requests.follow(failed) == failed


def test_nothing_is_loaded_again_only_for_a_look(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    requests.clear()
    looks = requests.add(RunJob(FakeLook()))
    assert numbers(looks) == [(2, False)]
    left = requests.unsettled()
    requests.clear()

    assert numbers(requests.reissue(left)) == [(2, False)]
    assert numbers(requests.add(Answer(question()))) == [(3, True), (4, False)]


def test_what_was_stopped_is_not_asked_of_a_new_child(requests: RequestQueue) -> None:
    requests.add(Load(PAIR))
    requests.follow(LOADED)
    for _ in range(2):
        requests.add(Answer(question()))
    assert requests.current is not None
    requests.current.is_settled = True
    assert requests.is_stuck
    assert requests.follow(Step(2, (), GenerationStats())) is None
    left = requests.unsettled()
    requests.clear()

    # The reload takes a number that nobody waits for any more.
    assert numbers(requests.reissue(left)) == [(2, True), (3, False)]
    assert not requests.is_stuck
