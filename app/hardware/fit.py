"""Place the layers of a pair on devices, before loading; sizes in, a plan out. All sizes are bytes.

All layers of both models belong on the fastest device. The draft runs once per drafted token, so it is whole on one
device: waiting between devices would cost more than it saves. Draft layers that share tensors with the target are on
its devices, because llama.cpp aborts if it cannot compute with this tensor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Any

from app.core.errors import UsageError
from app.core.units import counted
from app.hardware.devices import Device, fast_devices
from app.models.memory_estimate import ModelMemory
from app.settings.layers import Layer
from app.settings.model_params import ANYWHERE, DRAFT_ANYWHERE, ModelParams
from app.settings.placement import ALL_LAYERS, CPU

Rooms = tuple[Device, ...]
"""All devices in llama.cpp's order, RAM last."""


def main_memory_room(free_bytes: int, total_bytes: int = 0) -> Device:
    """Return RAM as a device; `total_bytes` is 0 if unknown."""
    return Device(CPU, "cpu", "CPU", free_bytes, total_bytes=total_bytes)


@dataclass(frozen=True, slots=True)
class Load:
    """Bytes of a device: needed by the pair, available to models, free."""

    device: str
    need_bytes: int
    room_bytes: int
    free_bytes: int

    @property
    def lacking(self) -> int:
        return max(0, self.need_bytes - self.room_bytes)


@dataclass(frozen=True, slots=True)
class Plan:
    """Placement of both models, and the memory of each used device, RAM last."""

    target: ModelParams
    draft: ModelParams | None
    loads: tuple[Load, ...]

    @property
    def n_in_ram(self) -> int:
        """Layers of the target whose experts are in RAM."""
        return self.target.cpu_experts or 0

    @property
    def fits(self) -> bool:
        return self.lacking == 0

    @property
    def lacking(self) -> int:
        """Missing bytes on all devices together."""
        return sum(load.lacking for load in self.loads)

    @property
    def fits_gpus(self) -> bool:
        """Whether every device except RAM has enough memory."""
        return not any(load.lacking for load in self.loads if load.device != CPU)

    @property
    def fullness(self) -> float:
        """The highest share of a device's memory that is needed; above 1, the pair does not fit."""
        return max(load.need_bytes / max(1, load.room_bytes) for load in self.loads)


@dataclass(frozen=True, slots=True)
class PairNeeds:
    """Memory that a pair needs, the devices that have some, and what is asked of its placement.

    Attributes:
        rooms: Every device in llama.cpp's order, RAM last.
        asked: Place of the target; what it leaves open is planned.
    """

    target: ModelMemory
    draft: ModelMemory | None
    rooms: Rooms
    asked: ModelParams = ANYWHERE
    draft_asked: ModelParams = DRAFT_ANYWHERE

    @property
    def total(self) -> int:
        """Bytes of both models."""
        return self.target.total + (self.draft.total if self.draft is not None else 0)

    def with_context(self, n_ctx: int) -> PairNeeds:
        draft = self.draft.with_context(n_ctx) if self.draft is not None else None
        return replace(self, target=self.target.with_context(n_ctx), draft=draft)

    def over(self, settings: Layer) -> PairNeeds:
        """Return what the pair needs with other values of the settings that change its memory or its place."""
        values: Any = settings
        target, draft = self.target, self.draft
        if "draft.mode" in values:
            # Snapshots of the target's state only serve drafts.
            target, draft = replace(target, snapshots=0), None
        if "model.kv_type" in values:
            target = target.with_kv_type(values["model.kv_type"])
        if draft is not None and "draft.kv_type" in values:
            draft = draft.with_kv_type(values["draft.kv_type"])
        asked, draft_asked = self.asked.over(settings, "model"), self.draft_asked.over(settings, "draft")
        changed = replace(self, target=target, draft=draft, asked=asked, draft_asked=draft_asked)
        return changed.with_context(values["model.ctx"]) if "model.ctx" in values else changed

    def plan(self) -> Plan:
        """Place both models: the first placement that fits, else the closest.

        The target goes whole on the fastest device, or over all of one backend; the draft whole on the fastest with
        room, or on one of the devices that are named for the target. A mixture that is too large for the devices leaves
        the experts of as few layers in RAM as fit.

        Raises:
            UsageError: A device is named that is not there.
        """
        _check(self)
        # With --override-tensor alone, no experts are placed automatically.
        given = 0 if self.asked.overrides and self.asked.cpu_experts is None else self.asked.cpu_experts
        whole = _best(_placements(self, given or 0))
        if whole.fits or given is not None or not self._can_move_experts(whole):
            return whole
        counts = range(1, len(self.target.experts) + 1)
        fewest = bisect_left(counts, True, key=lambda n: any(found.fits_gpus for found in _placements(self, n)))
        return _best(chain([whole], _placements(self, counts[fewest]) if fewest < len(counts) else ()))

    def _can_move_experts(self, whole: Plan) -> bool:
        """Return whether experts in RAM would free device memory; those of layers in RAM, and of an iGPU, do not."""
        own = {room.name for room in self.rooms if room.has_own_memory}
        is_whole = whole.target.n_gpu_layers == ALL_LAYERS
        return bool(self.target.experts) and is_whole and own.issuperset(whole.target.devices)


def _best(placements: Iterable[Plan]) -> Plan:
    """Return the first placement that fits, else the closest; with many GPUs, trying all would take milliseconds."""
    tried = []
    for found in placements:
        tried.append(found)
        if found.fits:
            return found
    return min(tried, key=lambda plan: plan.lacking)


def _check(pair: PairNeeds) -> None:
    rooms, asked = pair.rooms, pair.asked
    known = {room.name.lower(): room.name for room in rooms}
    for name in (*asked.devices, *pair.draft_asked.devices):
        if name.lower() not in known:
            # Detecting the machine is slow, so only this error does it.
            from app.hardware.builds import unused_gpu_hint
            from app.hardware.installation import installation
            from app.hardware.machine import detect

            machine = detect()
            other = unused_gpu_hint(machine, rooms, installation(machine.system))
            there = f"There are: {', '.join(known.values())}; or auto."
            raise UsageError(f"There is no device {name} here.", " ".join(filter(None, (there, other))))
    n_shares, n_devices = len(asked.tensor_split), len(fast_devices(rooms))
    if n_shares and not asked.devices and n_shares != n_devices:
        raise UsageError(
            f"The tensor split has {counted(n_shares, 'share')} for {counted(n_devices, 'device')}.",
            "Name the devices (⟨model.device⟩), and give each a share.",
        )


def _placements(pair: PairNeeds, cpu_experts: int) -> Iterator[Plan]:
    by_name = {room.name.lower(): room for room in pair.rooms}
    asked, fast = replace(pair.asked, cpu_experts=cpu_experts), fast_devices(pair.rooms) or (by_name[CPU],)
    named, draft_named = (
        tuple(by_name[name.lower()] for name in ((CPU,) if model.on_cpu else model.devices))
        for model in (asked, pair.draft_asked)
    )
    choices = [named or fast]
    if not named and not asked.tensor_split and len(fast) > 1:
        choices = [*((room,) for room in fast), fast]
    for devices in choices:
        for draft in _draft_placements(pair, devices, draft_named or named or fast):
            loads: dict[str, int] = {}
            if pair.draft is not None and draft is not None:
                _add(loads, pair.draft, draft, by_name)
            target = _place(pair.target, devices, loads, asked)
            _add(loads, pair.target, target, by_name)
            used = [(by_name[name.lower()], need) for name, need in loads.items()]
            used.sort(key=lambda one: one[0].name == CPU)
            loaded = (Load(room.name, need, room.room_bytes, room.free_bytes) for room, need in used)
            yield Plan(target, draft, tuple(loaded))


def _draft_placements(pair: PairNeeds, target_devices: Rooms, rooms: Rooms) -> Sequence[ModelParams | None]:
    if pair.draft is None:
        return (None,)
    if pair.draft.follows_target:
        return (beside(pair.draft_asked, pair.asked, tuple(room.name for room in target_devices)),)
    return [replace(pair.draft_asked, devices=(room.name,)) for room in rooms]


def beside(draft: ModelParams, target: ModelParams, devices: tuple[str, ...]) -> ModelParams:
    """Return the place of draft layers that share tensors with a target on these devices.

    They get all its devices, so that llama.cpp can compute with every shared tensor. The layers are on the last device
    with a share, where the target's output is.
    """
    shares: tuple[float, ...] = ()
    if target.n_gpu_layers == 0:
        devices = (CPU,)
    elif len(devices) > 1:
        given = target.tensor_split or (1.0,) * len(devices)
        last = max(i for i, share in enumerate(given) if share)
        shares = tuple(float(i == last) for i in range(len(devices)))
    is_split = draft.split or len(devices) > 1
    return replace(draft, devices=devices, tensor_split=shares, n_gpu_layers=ALL_LAYERS, split=is_split)


def _place(need: ModelMemory, devices: Rooms, loads: Mapping[str, int], asked: ModelParams) -> ModelParams:
    """Place the target; several devices get layers by the memory that the draft leaves them."""
    names = tuple(room.name for room in devices)
    n_experts = 0 if names == (CPU,) else min(asked.cpu_experts or 0, len(need.experts))
    shares = asked.tensor_split if len(devices) > 1 else ()
    placed = replace(asked, devices=names, tensor_split=shares, cpu_experts=n_experts)
    if len(devices) == 1 or shares:
        return placed
    left = [room.room_bytes - loads.get(room.name, 0) - _compute(need, placed, room.name) for room in devices]
    return replace(placed, tensor_split=_shares(need, left, placed))


def _shares(need: ModelMemory, left: Sequence[int], placed: ModelParams) -> tuple[float, ...]:
    """Return the share of layers on each device by its memory; the output is on the last device."""
    *others, last = (max(0, n) for n in left)
    rooms = (*others, max(0, last - need.output))
    if not any(rooms):
        return (1.0,) * len(left)
    sizes = _block_sizes(need, placed)
    goals = [sum(sizes) * n / sum(rooms) for n in accumulate(rooms)]
    ends, n, done = [0.0], 0, 0.0
    for room, goal in zip(others, goals, strict=False):
        used = 0.0
        while n < len(sizes) and done < goal and used + sizes[n] <= room:
            used += sizes[n]
            done += sizes[n]
            n += 1
        # Split between layers, so that rounding moves no layer.
        ends.append(max(0.0, (n - 0.5) / (len(sizes) + 1)))
    return tuple(round(end - start, 6) for start, end in pairwise([*ends, 1.0]))


def _add(loads: dict[str, int], need: ModelMemory, placed: ModelParams, by_name: Mapping[str, Device]) -> None:
    spread = _spread(need, placed)
    main = need.layers + need.always_ram
    main += need.repeated - sum(spread) if any(spread) else need.compute + need.projector
    for name, taken in zip(placed.devices, spread, strict=True):
        if not taken:
            continue
        compute = _compute(need, placed, name)
        loads[name] = loads.get(name, 0) + taken + compute
        if not by_name[name.lower()].has_own_memory:
            main += taken + compute
    loads[CPU] = loads.get(CPU, 0) + main


def _compute(need: ModelMemory, placed: ModelParams, device: str) -> int:
    found = dict(need.compute_on).get(device.lower())
    if found is None:
        # llama.cpp lets batches overlap only if no layer is in RAM.
        overlaps = len(placed.devices) > 1 and placed.n_gpu_layers == ALL_LAYERS and not placed.cpu_experts
        found = need.compute + need.overlap * overlaps
    projector = need.projector if device == placed.devices[0] else 0
    return found + projector + (need.expert_copy if placed.cpu_experts else 0)


def _spread(need: ModelMemory, placed: ModelParams) -> list[int]:
    """Return the bytes of weights and KV cache on each device, in whole layers as llama.cpp assigns them.

    The output is the last layer, and the first that is on a device.
    """
    shares = placed.tensor_split or (1.0,)
    taken = [0.0] * len(shares)
    if not placed.on_cpu:
        sizes = [*_block_sizes(need, placed), need.output]
        ends = [end / sum(shares) for end in accumulate(shares)]
        for layer, size in enumerate(sizes):
            taken[min(bisect_right(ends, layer / len(sizes)), len(shares) - 1)] += size
    return [int(n) for n in taken]


def _block_sizes(need: ModelMemory, placed: ModelParams) -> list[float]:
    """Return the bytes of each block on a device; the experts of the first blocks may be in RAM."""
    n_blocks = need.n_layers if placed.n_gpu_layers == ALL_LAYERS else min(placed.n_gpu_layers - 1, need.n_layers)
    first = need.n_layers - n_blocks
    n_cached = need.n_cached or need.n_layers
    context = [need.context / max(1, n_cached)] * n_cached + [0.0] * (need.n_layers - n_cached)
    experts = need.experts or (0,) * need.n_layers
    others = need.embedding + need.output - need.repeated + sum(experts)
    blocks = need.blocks or ((need.weights - others) / max(1, need.n_layers),) * need.n_layers
    n_in_ram = placed.cpu_experts or 0
    sizes = enumerate(zip(context, blocks, experts, strict=True))
    return [cached + n + (moving if i >= n_in_ram else 0) for i, (cached, n, moving) in sizes if i >= first]
