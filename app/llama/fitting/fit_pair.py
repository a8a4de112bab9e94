"""Fit a pair into this machine: estimate its memory, place every layer, and offer options if it does not fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError, NoMemoryError, PairError
from app.core.units import memory_size
from app.hardware.fit import MAIN, Placed, PlacementRequest, Plan, Rooms, plan
from app.hardware.offers import Offer, offers
from app.llama.child import SafeFiles
from app.llama.fitting.machine_room import memory_rooms, with_remote
from app.llama.params import ModelParams
from app.models.catalog import Pair
from app.models.memory_estimate import (
    CELLS,
    DEFAULT_CONTEXT,
    ModelMemory,
    draft_memory,
    estimate_memory,
    longest_trained,
    with_tensors,
)
from app.models.model_facts import read_facts
from app.models.pair_info import DeviceMemory
from app.models.recommend import Fit, Room, weigh
from app.settings.placement import experts_in_ram

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.params import ContextParams, PairParams

_CERTAIN = 0.75
"""Share of the room below which the estimate from the headers suffices; llama.cpp's own takes half a second a model."""
_LESS = 0.9
"""Share of a failed load that is tried next."""
_SMALL_WINDOWS = "Small window cache to save memory; editing an earlier message reads more text again."
_INDENT = "\n        "


class DoesNotFitError(PairError):
    """A pair that does not fit into this machine; the hint names the offers as flags."""

    def __init__(self, message: str, hint: str, offers: tuple[Offer, ...]) -> None:
        super().__init__(message, hint)
        self.offers = offers


@dataclass(frozen=True, slots=True)
class Fitting:
    """A pair and its placement on this machine, the request being the part that the user chose.

    It is measured if llama.cpp itself estimated both models.
    """

    params: PairParams
    plan: Plan
    target: ModelMemory
    draft: ModelMemory | None
    rooms: Rooms
    measured: bool
    request: PlacementRequest

    def offers(self, pairs: Sequence[Pair]) -> tuple[Offer, ...]:
        """Return the options if it does not fit; one may be a smaller pair of `pairs`."""
        need_bytes = self.target.total + (self.draft.total if self.draft is not None else 0)
        weighed = [weigh(pair, self._room) for pair in pairs]
        fits = [found for found in weighed if found.fit is Fit.FITS and found.need_bytes < need_bytes]
        best = max(fits, key=lambda found: found.need_bytes, default=None)
        flash_attention = self.params.flash_attention
        return offers(self.target, self.draft, self.rooms, self.request, smaller=best, flash_attention=flash_attention)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a sentence for each change that made the pair fit."""
        n = self.plan.target.cpu_experts if self.request.cpu_experts is None else 0
        return (f"{experts_in_ram(n, self.target.n_layers)}.",) if n else ()

    @property
    def _room(self) -> Room:
        """The memory of the target's devices, for pairs with the same context."""
        devices = [room for room in self.rooms if room.name in self.plan.target.devices]
        on_card = all(device.has_own_memory for device in devices)
        n_ctx = self.params.n_ctx or DEFAULT_CONTEXT
        return Room(sum(device.room_bytes for device in devices), on_card=on_card, n_ctx=n_ctx)

    @property
    def shortage(self) -> str:
        """Return what it needs where too little is free, as a clause."""
        return "needs " + " and ".join(
            f"{memory_size(load.need_bytes)} {'in RAM' if load.device == MAIN else f'on {load.device}'} "
            f"({memory_size(load.room_bytes)} free)"
            for load in self.plan.loads
            if load.lacking
        )

    def refusal(self, pairs: Sequence[Pair], message: str = "") -> DoesNotFitError:
        """Return the error with the offers; without a message it says what is missing where."""
        names = f"{self.target.name} with {self.draft.name}" if self.draft is not None else self.target.name
        found = self.offers(pairs)
        hint = ["Choose one of these, or load it anyway with --fit off:", *map(offer_line, found)]
        return DoesNotFitError(message or f"{names} does not fit: it {self.shortage}.", _INDENT.join(hint), found)


def offer_line(offer: Offer) -> str:
    """Return an offer in one line."""
    flags = " ".join(offer.flags)
    what = f"{flags}: {offer.what}" if flags else offer.what
    return f"{what}, {offer.gain} ({offer.cost})"


def fitted(params: PairParams, pairs: Sequence[Pair], servers: Sequence[RpcServer] = ()) -> PairParams:
    """Return the pair with every layer placed in the memory that is free now, also of RPC servers.

    Raises:
        DoesNotFitError: It does not fit; the offers are its hint.
        UsageError: A named device is not there.
        ModelFileError: A file is missing or not a model.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    safe = SafeFiles(params.safe_files)
    # A child process loads a new file anyway, and can measure it as well.
    is_known = all(path in safe for path in (params.target, params.draft) if path is not None)
    found = fitting_of(params, with_remote(memory_rooms(), servers), certain=_CERTAIN if is_known else 0.0)
    if not found.plan.fits:
        raise found.refusal(pairs)
    notices = (*params.notices, *found.notices)
    if found.params.swa_full is not params.swa_full:
        notices = (*notices, _SMALL_WINDOWS)
    return replace(found.params, n_ctx_room=context_room(found), notices=notices)


def ran_out(
    params: PairParams, pairs: Sequence[Pair], error: NoMemoryError, servers: Sequence[RpcServer] = ()
) -> AppError:
    """Return the error for a load that ran out of memory despite the estimate, with offers for less memory."""
    try:
        found = fitting_of(params, with_remote(memory_rooms(), servers))
    except AppError:
        return error
    loads = {load.device.lower(): load for load in found.plan.loads}
    # Keep the planned count: moving more experts now would hide the refusal and its options.
    request = replace(params.model, cpu_experts=found.plan.target.cpu_experts)
    short = loads.get(error.device.lower()) or max(found.plan.loads, key=lambda load: load.need_bytes)
    rooms = tuple(
        room.with_room(int(_LESS * short.need_bytes)) if room.name == short.device else room for room in found.rooms
    )
    again = fitting_of(replace(params, model=request), rooms)
    return error if again.plan.fits else again.refusal(pairs, error.message)


def fitting_of(params: PairParams, rooms: Rooms, *, certain: float = 0.0) -> Fitting:
    """Plan the placement of a pair; nothing is loaded.

    Layers with a sliding window get a small cache if more then fits on the devices.

    Args:
        params: What is to be loaded.
        rooms: The devices.
        certain: Up to this share of the room the headers suffice; above, llama.cpp estimates the memory.

    Raises:
        UsageError: A named device is not there.
        ModelFileError: A file is missing or not a model.
    """
    found = _planned(params, rooms, certain)
    windows = found.target.window_gain or (found.draft is not None and found.draft.window_gain)
    n_moved = found.plan.target.cpu_experts if found.request.cpu_experts is None else 0
    if params.swa_full is not None or not windows or (found.plan.fits and not n_moved):
        return found
    small = _planned(replace(params, swa_full=False), rooms, certain)
    is_better = (small.plan.lacking, small.plan.target.cpu_experts) < (found.plan.lacking, n_moved)
    return small if is_better else found


def _planned(params: PairParams, rooms: Rooms, certain: float) -> Fitting:
    target, draft = needs(params)
    request = _placement_request(params)
    planned = plan(target, draft, rooms, request)
    measured = False
    if planned.fullness > certain:
        by_header, without = (target, draft), not planned.target.cpu_experts
        target, draft = measured_needs(_placed(params, planned, rooms), *by_header)
        planned = plan(target, draft, rooms, request)
        if without and planned.target.cpu_experts:
            # The buffers of the first measurement have no copies of experts.
            target, draft = measured_needs(_placed(params, planned, rooms), *by_header)
            planned = plan(target, draft, rooms, request)
        measured = target is not by_header[0] and (draft is None or draft is not by_header[1])
    what = {room.name: (room.description, room.total_bytes) for room in rooms}
    memory = [DeviceMemory(load.device, load.need_bytes, *what[load.device]) for load in planned.loads]
    placed = replace(_placed(params, planned, rooms), memory=tuple(memory))
    return Fitting(placed, planned, target, draft, rooms, measured, request)


def _placement_request(params: PairParams) -> PlacementRequest:
    model, draft = params.model, params.draft_model
    return PlacementRequest(
        devices=(MAIN,) if model.on_cpu else model.devices,
        draft_device=MAIN if draft.on_cpu else "".join(draft.devices),
        gpu_layers=model.n_gpu_layers,
        draft_gpu_layers=draft.n_gpu_layers,
        tensor_split=model.tensor_split,
        # With --override-tensor alone, no experts are placed automatically.
        cpu_experts=0 if model.overrides and model.cpu_experts is None else model.cpu_experts,
    )


def _placed(params: PairParams, planned: Plan, rooms: Rooms) -> PairParams:
    if len(rooms) == 1:
        return params

    def put(model: ModelParams, placed: Placed) -> ModelParams:
        return replace(
            model,
            devices=placed.devices,
            tensor_split=placed.tensor_split,
            n_gpu_layers=placed.gpu_layers,
            cpu_experts=placed.cpu_experts,
        )

    draft = put(params.draft_model, planned.draft) if planned.draft is not None else params.draft_model
    return replace(params, model=put(params.model, planned.target), draft_model=draft)


def needs(params: PairParams) -> tuple[ModelMemory, ModelMemory | None]:
    """Estimate the memory of target and draft from their headers.

    Raises:
        ModelFileError: A file is missing or not a model.
    """
    facts = read_facts(params.target)
    context = params.target_context(facts.n_ctx_train)
    target = estimate_memory(
        facts,
        context.n_ctx,
        kv_type=context.kv_type,
        n_outputs=context.n_outputs,
        n_snapshots=context.n_snapshots,
        n_batch=context.n_batch,
        flash_attention=context.flash_attention != "off",
        swa_full=context.swa_full,
    )
    draft: ModelMemory | None = None
    if params.draft is not None or params.model.load_mtp:
        own = params.draft_context(context.n_ctx)
        draft = draft_memory(
            facts,
            None if params.draft is None else read_facts(params.draft) if params.draft != params.target else facts,
            own.n_ctx,
            kv_type=own.kv_type,
            n_batch=own.n_batch,
            flash_attention=own.flash_attention != "off",
            swa_full=own.swa_full,
        )
    if params.model.overrides or facts.expert_share < 1:
        target = with_tensors(target, params.target, params.model.overrides)
    return target, draft


def measured_needs(
    params: PairParams, target: ModelMemory, draft: ModelMemory | None
) -> tuple[ModelMemory, ModelMemory | None]:
    """Return the memory by llama.cpp's own estimate, where available."""
    from app.llama.footprint import measure

    safe = SafeFiles(params.safe_files)

    def of(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
        found = measure(need, path, model, context)
        if found is not need:
            safe.add(path)
        return found

    measured = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is None or params.draft is None:
        return measured, draft
    return measured, of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))


def context_room(found: Fitting) -> int:
    """Return the longest context that fits, up to the target's training context, in tokens.

    KV caches and buffers grow linearly here. Buffers grow less, so the result may be a little short, and fits. Experts
    that are on a GPU stay there; where some are in RAM, more may follow.
    """
    target, draft, request = found.target, found.draft, found.request
    if not found.plan.target.cpu_experts:
        request = replace(request, cpu_experts=0)
    longest = max(target.n_ctx, longest_trained(target.n_ctx_train))

    def exceeds(n_ctx: int) -> bool:
        small = _grown(draft, n_ctx) if draft is not None else None
        return not plan(_grown(target, n_ctx), small, found.rooms, request).fits

    lengths = range(target.n_ctx, longest + 1, CELLS)
    return lengths[max(1, bisect_left(lengths, True, key=exceeds)) - 1]


def _grown(need: ModelMemory, n_ctx: int) -> ModelMemory:
    return replace(need.with_context(n_ctx), compute=need.compute * n_ctx // max(1, need.n_ctx))
