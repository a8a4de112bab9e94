"""Where two answers part, in words that need no knowledge of how models are computed."""

from __future__ import annotations

import json

from app.compare.difference import Difference
from app.compare.race import Run

_MOST_DECIMALS = 4


def difference_lines(difference: Difference | None, run: Run) -> list[str]:
    """Whether an answer is that of plain decoding, and if not, where and why.

    Args:
        difference: What `app.compare.difference.explain` found.
        run: The answer with drafts.
    """
    if difference is not None:
        return parting_lines(difference)
    n = len(run.tokens)
    return [f"the same {n} token{'s' if n != 1 else ''} as without drafts"]


def parting_lines(difference: Difference) -> list[str]:
    """Which token each side chose, how probable the model found both, and why they are not the same."""
    d = difference
    plain, drafted = _token(d.plain_text, d.plain), _token(d.drafted_text, d.drafted)
    lines = [f"differs from token {d.index + 1} on: {plain} without drafts, {drafted} with drafts"]
    if d.p_alone is not None and d.p_batched is not None:
        (a, b), (c, e) = _shares(d.p_alone), _shares(d.p_batched)
        lines.append(f"probability of {plain} and {drafted}: {a} and {b} without drafts, {c} and {e} with drafts")
    return [*lines, d.why]


def _shares(both: tuple[float, float]) -> tuple[str, str]:
    """Two probabilities with the decimals that tell them apart, if a few do."""
    for decimals in range(1, _MOST_DECIMALS):
        first, second = (f"{p:.{decimals}%}" for p in both)
        if first != second:
            return first, second
    return f"{both[0]:.{_MOST_DECIMALS}%}", f"{both[1]:.{_MOST_DECIMALS}%}"


def _token(text: str, token: int | None) -> str:
    if token is None:
        return "the end"
    return json.dumps(text, ensure_ascii=False) if text else f"control token {token}"
