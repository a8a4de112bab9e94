"""How long a context becomes: llama.cpp makes its cells by the block."""

from __future__ import annotations

from app.settings.table import MAX_CONTEXT

DEFAULT_CONTEXT = 8192
"""Tokens, unless asked otherwise or the model was trained for fewer."""
CELLS = 256
"""llama.cpp rounds the cells of a KV cache up to a multiple of it."""


def round_up(n_ctx: int) -> int:
    """The cells of a KV cache for so many tokens."""
    return -(-n_ctx // CELLS) * CELLS


def longest_trained(n_ctx_train: int) -> int:
    """The longest context for a model that was trained for so many tokens; 0 where its file does not say."""
    return round_up(min(n_ctx_train or DEFAULT_CONTEXT, MAX_CONTEXT))


def rounding(n_ctx: int) -> str:
    """A sentence about a context that becomes longer than was asked for; "" for one that does not."""
    if n_ctx == round_up(n_ctx):
        return ""
    return f"A context comes in steps of {CELLS} tokens: {n_ctx:,} were asked for, {round_up(n_ctx):,} are used."
