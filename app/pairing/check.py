"""Can these two models ride together? Told in plain words, from their headers."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.tuning.curve import MAX_ROWS
from app.engine.vocab import incompatibility
from app.pairing.cells import DEFAULT_CONTEXT, longest_trained, round_up
from app.pairing.facts import ModelFacts
from app.pairing.snapshots import N_SNAPSHOTS
from app.pairing.taken import Taken, taken
from app.working import Working

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

    def context(self, n_ctx: int) -> int:
        """The context that both get where so many tokens are asked for."""
        return min(round_up(n_ctx), longest_trained(self.target.n_ctx_train))

    def memory_bytes(self, n_ctx: int) -> int:
        """Bytes that both take together, with a context of `n_ctx` tokens each."""
        return sum(one.total for one in self.taken(n_ctx))

    def taken(self, n_ctx: int) -> tuple[Taken, ...]:
        """What each of the models takes, loaded as it is unless the settings say otherwise."""
        if self.draft is None:
            return (taken(self.target, n_ctx, n_outputs=MAX_ROWS),)
        return taken(self.target, n_ctx, n_outputs=MAX_ROWS, n_snapshots=N_SNAPSHOTS), taken(self.draft, n_ctx)

    @property
    def working(self) -> Working:
        """What both take besides their weights; exact for the usual context, and for longer ones all but so."""
        near, far = self.taken(DEFAULT_CONTEXT), self.taken(2 * DEFAULT_CONTEXT)
        growing = sum(one.kv + one.buffers for one in far) - sum(one.kv + one.buffers for one in near)
        per_token = growing // DEFAULT_CONTEXT
        fixed = sum(one.kv + one.buffers for one in near) - per_token * DEFAULT_CONTEXT
        return Working(per_token, fixed, sum(one.main for one in near))


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
