"""Measure the overhead of automatic drafting per step, on recorded texts and without a model.

python -m tests.bench.rounds

The unit is the time of a fixed piece of Python work, so that runs on a busy machine can be compared. Microseconds are
printed too. The hash in the last line changes if any drafting decision changes.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.draft_source import DraftSource
from app.engine.interfaces import AnswerStart, Cancelled, StepResult, Strategy
from app.engine.ngram import NgramIndex
from app.engine.types import Draft
from tests.recordings import Trace, curves, texts, traces
from tests.replay import chain, replay

_LENGTH = 300
_REPEATS = 7


def unit_us() -> float:
    """Return the microseconds of a fixed piece of work, mostly calls and floats as in a step."""
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter_ns()
        total = 0.0
        for n in range(1, 2000):
            total += max(total / n, float(n))
        best = min(best, time.perf_counter_ns() - started)
    return best / 20_000


class Timed(Strategy):
    """A strategy with its time measured."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.steps: list[int] = []
        self._ns = 0

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        return self._strategy.begin(start, cancelled)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        started = time.perf_counter_ns()
        draft = self._strategy.propose(sequence, limit)
        self._ns = time.perf_counter_ns() - started
        return draft

    def observe(self, result: StepResult) -> None:
        started = time.perf_counter_ns()
        self._strategy.observe(result)
        _ = self._strategy.status
        self.steps.append(self._ns + time.perf_counter_ns() - started)


def main() -> None:
    """Print a line per kind of text."""
    digest = hashlib.sha256()
    curve = curves()["cpu_q4_0"]
    words = random.Random(3)
    fresh = [words.randrange(10_000, 60_000) for _ in range(2 * _LENGTH)]
    common = [int(words.paretovariate(0.6)) % 3000 for _ in range(16 * _LENGTH)]
    table = [n for _ in range(40) for n in (1, 2, 3, words.randrange(100), 4, 5, words.randrange(100), 6, 7, 8)]
    kinds: dict[str, tuple[list[Trace], bool]] = {
        "fresh words": ([_text(fresh[:_LENGTH], fresh[_LENGTH:])], False),
        "common words": ([_text(common[: 15 * _LENGTH], common[15 * _LENGTH :])], False),
        "a table": ([_text(table[: len(table) // 2], table[len(table) // 2 :])], False),
        "recorded": ([_text(prompt, text) for prompt, text in texts()], False),
        "with a model": (list(traces()), True),
    }
    for name, (recorded, with_model) in kinds.items():
        runs, units = [], []
        for n in range(_REPEATS):
            runs.append(_run(recorded, curve, with_model, digest if n == 0 else None))
            units.append(unit_us())
        # Every run has the same steps; the fastest has the least noise.
        fastest = [min(times) / 1e3 for times in zip(*runs, strict=True)]
        mean = statistics.mean(fastest)
        print(
            f"{name:14} median {statistics.median(fastest):6.1f} us, mean {mean:6.1f} us, "
            f"{mean / min(units):6.2f} units per step"
        )
    print(f"decisions {digest.hexdigest()[:16]}")


def _text(prompt: Sequence[int], text: Sequence[int]) -> Trace:
    return Trace("", "", tuple(prompt), tuple(text), (0,) * len(text), ((),) * len(text))


def _run(recorded: Sequence[Trace], curve: CostProfile, with_model: bool, digest: hashlib._Hash | None) -> list[int]:
    steps: list[int] = []
    learned = PairStatistics(CostModel(deepcopy(curve)))
    for trace in recorded:
        made: list[Timed] = []

        def make(drafter: DraftSource, clock: Callable[[], int], made: list[Timed] = made) -> Timed:
            model = drafter if with_model else None
            made.append(Timed(AutomaticDrafting(learned, chain(model, NgramIndex()), clock)))
            return made[-1]

        played = replay(trace, curve, make)
        steps += made[0].steps
        if digest is not None:
            digest.update(repr([(r.draft.tokens, r.work_ns) for r in played.steps]).encode())
    return steps


if __name__ == "__main__":
    main()
