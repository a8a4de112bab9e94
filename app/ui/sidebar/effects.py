"""What drafting has brought since the pair was loaded, apart for every way of drafting. Only what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.drafting_report import NO_DRAFT, Speedup, accepted, rate, speedup_of
from app.worker.events import AnswerPlan, Finished

_FEWEST = 16
"""Tokens of an answer that says anything about speed."""


@dataclass(slots=True)
class _Sum:
    answers: int = 0
    tokens: int = 0
    """After the first ones, which the prompts gave, and what they took."""
    ns: int = 0
    drafted: int = 0
    accepted: int = 0
    spent: float = 0.0
    """Nanoseconds of answers with a known speedup."""
    without: float = 0.0
    """Estimated nanoseconds of the same answers without drafts."""
    measured: bool = True
    """Whether all of those speedups were measured."""


class Effects:
    """Sums over answers."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sum] = {}

    def observe(self, event: Finished) -> None:
        """An answer has ended."""
        stats = event.stats
        if stats.predicted_n < _FEWEST or stats.answer_ns <= 0:
            return
        total = self._sums.setdefault(_way(event.plan), _Sum())
        total.answers += 1
        total.tokens += stats.predicted_n - 1
        total.ns += stats.answer_ns
        total.drafted += stats.draft_n
        total.accepted += stats.draft_n_accepted
        if (gain := speedup_of(stats, event.drafting)) is not None:
            total.spent += stats.answer_ns
            total.without += stats.answer_ns * gain.ratio
            total.measured &= gain.measured

    def lines(self) -> list[str]:
        """A line for each way, the quickest first; none before anything was measured."""
        ways = sorted(self._sums.items(), key=lambda item: -item[1].tokens / item[1].ns)
        return [f"{way}: {_figures(total)}" for way, total in ways]


def _way(plan: AnswerPlan) -> str:
    if plan.draft_params is not None:
        params = plan.draft_params
        return f"fixed, n_max {params.n_max}, n_min {params.n_min}, p_min {params.p_min:g}"
    return {"auto": "automatic", "off": NO_DRAFT}.get(plan.mode, plan.mode)


def _figures(total: _Sum) -> str:
    parts = [rate(total.tokens * 1e9 / total.ns)]
    if total.spent:
        parts.append(str(Speedup(total.without / total.spent, total.measured)))
    if total.drafted:
        parts.append(accepted(total.accepted, total.drafted))
    parts.append(f"{total.answers} answer{'s' if total.answers != 1 else ''}")
    return ", ".join(parts)
