"""Read the target's probabilities of one step, for the inspector."""

from __future__ import annotations

from app.engine.cache import TokenCache
from app.engine.probability import probability_of
from app.engine.types import Inspection, Step


def inspect_step(target: TokenCache, step: Step) -> Inspection:
    """Read the probabilities of the last step, before anything else is evaluated or rolled back."""
    draft, at = step.draft, step.n_accepted
    mismatch = at < len(draft) and at < len(step.tokens)
    return Inspection(
        chosen=tuple(probability_of(target.logits(row), token) for row, token in enumerate(step.tokens)),
        declined=probability_of(target.logits(at), draft.tokens[at]) if mismatch else None,
    )
