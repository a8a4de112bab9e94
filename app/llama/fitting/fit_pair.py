"""Fit a pair into this machine: estimate its memory, place every layer, and offer options if it does not fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.core.errors import AppError, DoesNotFitError, NoMemoryError
from app.core.units import memory_size
from app.hardware.fit import MAIN, Placed, PlacementRequest, Plan, Rooms, plan
from app.hardware.offers import Offer, offers
from app.hardware.recommend import Capacity, Fit, weigh
from app.llama.child import SafeFiles
from app.llama.fitting.machine_room import estimates, facts_of_pair, measured_needs, memory_rooms, needs, with_remote
from app.models.catalog import Pair
from app.models.memory_estimate import CELLS, DEFAULT_CONTEXT, ModelMemory, longest_trained
from app.models.pair_info import DeviceMemory
from app.settings.placement import experts_in_ram

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.params import PairParams

_CERTAIN_FIT_SHARE = 0.75
"""Share of the room below which the estimate from the headers suffices; llama.cpp's own takes half a second a model."""
_RETRY_SHARE = 0.9
"""Share of the needed memory that is assumed to be free after an out-of-memory load."""
_CONTEXT_LENGTHS = (65_536, 32_768, 16_384)
"""Contexts in tokens that are tried if the settings leave the length open, the longest first."""
_MAX_USED_SHARE = 0.9
"""Largest share of a device's room that a pair may use with a context longer than the default."""
_CONTEXT_SHARE = 1 / 8
"""Share of a device's room that a context may take beyond the default one."""
_MAX_MEASUREMENTS = 2
"""Measurements of one pair: each may move layers, which changes the compute buffers."""
_SMALL_WINDOWS = "Small window cache to save memory; editing an earlier message reads more text again."


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
        capacity = Capacity(self.rooms, n_ctx=self.params.n_ctx or DEFAULT_CONTEXT)
        weighed = [weigh(pair, capacity, self.plan.target.devices) for pair in pairs]
        fits = [found for found in weighed if found.fit is Fit.FITS and found.need_bytes < need_bytes]
        best = max(fits, key=lambda found: found.need_bytes, default=None)
        flash_attention = str(self.params.settings["model.flash_attn"])
        return offers(self.target, self.draft, self.rooms, self.request, smaller=best, flash_attention=flash_attention)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a sentence for each change that made the pair fit."""
        n = self.plan.target.cpu_experts if self.request.cpu_experts is None else 0
        length, longest = self.params.n_ctx_auto or 0, longest_trained(self.target.n_ctx_train)
        limit = "the model was trained for" if length == longest else "memory allows"
        return (
            *([f"{experts_in_ram(n, self.target.n_layers)}."] if n else []),
            *([f"Context: {length:,} tokens, as many as {limit} (setting ctx)."] if length > DEFAULT_CONTEXT else []),
        )

    @property
    def shortage(self) -> str:
        """Return what it needs where too little is free, as a clause."""
        return "needs " + " and ".join(
            f"{memory_size(load.need_bytes)} {'in RAM' if load.device == MAIN else f'on {load.device}'} "
            f"({memory_size(load.room_bytes)} free)"
            for load in self.plan.loads
            if load.lacking
        )

    def refusal(self, pairs: Sequence[Pair], message: str | None = None) -> DoesNotFitError:
        """Return the error with the offers; without a message it says what is missing where."""
        names = f"{self.target.name} with {self.draft.name}" if self.draft is not None else self.target.name
        return DoesNotFitError(message or f"{names} does not fit: it {self.shortage}.", self.offers(pairs))


def fitted(params: PairParams, pairs: Sequence[Pair], servers: Sequence[RpcServer] = ()) -> PairParams:
    """Return the pair with every layer placed in the memory that is free now, also of RPC servers.

    Raises:
        DoesNotFitError: It does not fit.
        UsageError: A named device is not there.
        ModelFileError: A file is missing or not a model.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    safe = SafeFiles(params.safe_files)
    # A child process loads a new file anyway, and can measure it as well.
    is_known = all(path in safe for path in (params.target, params.draft) if path is not None)
    found = fitting_of(params, with_remote(memory_rooms(), servers), certain=_CERTAIN_FIT_SHARE if is_known else 0.0)
    if not found.plan.fits and params.projector is not None and params.settings["model.mmproj"] == "auto":
        notices = (*params.notices, "Pictures cannot be read: memory has no room for the projector.")
        return fitted(replace(params, projector=None, notices=notices), pairs, servers)
    if not found.plan.fits:
        raise found.refusal(pairs)
    found = with_open_context(found)
    notices = (*params.notices, *found.notices)
    if found.params.settings["model.swa_full"] != params.settings["model.swa_full"]:
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
        room.with_room(int(_RETRY_SHARE * short.need_bytes)) if room.name == short.device else room
        for room in found.rooms
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
    if params.settings["model.swa_full"] != "auto" or not windows or (found.plan.fits and not n_moved):
        return found
    small = _planned(params.over({"model.swa_full": "off"}), rooms, certain)
    is_better = (small.plan.lacking, small.plan.target.cpu_experts) < (found.plan.lacking, n_moved)
    return small if is_better else found


def _planned(params: PairParams, rooms: Rooms, certain: float) -> Fitting:
    target, draft = by_header = needs(params)
    request = _placement_request(params)
    planned = plan(target, draft, rooms, request)
    measured = False
    if planned.fullness > certain:
        for _ in range(_MAX_MEASUREMENTS):
            before = planned.target
            target, draft = measured_needs(_placed(params, planned, rooms), *by_header)
            planned = _planned_again(target, draft, rooms, request, before)
            if _buffers_of(planned.target) == _buffers_of(before):
                break
        measured = target is not by_header[0] and (draft is None or draft is not by_header[1])
    return Fitting(_described(params, planned, rooms), planned, target, draft, rooms, measured, request)


def _planned_again(
    target: ModelMemory, draft: ModelMemory | None, rooms: Rooms, request: PlacementRequest, before: Placed
) -> Plan:
    """Plan with measured sizes, which hold for the shares of the measured placement: keep these shares if they fit."""
    planned = plan(target, draft, rooms, request)
    if planned.target.devices != before.devices or planned.target.tensor_split == before.tensor_split:
        return planned
    draft_device = planned.draft.devices[0] if planned.draft is not None else None
    kept = replace(request, devices=before.devices, tensor_split=before.tensor_split, draft_device=draft_device)
    same = plan(target, draft, rooms, kept)
    return same if same.fits else planned


def _buffers_of(placed: Placed) -> tuple[object, ...]:
    """Return what the compute buffers depend on; with experts in RAM, they have copies of some."""
    return placed.devices, placed.tensor_split, bool(placed.cpu_experts)


def _described(params: PairParams, planned: Plan, rooms: Rooms) -> PairParams:
    what = {room.name: (room.description, room.total_bytes) for room in rooms}
    memory = [DeviceMemory(load.device, load.need_bytes, *what[load.device]) for load in planned.loads]
    return replace(_placed(params, planned, rooms), memory=tuple(memory))


def with_open_context(found: Fitting) -> Fitting:
    """Return the placement with the longest context of a few that costs little, if the settings leave it open.

    It fits with room to spare, and every layer stays where it is. A context that the command prefers may cost more.
    """
    params, rooms = found.params, found.rooms
    trained = longest_trained(found.target.n_ctx_train)
    lengths = [n for n in dict.fromkeys(min(n, trained) for n in _CONTEXT_LENGTHS) if n > found.target.n_ctx]
    if params.n_ctx is not None or params.n_ctx_auto is not None or not lengths:
        return found
    facts = facts_of_pair(params)
    base, base_draft = estimates(params, *facts)
    for length in lengths:
        longer = replace(params, n_ctx_auto=length)
        more, more_draft = estimates(longer, *facts)
        target, draft = _with_growth(found.target, base, more), found.draft
        if draft is not None and base_draft is not None and more_draft is not None:
            draft = _with_growth(draft, base_draft, more_draft)
        planned = plan(target, draft, rooms, found.request)
        costs = max(
            (load.need_bytes - was.need_bytes) / max(1, load.room_bytes)
            for load, was in zip(planned.loads, found.plan.loads, strict=False)
        )
        most = 1.0 if length <= params.preferred_ctx else _CONTEXT_SHARE
        if _is_same_place(planned, found.plan) and planned.fullness <= _MAX_USED_SHARE and costs <= most:
            return replace(found, params=_described(longer, planned, rooms), plan=planned, target=target, draft=draft)
    return found


def _with_growth(need: ModelMemory, base: ModelMemory, more: ModelMemory) -> ModelMemory:
    """Return the memory of a model for the context of `more`; llama.cpp may have estimated more than `base`."""
    return replace(
        need,
        n_ctx=more.n_ctx,
        kv=need.kv + more.kv - base.kv,
        compute=need.compute + more.compute - base.compute,
        compute_on=(),
        window_gain=more.window_gain,
    )


def _is_same_place(planned: Plan, before: Plan) -> bool:
    """Return whether every layer is on its device; shares of several devices may differ a little."""
    pairs = ((planned.target, before.target), (planned.draft, before.draft))
    return planned.fits and all(
        now is was or (now and was and replace(now, tensor_split=()) == replace(was, tensor_split=()))
        for now, was in pairs
    )


def _placement_request(params: PairParams) -> PlacementRequest:
    model, draft = params.model, params.draft_model
    return PlacementRequest(
        devices=(MAIN,) if model.on_cpu else model.devices,
        draft_device=MAIN if draft.on_cpu else next(iter(draft.devices), None),
        gpu_layers=model.n_gpu_layers,
        draft_gpu_layers=draft.n_gpu_layers,
        tensor_split=model.tensor_split,
        # With --override-tensor alone, no experts are placed automatically.
        cpu_experts=0 if model.overrides and model.cpu_experts is None else model.cpu_experts,
    )


def _placed(params: PairParams, planned: Plan, rooms: Rooms) -> PairParams:
    if len(rooms) == 1:
        return params

    draft = params.draft_model.at(planned.draft) if planned.draft is not None else params.draft_model
    return replace(params, model=params.model.at(planned.target), draft_model=draft)


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
    return replace(need.with_context(n_ctx), compute=need.compute * n_ctx // max(1, need.n_ctx), compute_on=())
