"""Memory that models can be put into, device by device. All sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from app.settings.placement import CPU

MAIN = CPU
"""RAM, and the processor in front of it, among the names of devices."""
_CARD_RESERVE = 768 << 20
"""Left free on a card: the driver's context and kernels take some hundred MiB when the first model is loaded."""
_MAIN_SHARE = 0.9
"""Of free RAM; the rest is for everything else that runs."""


@dataclass(frozen=True, slots=True)
class DeviceRoom:
    """Memory that models can be put into.

    Attributes:
        name: llama.cpp's name, or `MAIN`.
        kind: "gpu" has memory of its own, "igpu" shares RAM, "software" is the processor, which plays a card:
            nothing is put there unless it is named.
        backend: Such as "CUDA"; a model is only split over devices of one backend.
        free_bytes: Now.
        description: What it is, such as "NVIDIA GeForce RTX 4090"; "" where that is not known.
        total_bytes: Its memory; 0 the same.
        in_main: Of a "gpu" that its memory is RAM still: Apple's are fast enough to be cards.
    """

    name: str
    kind: Literal["cpu", "gpu", "igpu", "software"]
    backend: str
    free_bytes: int
    description: str = ""
    total_bytes: int = 0
    in_main: bool = False

    @property
    def has_own_memory(self) -> bool:
        return self.kind == "gpu" and not self.in_main

    @property
    def room_bytes(self) -> int:
        """Return what models may take, after the reserve."""
        if self.has_own_memory:
            return max(0, self.free_bytes - _CARD_RESERVE)
        return int(_MAIN_SHARE * self.free_bytes)

    def with_room(self, room_bytes: int) -> DeviceRoom:
        """The same device with so much that models may take."""
        free = room_bytes + _CARD_RESERVE if self.has_own_memory else int(room_bytes / _MAIN_SHARE)
        return replace(self, free_bytes=free)


def main_memory_room(free_bytes: int) -> DeviceRoom:
    """RAM with so much of it free."""
    return DeviceRoom(MAIN, "cpu", "CPU", free_bytes)


def fast_devices(rooms: tuple[DeviceRoom, ...]) -> tuple[DeviceRoom, ...]:
    """The devices that layers go to unless told otherwise, the fastest first; () where only the processor is left.

    Discrete cards, all of the backend that has the most of them in memory: the same card may stand in the list under
    two backends, and would be counted twice.
    """
    cards = [room for room in rooms if room.kind == "gpu"] or [room for room in rooms if room.kind == "igpu"]
    backends = dict.fromkeys(room.backend for room in cards)
    if not backends:
        return ()
    most = max(backends, key=lambda backend: sum(room.free_bytes for room in cards if room.backend == backend))
    return tuple(room for room in cards if room.backend == most)
