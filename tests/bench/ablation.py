"""Measure what each guard of automatic drafting is worth, by replay of the recorded traces.

python -m tests.bench.ablation [--only NAME ...]

Each guard is switched off alone. Every recorded answer is replayed on every recorded machine, with one set of
statistics for all answers on a machine, in seven conditions: quiet; with noise and bursts of other work; after a
measurement that took large batches as too expensive, or as too cheap; with a draft model that is confident and
wrong; with one long document before every prompt; and after earlier answers in which drafts saved nothing.

Columns: the mean change in time without the guard (positive: the guard saves time), and the growth of the loss of the
worst 2% of answers, as a share of their time with no draft. Single answers mean little, because one changed decision
changes all later ones. A guard stays if it is worth 0.5% in the mean of a condition or prevents a loss above 2%.

The replayed draft model forgets a document after each answer, so "same document" seems worthless. With one that keeps
it, this guard was worth 3.4% after answers in which drafts saved nothing.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from unittest.mock import patch

from app.engine.auto import acceptance, answer_speed, backlog, rule, strategy
from app.engine.auto.acceptance import RunLength
from app.engine.auto.answer_speed import AnswerSpeed
from app.engine.auto.backlog import Backlog
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger, Trial
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Clock, Strategy
from app.engine.ngram import NgramIndex
from app.engine.types import MAX_DRAFT
from tests.recordings import Trace, baseline_cost, curves, other_traces, texts, traces
from tests.replay import chain, replay

WORTH, LOSS = 0.005, 0.02
_WORST_SHARE = 0.02
_TOKENS = 96

Patch = tuple[object, str, object]


def _true(*_: object, **__: object) -> bool:
    return True


def _false(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


GUARDS: dict[str, list[Patch]] = {
    "impossibility": [(strategy, "impossibility", lambda *_: "")],
    "trial": [(Trial, "allows_step", _true), (Trial, "observe_step", _nothing)],
    "ledger": [(Ledger, "allows_any", True), (Ledger, "allows_model", True)],
    "ledger: refill": [(Ledger, "REFILL", 5.0)],
    "ledger: wealth": [(Ledger, "wealth", float("inf"))],
    "stalls": [(answer_speed, "_STALL_FACTOR", float("inf"))],
    "draft length limit": [(acceptance, "_FIRST_LIMIT", MAX_DRAFT)],
    "expected advantage": [(strategy, "_EXPECTED_SHARE", 0.0)],
    "survival in this answer": [(RunLength, "survival", 0.85)],
    "backlog: worth reading": [(Backlog, "is_worth_reading", True)],
    "backlog: little is read": [(backlog, "_ALWAYS_READ_TOKENS", 1e9)],
    "same document": [(backlog, "_SAME_TEXT", 2.0)],
    "curve: speed shift": [(CostModel, "_speed_shift", lambda *_: 0.0)],
    "curve: faster speed": [(CostModel, "_accept_faster_speed", _nothing)],
    "rule: look ahead": [(rule, "LOOK_AHEAD", 1)],
    "recent speed as price": [(AnswerSpeed, "rate", lambda self, single_ns: 1.0 / single_ns)],
}


@dataclass(frozen=True)
class Condition:
    """A difference from a replay on the recorded machine.

    Attributes:
        distort: Changes the true costs into measured costs.
        disturb: Makes the function that `replay` takes as `disturb`.
        change: Changes the recorded answer.
        gain: Share of time that drafts have saved before; None for no earlier answers.
    """

    distort: Callable[[CostProfile], CostProfile] = lambda profile: profile
    disturb: Callable[[random.Random], Callable[[], float]] = lambda _: lambda: 1.0
    change: Callable[[Trace], Trace] = lambda trace: trace
    gain: float | None = None


def _busy(rng: random.Random) -> Callable[[], float]:
    left, factor = 0, 1.0

    def disturb() -> float:
        nonlocal left, factor
        left -= 1
        if left < 0:
            left, factor = (rng.randint(4, 30), rng.uniform(1.5, 4.0)) if rng.random() < 0.02 else (0, 1.0)
        return factor * rng.lognormvariate(0.0, 0.08)

    return disturb


def _scaled(factor: float) -> Callable[[CostProfile], CostProfile]:
    """Multiply the cost of further and of drafted tokens."""

    def distort(profile: CostProfile) -> CostProfile:
        single = profile.batch_ns[1]
        batch_ns = {size: single + factor * (ns - single) for size, ns in profile.batch_ns.items()}
        return replace(profile, batch_ns=batch_ns, draft_ns=factor * profile.draft_ns)

    return distort


def _overconfident(trace: Trace) -> Trace:
    """Make the draft model confident, and wrong in two of three places."""
    sure = tuple(tuple(max(q, 0.96) for q in probabilities) for probabilities in trace.confidences)
    return replace(trace, matches=tuple(min(m, n % 3 == 0) for n, m in enumerate(trace.matches)), confidences=sure)


def _about_document(trace: Trace) -> Trace:
    """Put the same long document in front of every prompt."""
    return replace(trace, prompt=(*range(10_000, 13_000), *trace.prompt))


CONDITIONS = {
    "quiet": Condition(),
    "busy": Condition(disturb=_busy),
    "too expensive": Condition(distort=_scaled(2.0)),
    "too cheap": Condition(distort=_scaled(0.5)),
    "overconfident": Condition(change=_overconfident),
    "long document": Condition(change=_about_document),
    "unlucky before": Condition(change=_about_document, gain=0.0),
}


def answers() -> list[tuple[Trace, bool]]:
    """Return every recorded answer, and whether it was recorded with a draft model."""
    with_model = [(_cut(trace), True) for trace in (*traces(), *other_traces())]
    alone = [(Trace("", "", p, t[:_TOKENS], (0,) * len(t), ((),) * len(t)), False) for p, t in texts()]
    return with_model + alone


def _cut(trace: Trace) -> Trace:
    if len(trace.text) <= _TOKENS:
        return trace
    return replace(
        trace,
        text=trace.text[:_TOKENS],
        matches=trace.matches[: _TOKENS - 1],
        confidences=trace.confidences[: _TOKENS - 1],
        has_end=False,
    )


def times(
    recorded: list[tuple[Trace, bool]], machine: CostProfile, condition: Condition
) -> Iterator[tuple[float, float]]:
    """Yield the cost of each answer and its cost with no draft."""
    statistics_of = {
        with_model: PairStatistics(CostModel(condition.distort(deepcopy(machine))), gain=condition.gain)
        for with_model in (True, False)
    }
    for number, (original, with_model) in enumerate(recorded):
        rng = random.Random(number)
        trace = condition.change(original)
        learned = statistics_of[with_model]

        def make(
            drafter: DraftSource, clock: Clock, learned: PairStatistics = learned, model: bool = with_model
        ) -> Strategy:
            return AutomaticDrafting(learned, chain(drafter if model else None, NgramIndex()), clock)

        yield replay(trace, machine, make, condition.disturb(rng)).cost, baseline_cost(trace, machine)


def measure(name: str) -> list[tuple[float, float]]:
    """Return cost and cost with no draft of every answer under one condition."""
    recorded = answers()
    return [pair for machine in curves().values() for pair in times(recorded, machine, CONDITIONS[name])]


@contextmanager
def without(patches: list[Patch]) -> Iterator[None]:
    """Replace the parts of a guard."""
    with ExitStack() as stack:
        for owner, name, value in patches:
            stack.enter_context(patch.object(owner, name, value))
        yield


def main() -> None:
    """Print a line per guard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(GUARDS))
    parser.add_argument("--conditions", nargs="+", default=list(CONDITIONS))
    args = parser.parse_args()
    base: dict[str, list[tuple[float, float]]] = {name: measure(name) for name in args.conditions}
    heads = " ".join(f"{name:>21}" for name in args.conditions)
    print(f"{'guard':30} {heads}   verdict")
    base_line = " ".join(f"{_speedup(found):>10.3f} {_worst(found):+9.1%} " for found in base.values())
    print(f"{'(all guards: speedup, worst)':30} {base_line}")
    for guard_name in args.only:
        columns, keep = [], False
        for name, before in base.items():
            with without(GUARDS[guard_name]):
                after = measure(name)
            worth = statistics.mean(off / on - 1 for (off, _), (on, _) in zip(after, before, strict=True))
            loss = _worst(after) - _worst(before)
            columns.append(f"{worth:+10.2%} {loss:+9.1%} ")
            keep |= worth >= WORTH or loss >= LOSS
        print(f"{guard_name:30} {' '.join(columns)}  {'keep' if keep else 'remove'}", flush=True)


def _speedup(found: list[tuple[float, float]]) -> float:
    return sum(baseline / on for on, baseline in found) / len(found)


def _worst(found: list[tuple[float, float]]) -> float:
    """Return the mean loss of the worst answers, as a share of their time with no draft."""
    losses = sorted((on / baseline - 1 for on, baseline in found), reverse=True)
    return statistics.mean(losses[: max(1, round(_WORST_SHARE * len(losses)))])


if __name__ == "__main__":
    main()
