"""Memory that ran out although it was counted: what is tried next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.core.errors import AppError, NoMemoryError
from app.llama.fitting.device_rooms import memory_rooms, with_remote
from app.llama.fitting.fit_pair import refusal
from app.llama.fitting.weighing import weighed
from app.models.catalog import Pair
from app.models.source import ModelSource

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.pair_params import PairParams

_LESS = 0.9
"""Of what was tried in vain; so much is tried next."""


def ran_out(
    params: PairParams,
    sources: Sequence[ModelSource | None],
    pairs: Sequence[Pair],
    error: NoMemoryError,
    servers: Sequence[RpcServer] = (),
) -> AppError:
    """A load that ran out of memory although it was counted, with the offers of a device that has less.

    Args:
        params: What was being loaded.
        sources: Where target and draft come from.
        pairs: Known pairs.
        error: What llama.cpp said.
        servers: Whose devices took part.
    """
    try:
        found = weighed(params, sources, with_remote(memory_rooms(), servers))
    except AppError:
        return error
    loads = {load.device.lower(): load for load in found.plan.loads}
    short = loads.get(error.device.lower()) or max(found.plan.loads, key=lambda load: load.need_bytes)
    rooms = tuple(
        room.with_room(int(_LESS * short.need_bytes)) if room.name.lower() == short.device.lower() else room
        for room in found.rooms
    )
    again = weighed(params, sources, rooms)
    return error if again.plan.fits else refusal(again, pairs, error.message)
