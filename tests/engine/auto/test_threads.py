"""Measure, store and show the fastest number of threads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.cli.tune import thread_lines
from app.core.errors import Interrupted
from app.engine.auto.threads import Threads, ThreadTimes, measure_threads
from app.engine.cache import TokenCache
from app.llama import stored_measurements
from tests.fakes import FakeModel, always


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
    cache, shares = TokenCache(machine), []
    work = measure_threads(cache, [5] * 200, machine.use, candidates, lambda: machine.now)
    while True:
        try:
            shares.append(next(work))
        except StopIteration as done:
            assert len(cache) == 0
            return done.value, shares


# Measuring


def test_single_tokens_and_prompts_have_separate_best_numbers() -> None:
    machine = Machine({4: 120, 8: 100, 16: 150}, {4: 40, 8: 22, 16: 12})

    times, shares = measured(machine, (4, 8, 16))

    assert times.best == Threads(generation=8, prompt=16)
    assert (times.generation[4], times.prompt[16]) == (120, 12)
    assert shares[-1] == 1
    assert shares == sorted(shares)


def test_single_tokens_follow_each_other_and_prompts_start_empty() -> None:
    machine, text = Machine({2: 100}, {2: 10}), list(range(40))

    for _ in measure_threads(TokenCache(machine), text, machine.use, (2,), lambda: machine.now):
        pass

    singles = [(token,) for token in range(5)]
    assert machine.batches == [*singles, *singles, *singles, *[tuple(text)] * 3]
    assert machine.longest == len(text)


def test_one_slow_moment_does_not_decide() -> None:
    # All batches with 8 threads in the first round are slow.
    times, _ = measured(Machine({4: 120, 8: 100}, {4: 40, 8: 22}, slow=range(6, 11)), (4, 8))

    assert times.best == Threads(8, 8)


def test_fewer_threads_are_chosen_if_more_gain_nothing() -> None:
    times, _ = measured(Machine({2: 102, 8: 100}, {2: 110, 8: 100}), (2, 8))

    assert times.best == Threads(generation=2, prompt=8)


def test_the_candidates_take_turns() -> None:
    machine = Machine({1: 9, 2: 9}, {1: 9, 2: 9})
    measured(machine, (1, 2))

    assert machine.used[:4] == [1, 2, 1, 2]


def test_a_slow_machine_reads_a_shorter_prompt() -> None:
    machine = Machine({1: 500_000_000}, {1: 1})
    measured(machine, (1,))

    assert {len(batch) for batch in machine.batches} == {1, 32}


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
