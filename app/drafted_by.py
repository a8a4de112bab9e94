"""Who wrote the drafts of an answer, in words, what they brought, and why nobody did."""

from __future__ import annotations


def drafted_by(model_share: float) -> str:
    """The sources whose drafts were submitted.

    Args:
        model_share: Drafted tokens of a draft model over all drafted ones.
    """
    if model_share <= 0:
        return "look-up"
    return "draft model" if model_share >= 1 else "draft model and look-up"


def gain(speedup: float, verdict: str) -> str:
    """A speed-up as it is shown, such as "1.7x", with a digit more where it would contradict its verdict."""
    ratio = f"{speedup:.1f}x"
    return f"{speedup:.2f}x" if ratio == "1.0x" and verdict in ("winning", "losing") else ratio


def nothing_fixed(n_max: int, n_min: int, p_min: float) -> str:
    """Why fixed drafting submitted nothing in a whole answer, as a clause that names the setting; "" if none is why."""
    if n_max == 0:
        return "n_max is 0"
    if p_min <= 0 and n_min <= 1:
        return ""
    sure = f"sure enough for p_min {p_min:g}"
    return f"the draft model was never {sure}" + (f" for as many tokens as n_min {n_min}" if n_min > 1 else "")
