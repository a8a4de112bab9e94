"""Weigh, order and recommend pairs by memory and speed, without network access."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from app.core.units import memory_size
from app.hardware.devices import Device, fast_devices
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT, ModelMemory
from app.models.pair_summary import free_name, is_known, model_bytes, pair_memory, weights
from app.models.registry import Registered
from app.models.source import HubModel
from app.settings.model_params import ModelParams
from app.settings.placement import experts_in_ram

if TYPE_CHECKING:
    from app.hardware.fit import Rooms
    from app.hardware.measured import Measured

PLEASANT = 8.0
"""Pleasant speed in tokens per second without drafts: people read five or six, and skim faster."""
N_PROPOSED = 3
_TIGHT_FIT_SHARE = 0.9
_IDLE_SHARE = 0.85
"""Share of a memory that is usually free while other programs use little."""
_FAST_TOK_PER_S = 30.0
"""Higher speeds do not matter to a reader, and their estimates are poor."""
_USUAL_BYTES_PER_S = 40e9
"""Bandwidth of a desktop's RAM if it is not measured; it orders pairs and is never shown."""
_SPEED_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
"""Rounded estimates in tokens per second."""


class Fit(Enum):
    """How well a pair fits into memory."""

    FITS = "fits"
    TIGHT = "tight"
    TOO_BIG = "too big"
    UNKNOWN = "unknown"
    UNWEIGHED = ""
    """The memory of this machine is not known yet."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Memory and bandwidth of this machine, and the context length of the settings.

    Attributes:
        rooms: Devices that can hold layers, RAM last.
        bytes_per_s: Bandwidth of the device that gets layers first, if measured.
        ram_bytes_per_s: Measured bandwidth of RAM beside a GPU with its own memory.
    """

    rooms: Rooms
    bytes_per_s: float | None = None
    ram_bytes_per_s: float | None = None
    n_ctx: int = DEFAULT_CONTEXT
    measured: Mapping[str, Measured] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pair weighed against the machine.

    Attributes:
        need_bytes: Memory for both models with the context of the settings.
        reason: Why it was proposed, as a short clause.
        speed: Expected tokens per second without drafts, measured or estimated, if known.
        measured: The measured speed as text; None for an estimate.
        drafting: The measured effect of the draft as a sentence, if known.
        slow: Whether it is slower than people read.
        layers_in_ram: Layers whose experts are in RAM, because the GPU lacks memory for them.
        larger_have_no_disk: Whether larger pairs lack only disk space, for the first proposal.
        fits_when_idle: Whether it is too big only because other programs use memory now.
    """

    pair: Pair
    fit: Fit
    need_bytes: int = 0
    reason: str = ""
    speed: float | None = None
    measured: str | None = None
    drafting: str | None = None
    slow: bool = False
    layers_in_ram: int = 0
    larger_have_no_disk: bool = False
    fits_when_idle: bool = False

    @property
    def word(self) -> str:
        """The fit in a word or two; "" while it is unknown. "slow" takes precedence, because free memory changes."""
        return "slow" if self.slow else "no room" if self.fits_when_idle else self.fit.value

    @property
    def summary(self) -> str | None:
        return f"{self.word}: {self.reason}" if self.word else None

    @property
    def pace(self) -> str | None:
        """The expected speed as text; None if unknown, or too fast to matter."""
        if self.measured:
            return self.measured
        if self.speed is None or self.speed >= _FAST_TOK_PER_S:
            return None
        return "under 1 tok/s" if self.speed < 0.5 else f"about {max(1.0, self.speed):.0f} tok/s"


def weigh(pair: Pair, capacity: Capacity | None, devices: tuple[str, ...] = ()) -> Proposal:
    """Plan a pair on this machine, if its memory is known; `devices` limits the devices for layers."""
    # The first frame needs only the types of this module.
    from app.hardware.fit import PairNeeds

    if capacity is None:
        return Proposal(pair, Fit.UNWEIGHED)
    known = capacity.measured.get(pair.name)
    drafting = known.drafting if known is not None and pair.draft is not None else None
    found = Proposal(pair, Fit.UNKNOWN, drafting=f"Here: {drafting}." if drafting else None)
    if not weights(pair):
        is_remote = isinstance(pair.target, HubModel)
        reason = "only Hugging Face knows its size" if is_remote else "its files are not here"
        return replace(found, reason=reason)
    memory = pair_memory(pair, capacity.n_ctx)
    needs = PairNeeds(memory, None, capacity.rooms, ModelParams(devices=devices))
    planned = needs.plan()
    rough, moved = "" if is_known(pair) else "about ", planned.n_in_ram
    gpus = [gpu for gpu in capacity.rooms if gpu.name in devices] if devices else fast_devices(capacity.rooms)
    on_gpu = all(gpu.has_own_memory for gpu in gpus) and not planned.target.on_cpu
    need = memory.total - (memory.always_ram if on_gpu else 0)
    where = " RAM" if moved else ""
    if not planned.fits:
        lacking = planned.lacking if on_gpu else max(load.lacking for load in planned.loads)
        idle = tuple(replace(room, free_bytes=_idle_bytes(room)) for room in capacity.rooms)
        fits_when_idle = replace(needs, rooms=idle).plan().fits
        limit = "is free now: other programs use the rest" if fits_when_idle else "is free for models"
        reason = f"needs {rough}{memory_size(need)}, {memory_size(lacking)} more{where} than {limit}"
        return replace(found, fit=Fit.TOO_BIG, need_bytes=need, reason=reason, fits_when_idle=fits_when_idle)
    if on_gpu and not moved:
        free = sum(gpu.room_bytes for gpu in gpus)
        spare = free - need
    else:
        # Experts fill a GPU completely, so the rest of RAM decides.
        loads = planned.loads[-1:] if moved else planned.loads
        tightest = min(loads, key=lambda load: load.room_bytes - load.need_bytes)
        free, spare = tightest.room_bytes, tightest.room_bytes - tightest.need_bytes
    fit = Fit.TIGHT if spare < (1 - _TIGHT_FIT_SHARE) * free else Fit.FITS
    speed, slow = _speed(pair, capacity, memory, moved)
    measured = known.speed if known is not None else None
    found = replace(found, fit=fit, need_bytes=need, speed=speed, measured=measured, slow=slow, layers_in_ram=moved)
    reason = f"{'only ' if fit is Fit.TIGHT else ''}{rough}{memory_size(spare)}{where} to spare"
    if moved:
        reason = f"{rough}{experts_in_ram(moved, pair.expert_layers)}, {reason}"
    if found.pace:
        reason = f"{found.pace}; {reason}"
    elif slow:
        reason += "; slow without a GPU"
    return replace(found, reason=reason)


def _idle_bytes(room: Device) -> int:
    return max(room.free_bytes, int(_IDLE_SHARE * room.total_bytes))


def propose(weighed: Sequence[Proposal], has_disk: Callable[[Pair], bool] = lambda _: True) -> list[Proposal]:
    """Return the best of the pairs weighed against a machine, and two alternatives, best first.

    The best is the largest that fits with room to spare at a pleasant speed, or the fastest that fits; pairs whose
    drafting is known to pay come first, and pairs of the same size keep the catalog's order. Alternatives are the
    largest remaining pair, the next of that size, smaller pairs, and the smallest slow pair, or a pair that needs no
    RAM for experts.

    `has_disk` says whether the disk has room for a download; pairs without it are proposed only if no other pair fits.
    """
    real = [p for p in weighed if not p.pair.is_demo]
    fits = [p for p in real if p.fit is Fit.FITS] or [p for p in real if p.fit is Fit.TIGHT]
    on_disk = [p for p in fits if has_disk(p.pair)]
    tight = [p for p in real if p.fit is Fit.TIGHT and has_disk(p.pair)]
    found = _ordered(on_disk or tight or fits)
    if not found:
        return [p for p in weighed if p.pair.is_demo]
    best, *others = found
    beyond = (on_disk or tight) and [p for p in fits if not has_disk(p.pair) and p.need_bytes > best.need_bytes]
    return [replace(best, larger_have_no_disk=any(not p.slow for p in beyond)), *others]


def _ordered(fits: Sequence[Proposal]) -> list[Proposal]:
    pleasant = sorted((p for p in fits if not p.slow), key=lambda p: (not p.pair.is_known_to_pay, -p.pair.memory_gb))
    slow = sorted((p for p in fits if p.slow), key=lambda p: bytes_per_token(p.pair))
    if not pleasant:
        return slow[:N_PROPOSED]
    best = pleasant[0]
    larger = [p for p in pleasant if p.pair.memory_gb > best.pair.memory_gb][:1]
    alike = [p for p in pleasant[1:] if p.pair.memory_gb == best.pair.memory_gb]
    others = [p for p in pleasant if p not in larger and p.pair.memory_gb != best.pair.memory_gb]
    slower = sorted(slow, key=lambda p: p.pair.memory_gb <= best.pair.memory_gb)
    ordered = [best, *larger, *alike[:1], *others, *alike[1:]]
    if not slower and all(p.layers_in_ram for p in ordered[:N_PROPOSED]):
        slower = [p for p in ordered if not p.layers_in_ram]
    return [*ordered[: N_PROPOSED - len(slower[:1])], *slower][:N_PROPOSED]


def why(proposals: Sequence[Proposal]) -> str:
    """Explain as a sentence why the first proposal is the best."""
    best = proposals[0]
    name, pace = best.pair.name, f", {best.pace}" if best.pace else ""
    if best.pair.is_demo:
        return f"Only {name} fits into this memory."
    if best.slow:
        return f"Every model that fits is slow here; {name} is the fastest{pace}."
    disk = "; the disk has no room for larger ones" if best.larger_have_no_disk else ""
    just = ", with little memory to spare" if best.fit is Fit.TIGHT else ""
    return f"{name} is the best pair that fits and answers at reading speed{pace}{just}{disk}."


def _speed(pair: Pair, capacity: Capacity, memory: ModelMemory, moved: int) -> tuple[float | None, bool]:
    if (measured := capacity.measured.get(pair.name)) is not None:
        return measured.tokens_per_second, measured.tokens_per_second < PLEASANT
    total, in_ram = bytes_per_token(pair), 0
    if moved:
        shared = (model_bytes(pair.target) or weights(pair)) - sum(memory.experts)
        in_ram = max(0, total - max(0, shared)) * moved // len(memory.experts)
    if capacity.bytes_per_s is None or (moved and capacity.ram_bytes_per_s is None):
        from_ram = in_ram if moved else 0 if fast_devices(capacity.rooms) else total
        return None, from_ram * PLEASANT > _USUAL_BYTES_PER_S
    speed = 1 / ((total - in_ram) / capacity.bytes_per_s + in_ram / (capacity.ram_bytes_per_s or math.inf))
    if 0.5 <= speed < _FAST_TOK_PER_S:
        speed = float(min(_SPEED_STEPS, key=lambda step: abs(math.log(speed / step))))
    return speed, speed < PLEASANT


def bytes_per_token(pair: Pair) -> int:
    """Return the bytes that the target reads for one token."""
    return pair.bytes_per_token or model_bytes(pair.target) or weights(pair)


@dataclass(frozen=True, slots=True)
class Standing:
    """Status of a weighed pair."""

    proposal: Proposal
    set_up: bool = False
    here: bool = False
    is_default: bool = False
    is_new: bool = False

    @property
    def pair(self) -> Pair:
        return self.proposal.pair


StandingT = TypeVar("StandingT", bound=Standing)


def every_pair(
    catalog: Mapping[str, Pair], registered: Registered, found: Iterable[Pair] = (), *, has_demo: bool = True
) -> dict[str, Pair]:
    """Return the registered pairs, the catalog's pairs, whose entries are newer, and pairs found on this machine.

    If a newer catalog changes the files of a pair, the registered pair stays. Without `has_demo` the demo is left out.
    """
    newer = {name: pair for name, pair in catalog.items() if registered.in_place_of(pair) is None}
    pairs = {name: one.pair for name, one in registered.pairs.items()} | newer
    for pair in found:
        if pair.target not in [other.target for other in pairs.values()]:
            name = free_name(pair, pairs)
            pairs[name] = replace(pair, name=name)
    return {name: pair for name, pair in pairs.items() if has_demo or not pair.is_demo}


def in_order(standings: Sequence[StandingT], proposed: Sequence[Proposal]) -> list[StandingT]:
    """Sort pairs: set up, here, new, proposed, then fast pairs by size, slow pairs by speed, too big pairs by need.

    `proposed` is the result of `propose`; empty while the machine is unknown.
    """
    best = proposed[0].pair.name if proposed else None
    return sorted(standings, key=lambda standing: _rank(standing, best))


def _rank(one: Standing, best: str | None) -> tuple[int, int, int]:
    fit = one.proposal.fit
    if one.set_up:
        return 0, not one.is_default, 0
    if one.here:
        return 1, fit is Fit.TOO_BIG, 0
    if one.is_new:
        return 2, 0, 0
    if one.pair.name == best:
        return 3, 0, 0
    if fit in (Fit.UNKNOWN, Fit.UNWEIGHED):
        return 7, 0, 0
    if fit is Fit.TOO_BIG:
        return 6, one.proposal.need_bytes, 0
    if one.proposal.slow:
        return 5, bytes_per_token(one.pair), 0
    return 4, fit is Fit.TIGHT, -one.pair.memory_gb
