"""Measure the fastest number of threads, for single tokens and for prompts.

Single tokens wait for memory, so further threads only wait for each other; prompts compute, and use all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from app.core.errors import Interrupted
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Clock

_ROUNDS = 3
_STEPS = 4
_LONGEST_PROMPT_NS = 2_000_000_000
"""A prompt is cut so that reading it one by one would take no longer; in one batch it takes a fraction of that."""
_SHORTEST_PROMPT = 32
_TIE = 1.03
"""Within so much of the best, fewer threads are taken: they leave the machine to others."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Numbers of threads, for batches as short as a draft and for prompts."""

    generation: int
    prompt: int


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Measured times.

    Attributes:
        generation: Nanoseconds of one token, by the number of threads.
        prompt: Nanoseconds of one token of a prompt, the same.
    """

    generation: Mapping[int, float]
    prompt: Mapping[int, float]

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
    """Time single tokens and a prompt with each number of threads.

    The candidates take turns, so that a slow moment of the machine meets all of them, and the least time counts. The
    cache is left empty.

    Args:
        cache: Of the model that the processor computes.
        text: A prompt of real text, at least 32 tokens.
        use: Sets the number of threads.
        candidates: The numbers to try.
        clock: Monotonic nanoseconds.
        cancelled: Stops between two batches.

    Yields:
        The share that is done.

    Raises:
        Interrupted: Cancelled.
    """
    generation: dict[int, float] = {}
    prompt: dict[int, float] = {}
    total = 2 * _ROUNDS * len(candidates)

    def timed(tokens: Sequence[int]) -> float:
        if cancelled():
            raise Interrupted
        before = clock()
        cache.evaluate(tokens, 1)
        cache.logits(0)
        return (clock() - before) / len(tokens)

    done = 0
    for _ in range(_ROUNDS):
        for n in candidates:
            use(n)
            cache.rollback(0)
            # The first one pays for starting the threads.
            timed(text[:1])
            times = [timed(text[i : i + 1]) for i in range(1, _STEPS + 1)]
            generation[n] = min(generation.get(n, math.inf), *times)
            done += 1
            yield done / total
    length = int(_LONGEST_PROMPT_NS / min(generation.values()))
    sample = text[: max(_SHORTEST_PROMPT, length)]
    for _ in range(_ROUNDS):
        for n in candidates:
            use(n)
            cache.rollback(0)
            took = timed(sample)
            prompt[n] = min(prompt.get(n, math.inf), took)
            done += 1
            yield done / total
    cache.rollback(0)
    return ThreadTimes(generation, prompt)


def _fewest(times: Mapping[int, float]) -> int:
    limit = _TIE * min(times.values())
    return min(n for n, ns in times.items() if ns <= limit)
