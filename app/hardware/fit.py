"""Place the layers of a pair on devices, before loading; sizes in, a plan out. All sizes are bytes.

All layers of both models belong on the fastest device. The draft runs once per drafted token, so it is whole on one
device: waiting between two would cost more than it saves. Draft layers that share tensors with the target are on its
devices, because llama.cpp aborts where it cannot compute with such a tensor.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from app.core.errors import UsageError
from app.core.units import counted
from app.hardware.devices import Device, fast_devices
from app.models.memory_estimate import ModelMemory
from app.settings.placement import ALL_LAYERS, CPU

MAIN = CPU
"""RAM and the CPU, among the names of devices."""
Rooms = tuple[Device, ...]
"""Every device in llama.cpp's order, RAM last."""


def main_memory_room(free_bytes: int, total_bytes: int = 0) -> Device:
    """Return RAM as a device; `total_bytes` is 0 if unknown."""
    return Device(MAIN, "cpu", "CPU", free_bytes, total_bytes=total_bytes)


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """Placement chosen by the user; the rest is planned.

    Attributes:
        devices: For the target; () plans them.
        draft_device: None plans it.
        gpu_layers: Of the target; `ALL_LAYERS` or a number.
        draft_gpu_layers: Of the draft.
        tensor_split: Share of each device; () goes by their room.
        cpu_experts: Layers whose experts stay in RAM; None for as few as fit.
    """

    devices: tuple[str, ...] = ()
    draft_device: str | None = None
    gpu_layers: int = ALL_LAYERS
    draft_gpu_layers: int = ALL_LAYERS
    tensor_split: tuple[float, ...] = ()
    cpu_experts: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Placement of one model: devices, the share of each (() for one), its layers there, and those without experts."""

    devices: tuple[str, ...]
    tensor_split: tuple[float, ...] = ()
    gpu_layers: int = ALL_LAYERS
    cpu_experts: int = 0


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
    """Placement of both models, and the memory of each device that is used, RAM last."""

    target: Placed
    draft: Placed | None
    loads: tuple[Load, ...]

    @property
    def fits(self) -> bool:
        return self.lacking == 0

    @property
    def lacking(self) -> int:
        """Missing bytes on all devices together."""
        return sum(load.lacking for load in self.loads)

    @property
    def fits_gpus(self) -> bool:
        """Every device but RAM has room."""
        return not any(load.lacking for load in self.loads if load.device != MAIN)

    @property
    def fullness(self) -> float:
        """The highest share of a device's room that is needed; above 1 it does not fit."""
        return max(load.need_bytes / max(1, load.room_bytes) for load in self.loads)


def plan(target: ModelMemory, draft: ModelMemory | None, rooms: Rooms, request: PlacementRequest | None = None) -> Plan:
    """Place both models: the first placement that fits, else the one that lacks least.

    The target goes whole on the fastest device, or over all of one backend; the draft whole on the fastest with room,
    or on one of the devices that are named for the target.
    A mixture that is too large for the devices leaves the experts of as few layers in RAM as fit. `request` has the
    fixed parts of the placement.

    Raises:
        UsageError: A request names a device that is not there.
    """
    request = request or PlacementRequest()
    _check(request, rooms)
    given = request.cpu_experts
    in_order = _placements(target, draft, rooms, replace(request, cpu_experts=given or 0))
    whole = min(_up_to_first_fit(in_order), key=lambda found: found.lacking)
    if whole.fits or given is not None or not _can_move_experts(target, whole, rooms):
        return whole
    counts = [replace(request, cpu_experts=n) for n in range(1, len(target.experts) + 1)]

    def is_enough(counted: PlacementRequest) -> bool:
        return any(found.fits_gpus for found in _placements(target, draft, rooms, counted))

    fewest = bisect_left(counts, True, key=is_enough)
    moved = _placements(target, draft, rooms, counts[fewest]) if fewest < len(counts) else iter(())
    return min([whole, *_up_to_first_fit(moved)], key=lambda found: found.lacking)


def _up_to_first_fit(placements: Iterator[Plan]) -> Iterator[Plan]:
    """Yield placements until one fits and so lacks nothing; with many GPUs, the others would take milliseconds."""
    for found in placements:
        yield found
        if found.fits:
            return


def _can_move_experts(target: ModelMemory, whole: Plan, rooms: Rooms) -> bool:
    """Return whether experts in RAM would give devices room; layers in RAM have theirs there, and so does an iGPU."""
    own = {room.name for room in rooms if room.has_own_memory}
    return bool(target.experts) and whole.target.gpu_layers == ALL_LAYERS and own.issuperset(whole.target.devices)


def _check(request: PlacementRequest, rooms: Rooms) -> None:
    known = {room.name.lower(): room.name for room in rooms}
    for name in (*request.devices, *filter(None, (request.draft_device,))):
        if name.lower() not in known:
            # A slow look at the machine, for this error alone.
            from app.hardware.builds import unused_gpu_hint
            from app.hardware.installation import installation
            from app.hardware.machine import detect

            machine = detect()
            other = unused_gpu_hint(machine, rooms, installation(machine.system))
            there = f"There are: {', '.join(known.values())}; or auto."
            raise UsageError(f"There is no device {name} here.", f"{there}{other}")
    n_shares, n_devices = len(request.tensor_split), len(fast_devices(rooms))
    if request.tensor_split and not request.devices and n_shares != n_devices:
        raise UsageError(
            f"The tensor split has {counted(n_shares, 'share')} for {counted(n_devices, 'device')}.",
            "Name the devices (⟨model.device⟩), and give each a share.",
        )


def _placements(
    target: ModelMemory, draft: ModelMemory | None, rooms: Rooms, request: PlacementRequest
) -> Iterator[Plan]:
    by_name = {room.name.lower(): room for room in rooms}
    fast = fast_devices(rooms) or (by_name[MAIN],)
    if request.devices:
        choices = [tuple(by_name[name.lower()] for name in request.devices)]
    elif request.tensor_split:
        choices = [fast]
    else:
        choices = [(room,) for room in fast] + ([fast] if len(fast) > 1 else [])
    for devices in choices:
        if request.draft_device:
            draft_rooms: Rooms = (by_name[request.draft_device.lower()],)
        else:
            draft_rooms = devices if request.devices else fast
        for placed_draft in _draft_placements(draft, devices, draft_rooms, request):
            loads: dict[str, int] = {}
            if draft is not None and placed_draft is not None:
                _add(loads, draft, placed_draft, by_name)
            placed = _place(target, devices, loads, request)
            _add(loads, target, placed, by_name)
            used = [(by_name[name.lower()], need) for name, need in loads.items()]
            used.sort(key=lambda one: one[0].name == MAIN)
            loaded = (Load(room.name, need, room.room_bytes, room.free_bytes) for room, need in used)
            yield Plan(placed, placed_draft, tuple(loaded))


def _draft_placements(
    draft: ModelMemory | None, devices: Rooms, draft_rooms: Rooms, request: PlacementRequest
) -> Sequence[Placed | None]:
    if draft is None:
        return (None,)
    if draft.follows_target:
        return (beside(tuple(room.name for room in devices), request.tensor_split, request.gpu_layers),)
    return [Placed((room.name,), gpu_layers=request.draft_gpu_layers) for room in draft_rooms]


def beside(devices: tuple[str, ...], tensor_split: tuple[float, ...], gpu_layers: int) -> Placed:
    """Return the place of draft layers that share tensors with a target in this place.

    They get all its devices, so that llama.cpp can compute with every shared tensor. The layers are on the last device
    that has a share, where the target's output is.
    """
    if gpu_layers == 0 or devices == (MAIN,):
        return Placed((MAIN,))
    if len(devices) < 2:
        return Placed(devices)
    shares = tensor_split or (1.0,) * len(devices)
    last = max((i for i, share in enumerate(shares) if share), default=0)
    return Placed(devices, tuple(float(i == last) for i in range(len(devices))))


def _place(need: ModelMemory, devices: Rooms, loads: Mapping[str, int], request: PlacementRequest) -> Placed:
    """Place the target; several devices get layers by the room that the draft leaves them."""
    names = tuple(room.name for room in devices)
    n_experts = 0 if names == (MAIN,) else min(request.cpu_experts or 0, len(need.experts))
    placed = Placed(names, gpu_layers=request.gpu_layers, cpu_experts=n_experts)
    if len(devices) == 1:
        return placed
    shares = request.tensor_split
    if not shares:
        left = [room.room_bytes - loads.get(room.name, 0) - _compute(need, placed, room.name) for room in devices]
        shares = _shares(need, left, placed)
    return replace(placed, tensor_split=shares)


def _shares(need: ModelMemory, left: Sequence[int], placed: Placed) -> tuple[float, ...]:
    """Return the share of layers on each device by its room; the output lies on the last one."""
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
        # Between two layers, so that rounding moves none.
        ends.append(max(0.0, (n - 0.5) / (len(sizes) + 1)))
    return tuple(round(end - start, 6) for start, end in pairwise([*ends, 1.0]))


def _add(loads: dict[str, int], need: ModelMemory, placed: Placed, by_name: Mapping[str, Device]) -> None:
    moved = offloaded(need, placed.gpu_layers, placed.cpu_experts) if placed.devices != (MAIN,) else 0
    main = need.layers + need.always_ram
    main += need.repeated - moved if moved else need.compute + need.projector
    for name, taken in zip(placed.devices, _spread(need, placed), strict=True):
        if not moved or not taken:
            continue
        compute = _compute(need, placed, name)
        loads[name] = loads.get(name, 0) + taken + compute
        if not by_name[name.lower()].has_own_memory:
            main += taken + compute
    loads[MAIN] = loads.get(MAIN, 0) + main


def _compute(need: ModelMemory, placed: Placed, device: str) -> int:
    found = dict(need.compute_on).get(device.lower())
    if found is None:
        # llama.cpp lets batches overlap only if no layer is in RAM.
        overlaps = len(placed.devices) > 1 and placed.gpu_layers == ALL_LAYERS and not placed.cpu_experts
        found = need.compute + need.overlap * overlaps
    projector = need.projector if device == placed.devices[0] else 0
    return found + projector + (need.expert_copy if placed.cpu_experts else 0)


def _spread(need: ModelMemory, placed: Placed) -> list[int]:
    """Return the bytes of the layers on each device, in whole layers as llama.cpp assigns them: the output last."""
    if len(placed.devices) == 1:
        return [offloaded(need, placed.gpu_layers, placed.cpu_experts)]
    shares = [share / sum(placed.tensor_split) for share in placed.tensor_split]
    sizes = [*_block_sizes(need, placed), need.output]
    ends = list(accumulate(shares))
    taken = [0.0] * len(shares)
    for layer, size in enumerate(sizes):
        taken[min(bisect_right(ends, layer / len(sizes)), len(shares) - 1)] += size
    return [int(n) for n in taken]


def offloaded(need: ModelMemory, gpu_layers: int, cpu_experts: int = 0) -> int:
    """Return the bytes of weights and KV cache in these layers; llama.cpp offloads the output and the last first."""
    if gpu_layers == 0:
        return 0
    return need.output + int(sum(_block_sizes(need, Placed((), (), gpu_layers, cpu_experts))))


def _block_sizes(need: ModelMemory, placed: Placed) -> list[float]:
    """Return the bytes of each block on a device; the experts of the first ones may be in RAM."""
    first = need.n_layers - _blocks(need, placed.gpu_layers)
    n_cached = need.n_cached or need.n_layers
    context = [need.context / max(1, n_cached)] * n_cached + [0.0] * (need.n_layers - n_cached)
    experts = need.experts or (0,) * need.n_layers
    others = need.embedding + need.output - need.repeated + sum(experts)
    blocks = need.blocks or ((need.weights - others) / max(1, need.n_layers),) * need.n_layers
    sizes = enumerate(zip(context, blocks, experts, strict=True))
    return [cached + n + (moving if i >= placed.cpu_experts else 0) for i, (cached, n, moving) in sizes if i >= first]


def _blocks(need: ModelMemory, gpu_layers: int) -> int:
    return need.n_layers if gpu_layers == ALL_LAYERS else min(max(0, gpu_layers - 1), need.n_layers)
