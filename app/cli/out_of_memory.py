"""Memory that ran out although it was counted, and devices that have gone: what is tried next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.catalog import Pair
from app.cli.device_rooms import memory_rooms
from app.cli.fitting import refusal
from app.cli.weighing import weighed
from app.errors import AppError, NoMemoryError
from app.hardware.device_room import DeviceRoom
from app.llama.params import ALL_LAYERS, ModelParams
from app.source import ModelSource

if TYPE_CHECKING:
    from app.llama.pair_params import PairParams

_LESS = 0.9
"""Of what was tried in vain; so much is tried next."""


def ran_out(
    params: PairParams, sources: Sequence[ModelSource | None], pairs: Sequence[Pair], error: NoMemoryError
) -> AppError:
    """A load that ran out of memory although it was counted, with the offers of a device that has less.

    Args:
        params: What was being loaded.
        sources: Where target and draft come from.
        pairs: Known pairs.
        error: What llama.cpp said.
    """
    try:
        found = weighed(params, sources, memory_rooms())
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


def present(params: PairParams, rooms: Sequence[DeviceRoom]) -> PairParams:
    """The same pair without devices that were named in an earlier run and are gone; the plan then takes the next best.

    Args:
        params: What is to be loaded.
        rooms: What there is now.
    """
    known = {room.name.lower() for room in rooms}
    gone = [name for name in (*params.model.devices, *params.draft_model.devices) if name.lower() not in known]
    if not gone:
        return params
    names = ", ".join(dict.fromkeys(gone))
    is_are = "is" if len(set(gone)) == 1 else "are"
    notice = f"{names} {is_are} not there any more; the models go to the best device that is. tandem doctor tells more."
    return replace(
        params,
        model=_anywhere(params.model, known),
        draft_model=_anywhere(params.draft_model, known),
        notices=(*params.notices, notice),
    )


def _anywhere(model: ModelParams, known: set[str]) -> ModelParams:
    if all(name.lower() in known for name in model.devices):
        return model
    return replace(model, devices=(), tensor_split=(), n_gpu_layers=ALL_LAYERS)
