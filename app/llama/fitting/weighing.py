"""A pair held against memory: what it takes, where it would go, and what else there is.

The plan is `app.hardware.fit`'s, the figures are the headers', and where it is tight llama.cpp's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.hardware.device_room import MAIN, DeviceRoom
from app.hardware.fit import Placed, Plan, Wishes, plan
from app.hardware.offers import Offer, Smaller, offers
from app.llama.fitting.needs import measured_needs, needs
from app.llama.params import ModelParams
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT, ModelMemory
from app.models.pair_info import DeviceMemory
from app.models.recommend import Fit, Room, weigh
from app.models.source import ModelSource

if TYPE_CHECKING:
    from app.llama.pair_params import PairParams


@dataclass(frozen=True, slots=True)
class Fitting:
    """A pair held against the memory of this machine.

    Attributes:
        params: What is loaded, with every layer placed.
        plan: Where it goes.
        target: What the target takes.
        draft: What the draft takes, or None.
        rooms: What there is.
        measured: Whether llama.cpp itself estimated the figures of both, not the headers' arithmetic.
    """

    params: PairParams
    plan: Plan
    target: ModelMemory
    draft: ModelMemory | None
    rooms: tuple[DeviceRoom, ...]
    measured: bool

    def offers(self, pairs: Sequence[Pair]) -> tuple[Offer, ...]:
        """The ways out where it does not fit; a smaller pair is one of `pairs`."""
        need_bytes = self.target.total + (self.draft.total if self.draft is not None else 0)
        return offers(
            self.target,
            self.draft,
            self.rooms,
            _wishes(self.params),
            smaller=_smaller(pairs, self._room, need_bytes),
            flash_attention=self.params.flash_attention,
        )

    def holds(self, target: ModelMemory, draft: ModelMemory | None) -> bool:
        """Return whether models that take this much would fit in the same rooms, asked for as these were."""
        return plan(target, draft, self.rooms, _wishes(self.params)).fits

    @property
    def _room(self) -> Room:
        """What the devices that the target would go to can hold, for pairs with the context that is asked for."""
        by_name = {room.name.lower(): room for room in self.rooms}
        devices = [by_name[name.lower()] for name in self.plan.target.devices]
        on_card = all(device.has_own_memory for device in devices)
        n_ctx = self.params.n_ctx or DEFAULT_CONTEXT
        return Room(sum(device.room_bytes for device in devices), on_card=on_card, n_ctx=n_ctx)


def weighed(
    params: PairParams, sources: Sequence[ModelSource | None], rooms: tuple[DeviceRoom, ...], *, certain: float = 0.0
) -> Fitting:
    """A pair held against these rooms; nothing is loaded.

    Args:
        params: What is to be loaded.
        sources: Where target and draft come from.
        rooms: What there is.
        certain: Up to this share of the room the headers' arithmetic will do; above, llama.cpp is asked.

    Raises:
        UsageError: A device that was named is not there.
        ModelFileError: A file is missing or no model.
    """
    target, draft = needs(params, sources)
    wishes = _wishes(params)
    planned = plan(target, draft, rooms, wishes)
    placed = _placed(params, planned, rooms)
    measured = False
    if planned.fullness > certain:
        by_header = target, draft
        target, draft = measured_needs(placed, target, draft)
        measured = target is not by_header[0] and (draft is None or draft is not by_header[1])
        planned = plan(target, draft, rooms, wishes)
        placed = _placed(params, planned, rooms)
    what = {room.name: (room.description, room.total_bytes) for room in rooms}
    memory = [DeviceMemory(load.device, load.need_bytes, *what[load.device]) for load in planned.loads]
    memory.sort(key=lambda taken: taken.device == MAIN)
    return Fitting(replace(placed, memory=tuple(memory)), planned, target, draft, rooms, measured)


def _wishes(params: PairParams) -> Wishes:
    model, draft = params.model, params.draft_model
    return Wishes(
        devices=(MAIN,) if model.on_cpu else model.devices,
        draft_device=MAIN if draft.on_cpu else "".join(draft.devices),
        gpu_layers=model.n_gpu_layers,
        draft_gpu_layers=draft.n_gpu_layers,
        tensor_split=model.tensor_split,
    )


def _placed(params: PairParams, planned: Plan, rooms: Sequence[DeviceRoom]) -> PairParams:
    if len(rooms) == 1:
        return params
    draft = params.draft_model
    if planned.draft is not None:
        draft = _model(draft, planned.draft)
    return replace(params, model=_model(params.model, planned.target), draft_model=draft)


def _model(model: ModelParams, placed: Placed) -> ModelParams:
    return replace(model, devices=placed.devices, tensor_split=placed.tensor_split, n_gpu_layers=placed.gpu_layers)


def _smaller(pairs: Sequence[Pair], room: Room, need_bytes: int) -> Smaller | None:
    """The largest known pair that fits where this one does not."""
    weighed = [weigh(pair, room) for pair in pairs]
    fits = [found for found in weighed if found.fit is Fit.FITS and found.need_bytes < need_bytes]
    best = max(fits, key=lambda found: found.need_bytes, default=None)
    return Smaller(best.pair.name, best.pair.title, best.need_bytes) if best is not None else None
