"""Measure, store and show the fastest number of threads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.cli.tune import thread_lines
from app.core.errors import Interrupted
from app.engine.auto.threads import ThreadTimes, measure_threads
from app.engine.cache import TokenCache
from app.engine.types import Threads
from app.llama import stored_measurements
from tests.fakes import FakeModel, always, to_end


class Machine(FakeModel):
    """A model with scripted times per number of threads; some batches are slow."""

    def __init__(self, single: Mapping[int, int], prompt: Mapping[int, int], slow: Sequence[int] = ()) -> None:
        super().__init__(always(3), n_ctx=4096, n_batch=512)
        self.now, self.threads = 0, 0
        self.used: list[int] = []
        self.longest = 0
        self._single, self._prompt, self._slow = single, prompt, slow

    def use(self, n: int) -> None:
        self.threads = n
        self.used.append(n)

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        super().decode(tokens, n_outputs)
        self.longest = max(self.longest, self.n_past)
        costs = self._single if len(tokens) == 1 else self._prompt
        self.now += len(tokens) * costs[self.threads] * (10 if len(self.batches) in self._slow else 1)


def measured(machine: Machine, candidates: Sequence[int]) -> tuple[ThreadTimes, list[float]]:
    cache = TokenCache(machine)
    found = to_end(measure_threads(cache, [5] * 200, machine.use, candidates, lambda: machine.now))
    assert len(cache) == 0
    return found


# Measuring


@pytest.mark.parametrize(
    ("single", "prompt", "slow", "best"),
    [
        pytest.param({4: 120, 8: 100, 16: 150}, {4: 40, 8: 22, 16: 12}, (), Threads(8, 16), id="separate numbers"),
        # All batches with 8 threads in the first round are slow.
        pytest.param({4: 120, 8: 100}, {4: 40, 8: 22}, range(6, 11), Threads(8, 8), id="one slow moment"),
        pytest.param({2: 102, 8: 100}, {2: 110, 8: 100}, (), Threads(2, 8), id="fewer if more gain nothing"),
    ],
)
def test_the_fastest_numbers_are_found(
    single: dict[int, int], prompt: dict[int, int], slow: Sequence[int], best: Threads
) -> None:
    machine = Machine(single, prompt, slow)
    times, shares = measured(machine, tuple(single))

    assert times.best == best
    assert (times.generation, times.prompt) == (single, prompt)
    assert machine.used[: 2 * len(single)] == [*single] * 2, "the candidates take turns"
    assert shares[-1] == 1
    assert shares == sorted(shares)


@pytest.mark.parametrize(("single_ns", "n_prompt"), [(100, 40), (500_000_000, 32)], ids=["fast", "slow"])
def test_single_tokens_follow_each_other_and_prompts_start_empty(single_ns: int, n_prompt: int) -> None:
    machine, text = Machine({2: single_ns}, {2: 10}), list(range(40))

    list(measure_threads(TokenCache(machine), text, machine.use, (2,), lambda: machine.now))

    singles = [(token,) for token in range(5)]
    assert machine.batches == [*singles, *singles, *singles, *[tuple(text[:n_prompt])] * 3]
    assert machine.longest == n_prompt


def test_the_measurement_can_be_cancelled() -> None:
    machine = Machine({1: 1}, {1: 1})
    work = measure_threads(TokenCache(machine), [5] * 64, machine.use, (1,), lambda: 0, cancelled=lambda: True)

    with pytest.raises(Interrupted):
        next(work)


# Storage


def test_measured_threads_are_stored_and_loaded(tmp_path: Path) -> None:
    file = tmp_path / "threads" / "a.json"
    stored_measurements.save_threads(file, ThreadTimes({4: 120.0, 8: 100.0}, {4: 40.0, 8: 60.0}))

    assert stored_measurements.load_threads(file) == Threads(8, 4)
    assert json.loads(file.read_text())["generation_ns"] == {"4": 120.0, "8": 100.0}
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "threads": {"generation": 0, "prompt": 1}}',
        '{"format": 1, "threads": {"generation": true, "prompt": 1}}',
        '{"format": 1, "threads": {"generation": 4}}',
        '{"format": 2, "threads": {"generation": 4, "prompt": 4}}',
    ],
)
def test_an_invalid_file_is_not_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)

    assert stored_measurements.load_threads(tmp_path / "a.json") is None
    assert stored_measurements.load_threads(tmp_path / "none.json") is None


def test_the_table_marks_the_best() -> None:
    disturbed = ThreadTimes({1: 12.2e6}, {1: 6.1e6}, is_disturbed=True)
    assert thread_lines(disturbed)[-1] == "Other programs were busy: these threads are used now and not stored."
    assert thread_lines(ThreadTimes({1: 12.2e6, 2: 15.4e6}, {1: 6.1e6, 2: 3e6})) == [
        "threads   answer     prompt",
        "      1    1.00× ←    2.03×",
        "      2    1.26×      1.00× ←",
    ]
