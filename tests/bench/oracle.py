"""The least time in which the drafts of a race could have served, on the machine as the races showed it.

What automatic drafting believes of the machine has no say here: a batch size that it wrongly avoids would be avoided
by it and by its own bound alike. The curve is that of all contenders' rounds, and what drafting costs is timed at every
answer again, all in plain steps.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.compare.upper_bound import Curve, Trace, oracle_cost, plain_cost
from app.conversations.message import Message, Role
from app.engine.cache import TokenCache
from app.engine.interfaces import Logits
from app.engine.probability import most_probable
from app.llama.pair import NativePair
from tests.bench.fixed import Ours
from tests.bench.record import record_all
from tests.bench.steady import Race, widths_of

ORACLES = ("oracle", "reading oracle")
_DEPTH = 16
_LOOKS = 8
_DRAFTED = 4
"""Drafted tokens between two plain steps, about as in an answer."""
_FEWEST = 3
"""Rounds of a width that tell what it costs: among many widths seen once the cheapest is luck."""


@dataclass(frozen=True, slots=True)
class Followed:
    """An answer, and what the draft model would have said of it.

    Attributes:
        prompt: Name of what was asked.
        trace: The answer at every place.
        draft: What a drafted token takes, in plain steps.
        reading: What the draft model's reading of the prompt takes, in plain steps.
    """

    prompt: str
    trace: Trace
    draft: float
    reading: float


def follow(ours: Ours, name: str, prompt: str, n_tokens: int) -> Followed:
    """Answer once more, plainly, and let the draft model follow; without one, n-gram drafts are all there is."""
    if ours.pair.drafter is None:
        tokens = tuple(ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens)
        ours.run(prompt, None, n_tokens)
        text = tuple(ours.pair.target.tokens[len(tokens) :])
        return Followed(name, Trace("", "", tokens, text, (0,) * len(text), ((),) * len(text)), 0.0, 0.0)
    trace = record_all(ours.pair, "", "", prompt, n_tokens, _DEPTH)
    plain_ns, draft_ns = _steps_ns(ours.pair, trace)
    return Followed(name, trace, draft_ns / plain_ns, reading_ns(ours, trace.prompt) / plain_ns)


def reading_ns(ours: Ours, prompt: Sequence[int]) -> int:
    """What the draft model takes to read a prompt, which it forgets again."""
    assert ours.pair.drafter is not None
    cache = ours.pair.drafter.cache
    cache.rollback(0)
    spent = _spent(lambda: [*cache.process(prompt, lambda: False)])
    cache.rollback(0)
    return spent


def oracles(followed: Iterable[Followed], races: Sequence[Race]) -> dict[str, dict[str, float]]:
    """By prompt and oracle: that of no draft time over the oracle's.

    The second oracle pays for its draft model's reading of the prompt, where that is worth it. A width that no one, or
    hardly anybody, tried costs what those around it tell.

    Args:
        followed: Several of one prompt count with the median of their ratios.
        races: The machine.
    """
    rounds = Counter(step.rows for race in races for steps in race.steps.values() for step in steps)
    rows = {width: cost for width, cost in widths_of(races).items() if width == 1 or rounds[width] >= _FEWEST}
    ratios: dict[str, list[tuple[float, float]]] = {}
    for one in followed:
        curve = Curve("raced", rows, one.draft)
        trace, blind = one.trace, replace(one.trace, matches=(0,) * len(one.trace.matches))
        plain, best = plain_cost(trace, curve), oracle_cost(trace, curve, lookup=True)
        reading = min(oracle_cost(blind, curve, lookup=True), best + one.reading)
        ratios.setdefault(one.prompt, []).append((plain / best, plain / reading))
    return {
        prompt: dict(zip(ORACLES, map(statistics.median, zip(*several, strict=True)), strict=True))
        for prompt, several in ratios.items()
    }


def _steps_ns(pair: NativePair, trace: Trace) -> tuple[float, float]:
    """A plain step and a drafted token, in the median, taken by turns behind the prompt."""
    assert pair.drafter is not None
    target, draft = pair.target, pair.drafter.cache
    for cache in (target, draft):
        cache.reuse([*trace.prompt, 0])
        for _ in cache.process(trace.prompt[len(cache) :], lambda: False):
            pass
    plain: list[int] = []
    drafted: list[int] = []
    for place, token in enumerate(trace.text[: _LOOKS * _DRAFTED]):
        if place % _DRAFTED == 0:
            plain.append(_spent(partial(_logits_behind, target, token)))
        drafted.append(_spent(partial(_draft_behind, draft, token)))
    return statistics.median(plain), statistics.median(drafted)


def _logits_behind(cache: TokenCache, token: int) -> Logits:
    cache.evaluate((token,), 1)
    return cache.logits(0)


def _draft_behind(cache: TokenCache, token: int) -> int:
    return most_probable(_logits_behind(cache, token))[0]


def _spent(work: Callable[[], object]) -> int:
    started = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - started
