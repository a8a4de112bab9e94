"""Who wrote the drafts of an answer, in words."""

from __future__ import annotations


def drafted_by(model_share: float) -> str:
    """The sources whose drafts were submitted.

    Args:
        model_share: Drafted tokens of a draft model over all drafted ones.
    """
    if model_share <= 0:
        return "look-up"
    return "draft model" if model_share >= 1 else "draft model and look-up"
