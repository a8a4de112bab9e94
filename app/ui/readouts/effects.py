"""What drafting has brought since the pair was loaded, apart for every way of drafting. Only what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from app.events import AnswerPlan, Finished
from app.ui.text import percent

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
    """Tokens of answers with a known speed-up, and what they would have been at the speed of one token a step."""
    plain: float = 0.0


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
        if event.drafting is not None and event.drafting.speedup is not None:
            total.spent += stats.answer_ns
            total.plain += stats.answer_ns * event.drafting.speedup

    def lines(self) -> list[str]:
        """A line for each way, the quickest first; none before anything was measured."""
        ways = sorted(self._sums.items(), key=lambda item: -item[1].tokens / item[1].ns)
        return [f"{way}: {_figures(total)}" for way, total in ways]


def _way(plan: AnswerPlan) -> str:
    if plan.draft_params is not None:
        params = plan.draft_params
        return f"fixed, n_max {params.n_max}, n_min {params.n_min}, p_min {params.p_min:g}"
    return {"auto": "automatic", "off": "plain"}.get(plan.mode, plan.mode)


def _figures(total: _Sum) -> str:
    parts = [f"{total.tokens * 1e9 / total.ns:.1f} t/s"]
    if total.spent:
        parts.append(f"{total.plain / total.spent:.1f}x plain decoding")
    if total.drafted:
        parts.append(f"accepted {percent(total.accepted / total.drafted)}")
    parts.append(f"{total.answers} answer{'s' if total.answers != 1 else ''}")
    return ", ".join(parts)
