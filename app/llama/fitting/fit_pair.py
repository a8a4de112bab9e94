"""A pair in, a placement that fits into this machine out, or a sentence with the ways out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.units import memory_size
from app.hardware.device_room import MAIN, DeviceRoom
from app.hardware.offers import Offer
from app.llama.fitting.context_room import context_room
from app.llama.fitting.device_rooms import memory_rooms, with_remote
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.llama.fitting.weighing import Fitting, weighed
from app.models.catalog import Pair
from app.models.source import ModelSource

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.pair_params import PairParams

_CERTAIN = 0.75
"""Below this share of the room the headers' arithmetic settles it; above, llama.cpp is asked, half a second a model."""
_INDENT = "\n        "


def fitted(
    params: PairParams,
    sources: Sequence[ModelSource | None],
    pairs: Sequence[Pair],
    servers: Sequence[RpcServer] = (),
    rooms: Callable[[], tuple[DeviceRoom, ...]] | None = None,
) -> PairParams:
    """The same pair with every layer placed, counted against the memory that is free now.

    Args:
        params: What is to be loaded.
        sources: Where target and draft come from.
        pairs: Known pairs, from which a smaller one is offered.
        servers: Whose devices take part.
        rooms: The rooms of this machine, where somebody has asked for them already; None asks.

    Raises:
        DoesNotFitError: It does not fit; the offers are its hint.
        UsageError: A device that was named is not there.
        ModelFileError: A file is missing or no model.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    local = rooms() if rooms is not None else memory_rooms()
    # A file that llama.cpp has not survived yet is shown to it by a child anyway, which may as well count.
    certain = _CERTAIN if _all_known(params) else 0.0
    found = weighed(params, sources, with_remote(local, servers), certain=certain)
    if not found.plan.fits:
        # The offers stand beside what was asked for, not beside where it was put in vain.
        raise refusal(replace(found, params=params), pairs)
    return replace(found.params, n_ctx_room=context_room(replace(found, params=params), sources))


def refusal(found: Fitting, pairs: Sequence[Pair], message: str = "") -> DoesNotFitError:
    """The sentence with the offers.

    Args:
        found: What does not fit.
        pairs: Known pairs, from which a smaller one is offered.
        message: What happened; "" says what is missing where.
    """
    target, draft = found.target, found.draft
    names = f"{target.name} with {draft.name}" if draft is not None else target.name
    where = "; ".join(
        f"{memory_size(load.need_bytes)} {'in RAM' if load.device == MAIN else f'on {load.device}'}, where "
        f"{memory_size(load.room_bytes)} are free for it"
        for load in found.plan.loads
        if load.lacking
    )
    ways = found.offers(pairs)
    return DoesNotFitError(
        message or f"{names} does not fit: it takes {where}.",
        _INDENT.join(["Take one of these, or load it still with --fit off:", *map(offer_line, ways)]),
        ways,
    )


def offer_line(offer: Offer) -> str:
    """An offer in one line."""
    flags = " ".join(offer.flags)
    alone = "" if offer.suffices else "; not enough alone"
    what = f"{flags}: {offer.what}" if flags else offer.what
    return f"{what}, frees about {memory_size(offer.gain_bytes)}{alone} ({offer.cost})"


def _all_known(params: PairParams) -> bool:
    """Return whether llama.cpp has survived these files before."""
    from app.llama.canary import Survivors

    survivors = Survivors(params.survivors_file)
    return all(path in survivors for path in (params.target, params.draft) if path is not None)
