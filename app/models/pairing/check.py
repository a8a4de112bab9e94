"""Can these two models ride together? Told in plain words, from their headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.engine.auto.curve import MAX_ROWS
from app.engine.vocab import incompatibility
from app.models.pairing.cells import DEFAULT_CONTEXT, longest_trained, round_up
from app.models.pairing.facts import ModelFacts
from app.models.pairing.snapshots import N_SNAPSHOTS
from app.models.pairing.taken import Taken, taken
from app.models.pairing.way_out import WayOut
from app.models.working_memory import Working

KEEPS_STATE = "it keeps a running state that cannot be taken back after a rejected draft"
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
        way_out: What helps against the problems; None where there are none.
    """

    target: ModelFacts
    draft: ModelFacts | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    way_out: WayOut | None = None

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
    problem, way_out = check_target(target, drafted=draft is not None)
    if draft is not None and way_out is None:
        problem, way_out = _check_draft(target, draft)
    return PairCheck(target, draft, (problem,) if problem else (), tuple(_warnings(target, draft)), way_out)


def check_target(target: ModelFacts, *, drafted: bool) -> tuple[str, WayOut | None]:
    """Why a model cannot be a target, and what helps; "" and None if it can.

    Args:
        target: The model.
        drafted: Whether a draft model is to run ahead of it.
    """
    if not target.vocab.tokens:
        return f"{target.name} has no vocabulary: it is not a model that can chat.", WayOut.OTHER_TARGET
    if drafted and not target.can_be_drafted_for:
        return f"No draft model can run ahead of {target.name}: {KEEPS_STATE}.", WayOut.NO_DRAFT
    return "", None


def _check_draft(target: ModelFacts, draft: ModelFacts) -> tuple[str, WayOut | None]:
    if not draft.can_rollback:
        return f"{draft.name} cannot run ahead: {KEEPS_STATE}.", WayOut.OTHER_DRAFT
    if reason := incompatibility(target.vocab, draft.vocab):
        return reason, WayOut.OTHER_DRAFT
    return "", None


def _warnings(target: ModelFacts, draft: ModelFacts | None) -> Iterator[str]:
    if not target.has_chat_template:
        yield f"{target.name} has no chat template: it may be a base model, which does not chat."
    if draft is None:
        return
    if draft.weight_bytes > _WORTHWHILE * target.weight_bytes:
        share = draft.weight_bytes / max(1, target.weight_bytes)
        yield f"The draft is {share:.0%} of its target's size; drafting with it can hardly gain."
    if 0 < draft.n_ctx_train < target.n_ctx_train:
        yield (
            f"The draft was trained for {draft.n_ctx_train:,} tokens of context, the target for "
            f"{target.n_ctx_train:,}; beyond that its drafts get worse."
        )
