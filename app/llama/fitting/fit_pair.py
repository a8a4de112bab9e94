"""Fit a pair into this machine: estimate its memory, place every layer, and offer options if it does not fit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.core.errors import AppError, DoesNotFitError, NoMemoryError
from app.core.units import memory_size
from app.hardware.fit import PairNeeds, Plan, Rooms
from app.hardware.offers import Offer, offers
from app.hardware.recommend import Capacity, Fit, weigh
from app.llama.child import SafeFiles
from app.llama.fitting.machine_room import measured_needs, memory_rooms, needs, with_remote
from app.models.catalog import Pair
from app.models.memory_estimate import CELLS, DEFAULT_CONTEXT, longest_trained
from app.models.pair_info import DeviceMemory
from app.settings.model_params import ModelParams
from app.settings.placement import CPU, experts_in_ram

if TYPE_CHECKING:
    from app.llama.params import PairParams

_CERTAIN_FIT_SHARE = 0.75
"""Share of the memory below which the headers' estimate suffices; llama.cpp's own takes half a second per model."""
_RETRY_SHARE = 0.9
"""Share of the needed memory that is assumed to be free after an out-of-memory load."""
_CONTEXT_LENGTHS = (65_536, 32_768, 16_384)
"""Contexts to try, in tokens and longest first, if the settings leave the length open."""
_MAX_USED_SHARE = 0.9
"""Largest share of a device's memory for a pair with a context longer than the default."""
_CONTEXT_SHARE = 1 / 8
"""Share of a device's memory that a context may take beyond the default context."""
_MAX_MEASUREMENTS = 2
"""Measurements of a pair: each may move layers, which changes the compute buffers."""
_SMALL_WINDOWS = "Small window cache to save memory; editing an earlier message reads more text again."


@dataclass(frozen=True, slots=True)
class Fitting:
    """A pair and its placement on this machine; it is measured if llama.cpp itself estimated both models."""

    asked: PairParams
    needs: PairNeeds
    plan: Plan
    measured: bool

    @property
    def params(self) -> PairParams:
        """The pair with every layer in its place."""
        what = {room.name: (room.description, room.total_bytes) for room in self.needs.rooms}
        memory = [DeviceMemory(load.device, load.need_bytes, *what[load.device]) for load in self.plan.loads]
        return replace(_placed(self.asked, self.plan, self.needs), memory=tuple(memory))

    def offers(self, pairs: Sequence[Pair]) -> tuple[Offer, ...]:
        """Return the options if it does not fit, perhaps with a smaller pair of `pairs`."""
        capacity = Capacity(self.needs.rooms, n_ctx=self.asked.n_ctx or DEFAULT_CONTEXT)
        weighed = [weigh(pair, capacity, self.plan.target.devices) for pair in pairs]
        fits = [found for found in weighed if found.fit is Fit.FITS and found.need_bytes < self.needs.total]
        best = max(fits, key=lambda found: found.need_bytes, default=None)
        return offers(self.needs, smaller=best, flash_attention=self.asked.settings["model.flash_attn"])

    @property
    def n_moved(self) -> int:
        """Layers whose experts were moved to RAM, because memory is short."""
        return self.plan.n_in_ram if self.asked.model.cpu_experts is None else 0

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a sentence for each change that made the pair fit."""
        n, target = self.n_moved, self.needs.target
        length, longest = self.asked.n_ctx_auto or 0, longest_trained(target.n_ctx_train)
        limit = "the model was trained for" if length == longest else "memory allows"
        return (
            *([f"{experts_in_ram(n, target.n_layers)}."] if n else []),
            *([f"Context: {length:,} tokens, as many as {limit} (setting ctx)."] if length > DEFAULT_CONTEXT else []),
        )

    @property
    def shortage(self) -> str:
        """Return as a clause what is lacking on which device."""
        return "needs " + " and ".join(
            f"{memory_size(load.need_bytes)} {'in RAM' if load.device == CPU else f'on {load.device}'} "
            f"({memory_size(load.room_bytes)} free)"
            for load in self.plan.loads
            if load.lacking
        )

    def refusal(self, pairs: Sequence[Pair], message: str | None = None) -> DoesNotFitError:
        """Return the error with the offers; by default, the message says what is lacking."""
        target, draft = self.needs.target, self.needs.draft
        names = f"{target.name} with {draft.name}" if draft is not None else target.name
        return DoesNotFitError(message or f"{names} does not fit: it {self.shortage}.", self.offers(pairs))


def fitted(params: PairParams, pairs: Sequence[Pair]) -> PairParams:
    """Return the pair with every layer placed in the free memory, including RPC servers.

    Raises:
        DoesNotFitError: It does not fit.
        UsageError: A named device is missing.
        ModelFileError: A file is missing or not a model.
        ModelLoadError: llama.cpp cannot list its devices.
    """
    safe = SafeFiles(params.safe_files)
    # A child process loads a new file anyway, so it can also measure it.
    is_known = all(safe.survived(path) for path in (params.target, params.draft) if path is not None)
    found = fitting_of(params, with_remote(memory_rooms(), params.rpc), certain=_CERTAIN_FIT_SHARE if is_known else 0.0)
    if not found.plan.fits and params.projector is not None and params.settings["model.mmproj"] == "auto":
        notices = (*params.notices, "Pictures cannot be read: memory has no room for the projector.")
        return fitted(replace(params, projector=None, notices=notices), pairs)
    if not found.plan.fits:
        raise found.refusal(pairs)
    found = with_open_context(found)
    notices = (*params.notices, *found.notices)
    if found.asked.settings["model.swa_full"] != params.settings["model.swa_full"]:
        notices = (*notices, _SMALL_WINDOWS)
    return replace(found.params, n_ctx_room=context_room(found), notices=notices)


def ran_out(params: PairParams, pairs: Sequence[Pair], error: NoMemoryError) -> AppError:
    """Return the error for a load that ran out of memory despite the estimate, with offers for less memory."""
    try:
        found = fitting_of(params, with_remote(memory_rooms(), params.rpc))
    except AppError:
        return error
    loads = {load.device.lower(): load for load in found.plan.loads}
    # Keep the planned count: moving more experts now would hide the refusal and its options.
    model = replace(params.model, cpu_experts=found.plan.n_in_ram)
    short = loads.get((error.device or "").lower()) or max(found.plan.loads, key=lambda load: load.need_bytes)
    rooms = tuple(
        room.with_room(int(_RETRY_SHARE * short.need_bytes)) if room.name == short.device else room
        for room in found.needs.rooms
    )
    again = fitting_of(replace(params, model=model), rooms)
    return error if again.plan.fits else again.refusal(pairs, error.message)


def fitting_of(params: PairParams, rooms: Rooms, *, certain: float = 0.0) -> Fitting:
    """Plan the placement of a pair without loading it.

    Layers with a sliding window get a small cache if more then fits on the devices.

    Args:
        certain: Below this share of the memory the headers suffice; above, llama.cpp estimates the memory.

    Raises:
        UsageError: A named device is missing.
        ModelFileError: A file is missing or not a model.
    """
    found = _planned(params, rooms, certain)
    windows = found.needs.target.window_gain or (found.needs.draft is not None and found.needs.draft.window_gain)
    if params.settings["model.swa_full"] != "auto" or not windows or (found.plan.fits and not found.n_moved):
        return found
    small = _planned(params.over({"model.swa_full": "off"}), rooms, certain)
    return min(found, small, key=lambda one: (one.plan.lacking, one.n_moved))


def _planned(params: PairParams, rooms: Rooms, certain: float) -> Fitting:
    pair = by_header = needs(params, rooms)
    planned, measured = pair.plan(), False
    if planned.fullness > certain:
        for _ in range(_MAX_MEASUREMENTS):
            before = planned
            pair = measured_needs(_placed(params, planned, pair), by_header)
            planned = _planned_again(pair, before)
            if _buffers_of(planned.target) == _buffers_of(before.target):
                break
        measured = pair.target is not by_header.target and (pair.draft is None or pair.draft is not by_header.draft)
    return Fitting(params, pair, planned, measured)


def _planned_again(pair: PairNeeds, before: Plan) -> Plan:
    """Plan with measured sizes, which hold for the shares of the measured placement; keep these shares if they fit."""
    planned, was = pair.plan(), before.target
    if planned.target.devices != was.devices or planned.target.tensor_split == was.tensor_split:
        return planned
    asked = replace(pair.asked, devices=was.devices, tensor_split=was.tensor_split)
    kept = replace(pair, asked=asked, draft_asked=planned.draft or pair.draft_asked).plan()
    return kept if kept.fits else planned


def _placed(params: PairParams, planned: Plan, pair: PairNeeds) -> PairParams:
    if len(pair.rooms) == 1:
        return params
    return replace(params, model=planned.target, draft_model=planned.draft or params.draft_model)


def _buffers_of(placed: ModelParams) -> tuple[object, ...]:
    """Return what the compute buffers depend on; with experts in RAM, they hold copies of some."""
    return placed.devices, placed.tensor_split, bool(placed.cpu_experts)


def with_open_context(found: Fitting) -> Fitting:
    """Return the placement with the longest affordable context, if the settings leave it open.

    It fits with room to spare, and every layer stays where it is. A context that the command prefers may cost more.
    """
    asked, target = found.asked, found.needs.target
    trained = longest_trained(target.n_ctx_train)
    lengths = [n for n in dict.fromkeys(min(n, trained) for n in _CONTEXT_LENGTHS) if n > target.n_ctx]
    if asked.n_ctx is not None or asked.n_ctx_auto is not None:
        return found
    for length in lengths:
        longer = found.needs.with_context(length)
        planned = longer.plan()
        costs = max(
            (load.need_bytes - was.need_bytes) / max(1, load.room_bytes)
            for load, was in zip(planned.loads, found.plan.loads, strict=False)
        )
        most = 1.0 if length <= asked.preferred_ctx else _CONTEXT_SHARE
        if _is_same_place(planned, found.plan) and planned.fullness <= _MAX_USED_SHARE and costs <= most:
            return replace(found, asked=replace(asked, n_ctx_auto=length), needs=longer, plan=planned)
    return found


def _is_same_place(planned: Plan, before: Plan) -> bool:
    pairs = ((planned.target, before.target), (planned.draft, before.draft))
    return planned.fits and all(
        now is was or (now and was and replace(now, tensor_split=()) == replace(was, tensor_split=()))
        for now, was in pairs
    )


def context_room(found: Fitting) -> int:
    """Return the longest context that fits, up to the target's training context, in tokens.

    Experts that are on a GPU stay there; where some are in RAM, more may follow.
    """
    pair, target = found.needs, found.needs.target
    if not found.plan.n_in_ram:
        pair = pair.over({"model.n_cpu_moe": 0})
    longest = max(target.n_ctx, longest_trained(target.n_ctx_train))
    lengths = range(target.n_ctx, longest + 1, CELLS)
    return lengths[max(1, bisect_left(lengths, True, key=lambda n: not pair.with_context(n).plan().fits)) - 1]
