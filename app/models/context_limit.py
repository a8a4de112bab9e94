"""Limit of a loaded pair's context, and the length that a text needs."""

from __future__ import annotations

from dataclasses import dataclass

from app.models.memory_estimate import DEFAULT_CONTEXT, longest_trained, round_up
from app.models.pair_info import PairInfo

_STEP = 1024
_LEAST_ROOM = 1024
"""Tokens for an answer."""
_SHARE_OF_ROOM = 4
"""A quarter of the prompt is added for the answer and the next prompts."""


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """The longest context.

    Attributes:
        n_ctx: Tokens.
        reason: Why not more, as a clause.
    """

    n_ctx: int
    reason: str


def context_limit(pair: PairInfo) -> ContextLimit:
    """Return the longest context of a pair by its training context and by memory."""
    target = pair.target
    trained = max(pair.n_ctx, longest_trained(target.n_ctx_train))
    if 0 < pair.n_ctx_room < trained:
        # The loaded context fits, whatever the estimate says.
        room = max(pair.n_ctx, pair.n_ctx_room)
        return ContextLimit(room, f"memory had room for {room:,} tokens at the last loading")
    if not target.n_ctx_train:
        return ContextLimit(trained, f"the file of {target.name} does not say for what context it was trained")
    return ContextLimit(trained, f"{target.name} was trained for {target.n_ctx_train:,} tokens")


def meant(pair: PairInfo, n_ctx: int | None) -> int:
    """Return the context that the pair gets for `n_ctx` tokens, or by default (None)."""
    asked = round_up(n_ctx if n_ctx is not None else DEFAULT_CONTEXT)
    return min(asked, longest_trained(pair.target.n_ctx_train))


def enough_for(pair: PairInfo, n_tokens: int) -> int:
    """Return a context for so many tokens and an answer; 0 if the limit is too short."""
    limit = context_limit(pair).n_ctx
    return min(limit, rounded_up(n_tokens)) if n_tokens < limit else 0


def rounded_up(n_tokens: int) -> int:
    """Return a round context length for so many tokens and an answer."""
    return -(-(n_tokens + max(_LEAST_ROOM, n_tokens // _SHARE_OF_ROOM)) // _STEP) * _STEP


def remark(pair: PairInfo, n_ctx: int) -> str:
    """Return a note about a context of `n_ctx` tokens before the models are loaded with it; "" without one."""
    limit, trained = context_limit(pair), longest_trained(pair.target.n_ctx_train)
    asked = meant(pair, n_ctx)
    if asked > limit.n_ctx:
        return f"{_capital(limit.reason)}; more may not be loaded."
    if round_up(n_ctx) > trained:
        # A model name keeps its spelling.
        why = limit.reason if pair.target.n_ctx_train else _capital(limit.reason)
        return f"{why}; {trained:,} are used."
    draft = pair.draft
    if draft is not None and 0 < draft.n_ctx_train < asked:
        return f"The draft was trained for {draft.n_ctx_train:,} tokens; beyond them its drafts get worse."
    return ""


def here(pair: PairInfo) -> str:
    """Return the current and the longest context in a sentence."""
    limit = context_limit(pair)
    most = f"at most {limit.n_ctx:,}" if limit.n_ctx > pair.n_ctx else "and no more"
    return f"Now {pair.n_ctx:,}, {most} here: {limit.reason}."


def _capital(clause: str) -> str:
    return clause[0].upper() + clause[1:]
