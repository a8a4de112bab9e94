"""Change threads of a loaded model, and use measured thread counts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.cli.options import read_pair
from app.engine.auto.threads import ThreadTimes
from app.engine.types import Threads
from app.llama.library import native
from app.llama.stored_measurements import cpu_model, thread_file
from app.settings.model_params import ModelParams
from app.worker import loading
from tests.llama.conftest import NewContext, OpenPair
from tests.llama.params import pair_params

pytestmark = pytest.mark.native


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the thread counts that llama.cpp receives."""
    seen: list[tuple[int, int]] = []
    real = native.llama_set_n_threads

    def tell(handle: Any, n: int, n_batch: int) -> None:
        seen.append((n, n_batch))
        real(handle, n, n_batch)

    monkeypatch.setattr(native, "llama_set_n_threads", tell)
    return seen


def test_prompts_have_threads_of_their_own(new_context: NewContext, told: list[tuple[int, int]]) -> None:
    context = new_context(512)
    context.use_threads(Threads(1, 2))
    assert native.llama_n_threads(context._handle) == 1
    told.clear()

    context.decode([1] * 100, 0)
    context.decode([1], 1)
    # A verified draft is a batch for llama.cpp, and short.
    context.decode([1] * 5, 5)
    context.decode([1] * 100, 0)

    assert told == [(1, 2), (1, 1), (1, 2)]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Other programs, idle unless `is_much` is set, with a scripted measurement of threads."""

    def measure(cache: Any, text: Any, use: Any, candidates: Any, clock: Any, *, cancelled: Any) -> Any:
        yield 1.0
        return ThreadTimes({1: 10.0, 2: 5.0}, {1: 3.0, 2: 4.0})

    others = SimpleNamespace(is_much=False)
    monkeypatch.setattr("app.llama.pair.measure_threads", measure)
    monkeypatch.setattr("app.llama.pair.OthersUse", lambda: others)
    return others


@pytest.mark.usefixtures("busy")
def test_the_fastest_thread_count_is_used_and_saved(
    open_pair: OpenPair,
    tmp_path: Path,
    demo_target: Path,
    demo_draft: Path,
    told: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    params = pair_params(demo_target, demo_draft, 1, n_ctx=256, memory_dir=tmp_path)
    pair = open_pair(params)
    list(pair.measure_threads((1, 2), lambda: False))

    # Target and draft
    assert told == [(2, 2), (2, 2)]
    monkeypatch.setattr(loading, "thread_candidates", lambda: (1, 2))
    found = loading.placed_here(params, lambda params: params)
    assert found.threads == Threads(2, 1)
    # Another machine has other numbers to choose from.
    monkeypatch.setattr(loading, "thread_candidates", lambda: (1, 2, 4))
    assert loading.placed_here(params, lambda params: params) is params


def test_threads_measured_beside_busy_programs_are_not_saved(
    open_pair: OpenPair, tmp_path: Path, demo_target: Path, busy: SimpleNamespace
) -> None:
    busy.is_much = True
    pair = open_pair(pair_params(demo_target, None, 1, n_ctx=256, memory_dir=tmp_path))
    steps = pair.measure_threads((1, 2), lambda: False)
    next(steps)
    with pytest.raises(StopIteration) as ended:
        next(steps)

    assert ended.value.value.is_disturbed
    assert not list(tmp_path.rglob("threads/*"))


def test_threads_yield_to_other_programs(
    open_pair: OpenPair,
    demo_target: Path,
    demo_draft: Path,
    told: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds, busy = [0.0], [0.0]
    monkeypatch.setattr("app.llama.cpu_threads.usable_processors", lambda: frozenset(range(4)))
    monkeypatch.setattr("app.llama.cpu_threads.others_seconds", lambda: busy[0])
    monkeypatch.setattr("app.llama.cpu_threads.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    params = pair_params(demo_target, demo_draft, 4, n_ctx=256)
    pair = open_pair(params)
    in_use = []
    for others in (0.0, 2.0, 0.0):
        seconds[0] += 1.0
        busy[0] += others
        pair.threads.yield_cpu()
        in_use.append(pair.threads.in_use)

    assert in_use == [4, 3, 4]
    # Target and draft
    assert told == [(3, 3), (3, 3), (4, 4), (4, 4)]


def test_a_given_thread_count_stays(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "thread_candidates", lambda: pytest.fail("it was looked up"))

    assert loading.measured_params(read_pair({"target": str(demo_target), "threads": 1})).threads == Threads(1, 1)


def test_the_model_that_the_cpu_computes_is_measured(demo_target: Path, demo_draft: Path) -> None:
    both = pair_params(demo_target, demo_draft, 1)
    card = ModelParams(devices=("CUDA0",))
    apart = pair_params(demo_target, demo_draft, 1, model=card)
    in_part = pair_params(demo_target, None, 1, model=ModelParams(n_gpu_layers=3, devices=("CUDA0",)))

    assert cpu_model(both) == demo_target
    assert cpu_model(apart) == demo_draft
    assert cpu_model(in_part) == demo_target
    assert cpu_model(pair_params(demo_target, None, 1, model=card)) is None
    assert thread_file(both, (1, 2)) is None
