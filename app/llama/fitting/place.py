"""Memory available for models, after the reserve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from app.core.errors import AppError
from app.core.paths import memory_dir
from app.core.units import free_memory, memory_size
from app.hardware.builds import missed
from app.hardware.cpu import default_threads
from app.hardware.device_room import MAIN, DeviceRoom, main_memory_room
from app.hardware.machine import Machine, look
from app.llama.fitting.speed import weights_per_second
from app.llama.installed import build_identity, computes_on_processors_only
from app.llama.probe import Device, probe
from app.models.recommend import Room

_CARDS = ("gpu", "igpu")
"""Kinds of devices that layers go to, the faster first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Devices and memory for models on this machine.

    Attributes:
        room: Of the GPUs that this build of llama.cpp can use, or else of RAM.
        line: The machine in one line.
    """

    room: Room
    line: str


def place(held: Mapping[str, int] | None = None, *, with_speed: bool = True) -> Place:
    """Look at the machine and at what the installed build can use of it.

    Args:
        held: Bytes that are given back before other models are loaded, by device; they count as free.
        with_speed: Whether it matters how fast models answer there, which may have to be measured first.
    """
    held = {name.lower(): n_bytes for name, n_bytes in (held or {}).items()}
    machine = look()
    machine = replace(machine, ram_available=min(machine.ram_total, machine.ram_available + held.get(MAIN, 0)))
    devices: tuple[Device, ...] = ()
    only_processor = computes_on_processors_only()
    if not only_processor:
        # What is wrong with the library is `tandem doctor`'s to say; a proposal for RAM is still right.
        with suppress(AppError):
            _, devices = probe(machine.ram_available)
    devices = tuple(_with_held(device, held.get(device.name.lower(), 0)) for device in devices)
    room = _room(machine, devices, measured=with_speed and (only_processor or bool(devices)))
    return Place(room, _line(machine, devices))


def _with_held(device: Device, held: int) -> Device:
    """A card that has got its memory back; what is given back to RAM was counted there."""
    if device.kind not in _CARDS:
        return device
    free = device.free_bytes + held
    return replace(device, free_bytes=min(free, device.total_bytes) if device.total_bytes else free)


def _room(machine: Machine, devices: tuple[Device, ...], *, measured: bool) -> Room:
    cards = _cards(devices)
    # What a card of its own can hold it also reads fast enough.
    shared = not cards or _share_memory(cards) or all(gpu.integrated for gpu in machine.gpus)
    room = Room(_for_models(machine, cards), _named(cards), on_card=not shared)
    if not shared or not measured:
        return room
    found = weights_per_second(build_identity(), machine.cpu, devices, default_threads(), memory_dir())
    return replace(room, bytes_per_s=found.bytes_per_s, at_least=not found.alone) if found is not None else room


def _cards(devices: tuple[Device, ...]) -> list[Device]:
    """The cards that models go to: llama.cpp spreads one over cards of one kind; those of two are not added up.

    Graphics that share RAM count where there is no other card.
    """
    cards = next(filter(None, ([d for d in devices if d.kind == kind] for kind in _CARDS)), [])
    backends = Counter(card.backend for card in cards).most_common(1)
    return [card for card in cards if card.backend == backends[0][0]]


def _share_memory(cards: list[Device]) -> bool:
    return any(card.kind == "igpu" for card in cards)


def _for_models(machine: Machine, cards: list[Device]) -> int:
    main = main_memory_room(machine.ram_available).room_bytes
    rooms = (DeviceRoom(c.name, "igpu" if c.kind == "igpu" else "gpu", c.backend, c.free_bytes) for c in cards)
    of_cards = sum(room.room_bytes for room in rooms)
    if not cards:
        return main
    return min(main, of_cards) if _share_memory(cards) else of_cards


def _named(cards: list[Device]) -> str:
    names = Counter(card.description for card in cards)
    return " and ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items())


def _line(machine: Machine, devices: tuple[Device, ...]) -> str:
    cards, total = _cards(devices), memory_size(machine.ram_total)
    room = _for_models(machine, cards)
    if cards and not _share_memory(cards):
        has = sum(card.total_bytes for card in cards)
        free = free_memory(room, has) if has else f"{memory_size(room)} free"
        return f"{_named(cards)}, {free} for models · {machine.physical_cores} cores · {total} memory"
    used = [_named(cards)] if cards else []
    unused = [f"{g.name}, which this build of llama.cpp cannot use" for g in missed(machine.gpus, devices)]
    return " · ".join(
        [*used, *unused, f"{machine.physical_cores} cores", f"{memory_size(room)} of {total} memory free for models"]
    )
