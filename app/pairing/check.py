"""Can these two models ride together? Told in plain words, from their headers."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.vocab import incompatibility
from app.pairing.facts import ModelFacts
from app.pairing.snapshots import N_SNAPSHOTS

_WORTHWHILE = 0.5
"""A draft of more than this share of its target's size can hardly pay."""


@dataclass(frozen=True, slots=True)
class PairCheck:
    """What was found out about two models.

    Attributes:
        target: The model that answers.
        draft: The model that runs ahead, or None.
        problems: Why they cannot ride together; empty if they can.
        warnings: What the user should know besides.
    """

    target: ModelFacts
    draft: ModelFacts | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...]

    def memory_bytes(self, n_ctx: int) -> int:
        """Bytes that both want together, with a context of `n_ctx` tokens each."""
        if self.draft is None:
            return self.target.memory_bytes(n_ctx)
        return self.target.memory_bytes(n_ctx, N_SNAPSHOTS) + self.draft.memory_bytes(n_ctx)


def check_pair(target: ModelFacts, draft: ModelFacts | None) -> PairCheck:
    """Hold two models against each other."""
    problems, warnings = [], []
    if not target.vocab.tokens:
        problems.append(f"{target.name} has no vocabulary: it is not a model that can chat.")
    if not target.has_chat_template:
        warnings.append(f"{target.name} has no chat template: it may be a base model, which does not chat.")
    if draft is not None and not problems:
        if not target.can_be_drafted_for or not draft.can_rollback:
            which = draft if target.can_be_drafted_for else target
            problems.append(f"{which.name} keeps a running state that cannot be taken back after a rejected draft.")
        elif reason := incompatibility(target.vocab, draft.vocab):
            problems.append(reason)
        if draft.weight_bytes > _WORTHWHILE * target.weight_bytes:
            share = draft.weight_bytes / max(1, target.weight_bytes)
            warnings.append(f"The draft is {share:.0%} of its target's size; drafting with it can hardly gain.")
        if 0 < draft.n_ctx_train < target.n_ctx_train:
            warnings.append(
                f"The draft was trained for {draft.n_ctx_train:,} tokens of context, the target for "
                f"{target.n_ctx_train:,}; beyond that its drafts get worse."
            )
    return PairCheck(target, draft, tuple(problems), tuple(warnings))
