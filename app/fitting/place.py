"""How much memory there is for models, and the machine in one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from app.errors import AppError
from app.hardware.cpu import default_threads
from app.hardware.device_room import main_memory_room
from app.hardware.machine import Machine, look
from app.llama.devices import Device, probe
from app.llama.throughput import probe_throughput
from app.pairing.propose import Room
from app.sizes import gigabytes, share_of


@dataclass(frozen=True, slots=True)
class Place:
    """Where models would go on this machine.

    Attributes:
        room: Memory of the graphics cards that this build of llama.cpp can use, or else main memory.
        line: The machine in one line.
    """

    room: Room
    line: str


def place() -> Place:
    """Look at the machine and at what the installed build can use of it."""
    machine = look()
    try:
        _, devices = probe(machine.ram_available)
    except AppError:
        # What is wrong with the library is `tandem doctor`'s to say; a proposal for main memory is still right.
        devices = ()
    return Place(_room(machine, devices), _line(machine, devices))


def _room(machine: Machine, devices: tuple[Device, ...]) -> Room:
    cards = [device for device in devices if device.kind == "gpu"]
    # What a card of its own can hold it also reads fast enough.
    shared = not cards or all(gpu.integrated for gpu in machine.gpus)
    bytes_per_s = probe_throughput(default_threads()) if shared and devices else None
    if not cards:
        return Room(main_memory_room(machine.ram_available).room_bytes, bytes_per_s=bytes_per_s)
    # llama.cpp spreads a model over cards of one kind; cards of two kinds are not added up.
    backend, _ = Counter(card.backend for card in cards).most_common(1)[0]
    same = [card for card in cards if card.backend == backend]
    names = Counter(card.description for card in same)
    device = " and ".join(_times(n, name) for name, n in names.items())
    return Room(sum(card.free_bytes for card in same), device, bytes_per_s)


def _times(n: int, name: str) -> str:
    return name if n == 1 else f"{n} x {name}"


def _line(machine: Machine, devices: tuple[Device, ...]) -> str:
    parts = [
        f"{device.description}, {share_of(device.free_bytes, device.total_bytes)}"
        for device in devices
        if device.kind == "gpu"
    ]
    parts += [f"{gpu.name}, which this build of llama.cpp cannot use" for gpu in machine.gpus if not parts]
    parts.append(f"{machine.physical_cores} cores")
    parts.append(f"{gigabytes(machine.ram_available)} of {gigabytes(machine.ram_total)} memory free")
    return " · ".join(parts)
