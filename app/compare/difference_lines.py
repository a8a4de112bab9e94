"""Where two answers part, in words that need no knowledge of how models are computed."""

from __future__ import annotations

import json

from app.compare.difference import Difference
from app.compare.race import Run

_MOST_DECIMALS = 4
_SPACE = "·"


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
    """Which token each side chose, how probable the model found it against the other one, and why they differ."""
    d = difference
    plain, drafted = _token(d.plain_text, d.plain), _token(d.drafted_text, d.drafted)
    alone = batched = ""
    if d.p_alone is not None and d.p_batched is not None:
        decimals = max(_decimals(d.p_alone), _decimals(d.p_batched))
        alone = f" ({d.p_alone[0]:.{decimals}%} against {d.p_alone[1]:.{decimals}%})"
        batched = f" ({d.p_batched[1]:.{decimals}%} against {d.p_batched[0]:.{decimals}%})"
    return [f"differs from token {d.index + 1} on: {plain} without drafts{alone}, {drafted} with{batched}", d.why]


def _decimals(both: tuple[float, float]) -> int:
    """So many that tell two probabilities apart, if a few do."""
    few = (n for n in range(1, _MOST_DECIMALS) if f"{both[0]:.{n}%}" != f"{both[1]:.{n}%}")
    return next(few, _MOST_DECIMALS)


def _token(text: str, token: int | None) -> str:
    if token is None:
        return "the end"
    # The space that most tokens begin with is seen, and no line is broken there.
    return json.dumps(text, ensure_ascii=False).replace(" ", _SPACE) if text else f"control token {token}"
