"""Devices that were named, or counted, in an earlier run and have gone since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.core.units import counted
from app.hardware.device_room import DeviceRoom, fast_devices
from app.llama.params import ModelParams
from app.settings.placement import ALL_LAYERS

if TYPE_CHECKING:
    from app.llama.pair_params import PairParams

MORE = " tandem doctor tells more."
"""The end of the notice; doctor itself leaves it out."""


def without_missing(params: PairParams, rooms: Sequence[DeviceRoom]) -> PairParams:
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
    notice = f"{names} {is_are} not there any more; the models go to the best device that is.{MORE}"
    return replace(
        params,
        model=_anywhere(params.model, known),
        draft_model=_anywhere(params.draft_model, known),
        notices=(*params.notices, notice),
    )


def without_other_split(params: PairParams, rooms: tuple[DeviceRoom, ...]) -> PairParams:
    """The same pair without shares from an earlier run that had more devices or fewer; no devices are named.

    Args:
        params: What is to be loaded.
        rooms: What there is now.
    """
    n_shares, n_devices = len(params.model.tensor_split), len(fast_devices(rooms))
    if n_shares == n_devices:
        return params
    there = f"there {'is' if n_devices == 1 else 'are'} {n_devices or 'none'}"
    notice = f"The tensor split is for {counted(n_shares, 'device')}, and {there} now; the layers go by free memory."
    return replace(params, model=replace(params.model, tensor_split=()), notices=(*params.notices, notice))


def _anywhere(model: ModelParams, known: set[str]) -> ModelParams:
    if all(name.lower() in known for name in model.devices):
        return model
    return replace(model, devices=(), tensor_split=(), n_gpu_layers=ALL_LAYERS)
