"""Machines with given memory for models."""

from collections.abc import Callable, Iterable
from typing import Any

from app.core.units import GB
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.drafting_report import Speedup
from app.hardware.devices import Device
from app.hardware.measured import Measured
from app.hardware.recommend import Capacity, Proposal, propose, weigh
from app.models.catalog import Pair
from app.settings.placement import CPU


def in_ram(n_bytes: float, **values: Any) -> Capacity:
    """Return a machine without a GPU."""
    return Capacity((Device(CPU, "cpu", "CPU", 0).with_room(int(n_bytes)),), **values)


def on_gpu(n_bytes: float, ram_bytes: float = 64 * GB, **values: Any) -> Capacity:
    """Return a machine with a GPU and RAM."""
    gpu, ram = Device("CUDA0", "gpu", "CUDA", 0), Device(CPU, "cpu", "CPU", 0)
    return Capacity((gpu.with_room(int(n_bytes)), ram.with_room(int(ram_bytes))), **values)


def proposed(pairs: Iterable[Pair], room: Capacity, *has_disk: Callable[[Pair], bool]) -> list[Proposal]:
    """Return what a machine proposes of these pairs."""
    return propose([weigh(pair, room) for pair in pairs], *has_disk)


def measured_at(tokens_per_second: float, speedup: float | None = None) -> Measured:
    """Return a measured speed without drafts, and the speedup of a benchmark."""
    known = Speedup(speedup, measured=True) if speedup is not None else None
    return Measured(CostModel(CostProfile({1: 1e9 / tokens_per_second})), None, speedup=known)
