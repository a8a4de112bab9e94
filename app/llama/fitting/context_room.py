"""The longest context that memory has room for, beside everything else that a pair takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.llama.fitting.needs import needs
from app.models.memory_estimate import CELLS, ModelMemory, longest_trained
from app.models.source import ModelSource

if TYPE_CHECKING:
    from app.llama.fitting.weighing import Fitting

_Needs = tuple[ModelMemory, ModelMemory | None]


def context_room(found: Fitting, sources: Sequence[ModelSource | None]) -> int:
    """The longest context that fits, up to what the target was trained for, tokens.

    The headers' arithmetic is done for two lengths. Between them the cache grows by a straight line and the buffers by
    less, so what is told may be a little short, and fits.

    Args:
        found: A pair that fits, with its context as it was asked for.
        sources: Where target and draft come from.

    Raises:
        ModelFileError: A file is missing or no model.
    """
    shortest, longest = found.target.n_ctx, longest_trained(found.target.n_ctx_train)
    # As if all of the buffers grew too: where even that fits, the headers need not be read once more.
    if shortest >= longest or found.holds(*_each(_all_grown, (found.target, found.draft), longest)):
        return max(shortest, longest)
    far = needs(replace(found.params, n_ctx=longest), sources)

    def fits(n_ctx: int) -> bool:
        share = (n_ctx - shortest) / (longest - shortest)
        near = found.target, found.draft
        return found.holds(_between(near[0], far[0], share), near[1] and far[1] and _between(near[1], far[1], share))

    return _last(fits, shortest, longest)


def _last(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The last whole block from `low`, which fits, to `high` that fits as well."""
    fitting, beyond = low // CELLS, high // CELLS + 1
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        if fits(middle * CELLS):
            fitting = middle
        else:
            beyond = middle
    return fitting * CELLS


def _each(change: Callable[[ModelMemory, int], ModelMemory], pair: _Needs, n_ctx: int) -> _Needs:
    target, draft = pair
    return change(target, n_ctx), change(draft, n_ctx) if draft is not None else None


def _all_grown(need: ModelMemory, n_ctx: int) -> ModelMemory:
    grown = need.with_context(n_ctx)
    return replace(grown, compute=need.compute * n_ctx // max(1, need.n_ctx))


def _between(near: ModelMemory, far: ModelMemory, share: float) -> ModelMemory:
    kv, compute = max(0, far.kv - near.kv), max(0, far.compute - near.compute)
    return replace(near, kv=near.kv + int(kv * share), compute=near.compute + int(compute * share))
