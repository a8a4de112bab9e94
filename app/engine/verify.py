"""Acceptance: the rule that makes drafting lossless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.engine.types import Draft, FinishReason, Origin

Observe = Callable[[int, Origin], FinishReason | None]
"""Called with each emitted token in order; a returned reason ends the answer with it."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of verifying a draft.

    Attributes:
        tokens: The emitted tokens: the accepted ones, then the target's own unless the answer ended before it.
        n_accepted: Accepted tokens of the draft.
        finish: Why the answer ended here, if it did.
    """

    tokens: tuple[int, ...]
    n_accepted: int
    finish: FinishReason | None


def verify(draft: Draft, sample: Callable[[int], int], observe: Observe) -> Verification:
    """Sample the target at each position while it agrees with the draft.

    Row i holds the target's logits after the i-th drafted token (row 0: after the last token before the draft).
    Only rows that are reached are sampled, so a stateful sampler sees exactly the tokens that it would see
    without drafts, and the emitted tokens have exactly the target's distribution whatever was drafted. The rule is
    llama.cpp's (`common_sampler_sample_and_accept_n`).
    """
    tokens: list[int] = []
    n_accepted = 0
    for row in range(len(draft) + 1):
        token = sample(row)
        matches = row < len(draft) and token == draft.tokens[row]
        n_accepted += matches
        tokens.append(token)
        finish = observe(token, draft.origin(row) if matches else Origin.TARGET)
        if finish is not None:
            return Verification(tuple(tokens), n_accepted, finish)
        if not matches:
            break
    return Verification(tuple(tokens), n_accepted, None)
