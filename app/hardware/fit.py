"""Place the layers of a pair on devices, before loading.

All layers of both models belong on the fastest device. The draft runs once per drafted token, so it is whole on one
device: waiting between two would cost more than it saves. What does not fit is not loaded in part in silence; the ways
out are counted and offered.

Pure: sizes in, a plan out. All sizes are bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from app.core.errors import UsageError
from app.core.units import counted
from app.hardware.device_room import MAIN, DeviceRoom, fast_devices
from app.models.memory_estimate import ModelMemory
from app.settings.placement import ALL_LAYERS


@dataclass(frozen=True, slots=True)
class Wishes:
    """Placement chosen by the user; the rest is planned.

    Attributes:
        devices: For the target; () plans them.
        draft_device: "" plans it.
        gpu_layers: Of the target; `ALL_LAYERS` or how many.
        draft_gpu_layers: Of the draft.
        tensor_split: Share of each device; () goes by the room that they have.
    """

    devices: tuple[str, ...] = ()
    draft_device: str = ""
    gpu_layers: int = ALL_LAYERS
    draft_gpu_layers: int = ALL_LAYERS
    tensor_split: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """Placement of one model: devices, the share of each (() for one), and its layers there."""

    devices: tuple[str, ...]
    tensor_split: tuple[float, ...] = ()
    gpu_layers: int = ALL_LAYERS


@dataclass(frozen=True, slots=True)
class Load:
    """Needed and available memory of a device."""

    device: str
    need_bytes: int
    room_bytes: int

    @property
    def lacking(self) -> int:
        return max(0, self.need_bytes - self.room_bytes)


@dataclass(frozen=True, slots=True)
class Plan:
    """A placement of both models.

    Attributes:
        target: Where the target goes.
        draft: Where the draft goes; None without one.
        loads: What each device that is used would hold.
    """

    target: Placed
    draft: Placed | None
    loads: tuple[Load, ...]

    @property
    def fits(self) -> bool:
        return self.lacking == 0

    @property
    def lacking(self) -> int:
        """Bytes that are missing, on all devices together."""
        return sum(load.lacking for load in self.loads)

    @property
    def fullness(self) -> float:
        """Need against room where it is tightest; above 1 it does not fit."""
        return max(load.need_bytes / max(1, load.room_bytes) for load in self.loads)


def plan(
    target: ModelMemory, draft: ModelMemory | None, rooms: tuple[DeviceRoom, ...], wishes: Wishes | None = None
) -> Plan:
    """Place both models: the first placement in which everything fits, or else the one that lacks least.

    The target goes whole on the fastest device, or over all that are of one kind; the draft whole on the fastest that
    has room. A discrete card counts as faster than an integrated one, and among cards llama.cpp's own order holds.

    Args:
        target: Of the model that answers.
        draft: Of the one that drafts, or None.
        rooms: Of every device, RAM among them, in llama.cpp's order.
        wishes: What is not to be planned.

    Raises:
        UsageError: A wish names a device that is not there.
    """
    wishes = wishes or Wishes()
    _check(wishes, rooms)
    best: Plan | None = None
    for found in _placements(target, draft, rooms, wishes):
        if found.fits:
            return found
        if best is None or found.lacking < best.lacking:
            best = found
    assert best is not None
    return best


def _check(wishes: Wishes, rooms: tuple[DeviceRoom, ...]) -> None:
    known = {room.name.lower(): room.name for room in rooms}
    for name in (*wishes.devices, *filter(None, (wishes.draft_device,))):
        if name.lower() not in known:
            raise UsageError(f"There is no device {name} here.", f"There are: {', '.join(known.values())}; or auto.")
    if wishes.tensor_split and not wishes.devices and len(wishes.tensor_split) != len(fast_devices(rooms)):
        numbers = f"{counted(len(wishes.tensor_split), 'share')} for {counted(len(fast_devices(rooms)), 'device')}"
        raise UsageError(f"The tensor split has {numbers}.", "Name the devices with --device, and give each a share.")


def _placements(
    target: ModelMemory, draft: ModelMemory | None, rooms: tuple[DeviceRoom, ...], wishes: Wishes
) -> Iterator[Plan]:
    by_name = {room.name.lower(): room for room in rooms}
    fast = fast_devices(rooms) or (by_name[MAIN],)
    if wishes.devices:
        choices = [tuple(by_name[name.lower()] for name in wishes.devices)]
    elif wishes.tensor_split:
        choices = [fast]
    else:
        choices = [(room,) for room in fast] + ([fast] if len(fast) > 1 else [])
    draft_choices = (by_name[wishes.draft_device.lower()],) if wishes.draft_device else fast
    for devices in choices:
        for room in draft_choices if draft is not None else (None,):
            loads: dict[str, int] = {}
            placed_draft = None
            if draft is not None and room is not None:
                placed_draft = Placed((room.name,), gpu_layers=wishes.draft_gpu_layers)
                _add(loads, draft, placed_draft, (1.0,), by_name)
            placed, shares = _place(target, devices, loads, wishes)
            _add(loads, target, placed, shares, by_name)
            yield Plan(
                placed,
                placed_draft,
                tuple(Load(name, need, by_name[name.lower()].room_bytes) for name, need in loads.items()),
            )


def _place(
    need: ModelMemory, devices: tuple[DeviceRoom, ...], loads: Mapping[str, int], wishes: Wishes
) -> tuple[Placed, tuple[float, ...]]:
    """The target on these devices; several get layers by the room that the draft leaves them."""
    names = tuple(room.name for room in devices)
    if len(devices) == 1:
        return Placed(names, gpu_layers=wishes.gpu_layers), (1.0,)
    shares = wishes.tensor_split
    if not shares:
        left = [room.room_bytes - loads.get(room.name, 0) - need.compute for room in devices]
        shares = _shares(need, left, wishes.gpu_layers)
    return Placed(names, shares, wishes.gpu_layers), tuple(share / sum(shares) for share in shares)


def _shares(need: ModelMemory, left: Sequence[int], gpu_layers: int) -> tuple[float, ...]:
    """What part of the layers goes to each device: blocks by the room that is left beside the output, on the last."""
    *others, last = (max(0, n) for n in left)
    for_blocks = (*others, max(0, last - need.output))
    if not any(for_blocks):
        return (1.0,) * len(left)
    blocks = _blocks(need, gpu_layers)
    layers = [blocks * n / sum(for_blocks) for n in for_blocks]
    layers[-1] += 1
    return tuple(round(n / (blocks + 1), 4) for n in layers)


def _add(
    loads: dict[str, int],
    need: ModelMemory,
    placed: Placed,
    shares: tuple[float, ...],
    by_name: Mapping[str, DeviceRoom],
) -> None:
    """Put a model's bytes onto the devices."""
    layers = need.layers
    moved = offloaded(need, placed.gpu_layers) if placed.devices != (MAIN,) else 0
    main = layers - moved + need.always_ram
    if not moved:
        main += need.compute
    for name, taken in zip(placed.devices, _spread(need, placed.gpu_layers, shares), strict=True):
        if not moved or not taken:
            continue
        loads[name] = loads.get(name, 0) + taken + need.compute
        if not by_name[name.lower()].has_own_memory:
            main += taken + need.compute
    loads[MAIN] = loads.get(MAIN, 0) + main


def _spread(need: ModelMemory, gpu_layers: int, shares: Sequence[float]) -> list[int]:
    """Bytes of the layers on each device, whole ones as llama.cpp gives them out: the output behind all blocks."""
    if len(shares) == 1:
        return [offloaded(need, gpu_layers)]
    blocks = _blocks(need, gpu_layers)
    block = (need.layers - need.output) / max(1, need.n_layers)
    ends = list(accumulate(shares))
    taken = [0.0] * len(shares)
    for layer in range(blocks + 1):
        device = min(bisect_right(ends, layer / (blocks + 1)), len(shares) - 1)
        taken[device] += block if layer < blocks else need.output
    # Most quantizations make some layers of a model larger than others.
    return [int(n + block) if n else 0 for n in taken]


def offloaded(need: ModelMemory, gpu_layers: int) -> int:
    """Bytes of weights and KV cache that so many layers are: for llama.cpp the output is the first, then the blocks."""
    if gpu_layers == 0:
        return 0
    blocks = _blocks(need, gpu_layers)
    return need.output + (need.layers - need.output) * blocks // max(1, need.n_layers)


def _blocks(need: ModelMemory, gpu_layers: int) -> int:
    """Return how many of its blocks are on devices."""
    return need.n_layers if gpu_layers == ALL_LAYERS else min(max(0, gpu_layers - 1), need.n_layers)
