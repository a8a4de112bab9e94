"""Choose the number of CPU threads: measure the fastest, and use fewer while other programs need the CPU.

Single tokens wait for memory, so more threads only wait for each other. Prompts are limited by arithmetic and use all
threads. The threads of a batch wait for each other after every operation. A thread that shares its core with another
program is half as fast, and all others spin until it arrives. Measured on two busy cores: two threads take 1.8 to 4.2
times as long as one, depending on the batch size.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from app.core.errors import Interrupted
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock
from app.engine.types import Threads

_TIMING_ROUNDS = 3
_STEPS_PER_ROUND = 4
_LONGEST_PROMPT_NS = 2_000_000_000
"""The prompt is cut to a length that single tokens would read in this time; a batch takes a fraction of it."""
_SHORTEST_PROMPT = 32
_TIE_FACTOR = 1.03
"""Fewer threads are chosen if they are at most this much slower than the best; that leaves CPUs to other programs."""
SAMPLE_S = 0.25
"""Interval between samples. System counters advance by 0.01 s; a longer interval reacts too late to a short load."""
_STALE_S, _GLANCE_S = 5.0, 0.05
"""An average over more seconds says little about the present, so a short sample replaces it."""
_IGNORED_CPUS = 0.45
"""CPUs that other programs may use before a thread yields. A program that could use a whole CPU gets half of it beside
a thread of the model."""
_CONTENDED_CPUS = 0.1
"""CPUs used by other programs above which batches are timed in CPU time; see `WorkClock`."""
log = logging.getLogger("tandem.threads")
log.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Measured nanoseconds by the number of threads: of a single token, and per prompt token.

    `is_disturbed` if other programs used the CPUs, so that fewer threads may look faster.
    """

    generation: Mapping[int, float]
    prompt: Mapping[int, float]
    is_disturbed: bool = False

    @property
    def best(self) -> Threads:
        return Threads(_fewest(self.generation), _fewest(self.prompt))


def measure_threads(
    cache: TokenCache,
    text: Sequence[int],
    use: Callable[[int], None],
    candidates: Sequence[int],
    clock: Clock,
    *,
    cancelled: Cancelled = lambda: False,
) -> Generator[float, None, ThreadTimes]:
    """Time single tokens and a prompt with each number of threads, which `use` sets; yield the completed share.

    The candidates take turns, so that a slow moment of the machine affects all of them, and the shortest time counts.
    The cache is left empty. `text` is real text of at least 32 tokens. Raises `Interrupted` if canceled.
    """
    generation: dict[int, float] = {}
    prompt: dict[int, float] = {}
    turns = [*candidates] * _TIMING_ROUNDS
    total = 2 * len(turns)

    def timed(tokens: Sequence[int]) -> float:
        if cancelled():
            raise Interrupted
        before = clock()
        cache.evaluate(tokens, 1)
        cache.logits(0)
        return (clock() - before) / len(tokens)

    for done, n in enumerate(turns, start=1):
        use(n)
        cache.rollback(0)
        # The first run includes starting the threads.
        timed(text[:1])
        times = [timed(text[i : i + 1]) for i in range(1, _STEPS_PER_ROUND + 1)]
        generation[n] = min(generation.get(n, math.inf), *times)
        yield done / total
    length = int(_LONGEST_PROMPT_NS / min(generation.values()))
    sample = text[: max(_SHORTEST_PROMPT, length)]
    for done, n in enumerate(turns, start=len(turns) + 1):
        use(n)
        cache.rollback(0)
        prompt[n] = min(prompt.get(n, math.inf), timed(sample))
        yield done / total
    cache.rollback(0)
    return ThreadTimes(generation, prompt)


def _fewest(times: Mapping[int, float]) -> int:
    limit = _TIE_FACTOR * min(times.values())
    return min(n for n, ns in times.items() if ns <= limit)


class CpuYield:
    """Adapts the number of threads to other programs, from `least` to `n_threads` on an idle machine.

    This process may use `n_cpus` CPUs; `others` returns the CPU seconds of other programs so far. `apply` is called
    with the number of threads when it changes.
    """

    def __init__(
        self,
        apply: Callable[[int], None],
        n_threads: int,
        n_cpus: int,
        others: Callable[[], float],
        clock: Callable[[], float],
        *,
        least: int = 1,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._apply = apply
        self._most = n_threads
        self._least = least
        self._n_cpus = n_cpus
        self._others = others
        self._clock = clock
        self.n_threads = n_threads
        self._pause = pause
        self._busy, self._is_fresh, self._was_stale = 0.0, False, False
        self._sampled_at, self._last_others = clock(), others()

    def is_contended(self) -> bool:
        """Return whether other programs slow the computation down; sample again if the last sample is old."""
        self._sample()
        return self._busy > _CONTENDED_CPUS or self.n_threads < self._most

    def _sample(self) -> None:
        now = self._clock()
        elapsed = now - self._sampled_at
        if elapsed < SAMPLE_S:
            return
        self._was_stale = elapsed > _STALE_S
        if self._was_stale:
            self._sampled_at, self._last_others = now, self._others()
            self._pause(_GLANCE_S)
            now = self._clock()
        others = self._others()
        self._is_fresh = True
        self._busy = (others - self._last_others) / (now - self._sampled_at)
        self._sampled_at, self._last_others = now, others

    def update(self) -> None:
        """Adapt the number of threads to the last sample; fast enough for every step."""
        self._sample()
        if not self._is_fresh:
            return
        self._is_fresh = False
        best = max(self._least, min(self._most, self._n_cpus - math.ceil(max(0.0, self._busy - _IGNORED_CPUS))))
        # Move by half the difference, so that two programs that yield do not oscillate.
        step = best - self.n_threads
        half = int(math.copysign(math.ceil(abs(step) / 2), step))
        chosen = best if self._was_stale else self.n_threads + half
        if chosen != self.n_threads:
            log.info("other programs take %.1f of %d CPUs: %d threads", self._busy, self._n_cpus, chosen)
            self.n_threads = chosen
            self._apply(chosen)


class WorkClock:
    """Counts wall time while the machine is idle, and CPU time per thread while other programs compete.

    A thread that waits for a CPU spends wall time but no CPU time. Measured on two busy cores with two threads:
    single-token steps took 0.2 to 1.8 s of wall time. `cpu` counts all threads of this process together; `n_threads`
    is their number on an idle machine.
    """

    def __init__(self, wall: Clock, cpu: Clock, n_threads: int, is_contended: Callable[[], bool]) -> None:
        self._wall = wall
        self._cpu = cpu
        self._n_threads = n_threads
        self._is_contended = is_contended
        self._worked = 0
        self._at = wall(), cpu()

    def __call__(self) -> int:
        wall, cpu = self._wall(), self._cpu()
        elapsed, computed = wall - self._at[0], cpu - self._at[1]
        self._worked += min(elapsed, computed // self._n_threads) if self._is_contended() else elapsed
        self._at = wall, cpu
        return self._worked
