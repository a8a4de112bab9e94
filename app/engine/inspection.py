"""What the target thought in one round, for somebody who looks; nothing here runs for anybody else."""

from __future__ import annotations

from app.engine.cache import TokenCache
from app.engine.probability import probability_of
from app.engine.types import Inspection, Step


def inspect_round(target: TokenCache, step: Step) -> Inspection:
    """Read the probabilities of a round that was just chosen.

    Args:
        target: Whose logits of the round are still there: nothing was evaluated or rolled back since.
        step: What came of the round.
    """
    draft, at = step.draft, step.n_accepted
    mismatch = at < len(draft) and at < len(step.tokens)
    return Inspection(
        chosen=tuple(probability_of(target.logits(row), token) for row, token in enumerate(step.tokens)),
        declined=probability_of(target.logits(at), draft.tokens[at]) if mismatch else None,
    )
