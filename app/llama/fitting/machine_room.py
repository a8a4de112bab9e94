"""Memory and bandwidth for models on this machine, before a pair is chosen."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from app.core import json_file
from app.core.errors import AppError
from app.core.paths import memory_dir
from app.core.units import free_memory, memory_size
from app.hardware.builds import missed
from app.hardware.cpu import default_threads
from app.hardware.devices import Device
from app.hardware.fit import MAIN, Rooms, fast_devices, main_memory_room
from app.hardware.machine import Machine, detect
from app.llama.child import Throughput, probe, probe_throughput
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.installed import build_identity, is_cpu_only_build
from app.models.pair_info import PairInfo
from app.models.recommend import Room

FORMAT = 1
_VALID_S = 30 * 86_400.0
_VALID_BUSY_S = 3_600.0
"""How long a measurement is used; shorter if other programs ran beside it."""
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


def machine_room(released: Mapping[str, int] | None = None, *, with_speed: bool = True) -> tuple[str, Room]:
    """Return the machine in one line, and the memory for models that the installed build can use.

    Args:
        released: Bytes by device that are freed before other models are loaded; see `loaded_bytes`.
        with_speed: Measure the bandwidth of shared memory, which may take seconds the first time.
    """
    released = {name.lower(): n_bytes for name, n_bytes in (released or {}).items()}
    machine = detect()
    machine = replace(machine, ram_available=min(machine.ram_total, machine.ram_available + released.get(MAIN, 0)))
    devices: tuple[Device, ...] = ()
    only_cpu = is_cpu_only_build()
    if not only_cpu:
        # `tandem doctor` reports a broken library; a proposal for RAM is still right.
        with suppress(AppError):
            _, devices = probe(machine.ram_available)
    rooms = (*_with_released(memory_rooms(devices)[:-1], released), main_memory_room(machine.ram_available))
    gpus = fast_devices(rooms)
    is_shared = not all(gpu.has_own_memory for gpu in gpus)
    free = rooms[-1].room_bytes
    if gpus:
        on_gpus = sum(gpu.room_bytes for gpu in gpus)
        free = min(free, on_gpus) if is_shared else on_gpus
    on_card = bool(gpus) and not is_shared and not all(gpu.integrated for gpu in machine.gpus)
    speed = None
    # What a GPU's own memory can hold it also reads fast enough.
    if with_speed and not on_card and (only_cpu or devices):
        speed = bandwidth(build_identity(), machine.cpu, devices, default_threads(), memory_dir())
    room = Room(free, _names(gpus), speed, on_card=on_card)
    return _line(machine, devices, () if is_shared else gpus, room), room


def _with_released(rooms: Rooms, released: Mapping[str, int]) -> Rooms:
    """Return the devices with released memory counted as free, up to their total."""
    free = [room.free_bytes + released.get(room.name.lower(), 0) for room in rooms]
    return tuple(
        replace(room, free_bytes=min(n_bytes, room.total_bytes or n_bytes))
        for room, n_bytes in zip(rooms, free, strict=True)
    )


def _names(gpus: Rooms) -> str:
    names = Counter(gpu.description for gpu in gpus)
    return " and ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items())


def _line(machine: Machine, devices: Sequence[Device], gpus: Rooms, room: Room) -> str:
    ram, cores = memory_size(machine.ram_total), f"{machine.physical_cores} cores"
    if gpus:
        total = sum(gpu.total_bytes for gpu in gpus)
        free = free_memory(room.free_bytes, total) if total else f"{memory_size(room.free_bytes)} free"
        return f"{room.device}, {free} for models · {cores} · {ram} memory"
    unused = [f"{gpu.name}, which this build of llama.cpp cannot use" for gpu in missed(machine.gpus, devices)]
    memory = f"{memory_size(room.free_bytes)} of {ram} memory free for models"
    return " · ".join(filter(None, [room.device, *unused, cores, memory]))


def loaded_bytes(pair: PairInfo | None) -> Mapping[str, int]:
    """Return the bytes that a loaded pair releases by device, as estimated before it was loaded.

    RAM counts only without mapped weights, which are available to the system already.
    """
    by_device = {memory.device.lower(): memory.n_bytes for memory in pair.memory} if pair is not None else {}
    if MAIN in by_device:
        by_device[MAIN] = min(by_device[MAIN], own_bytes())
    return by_device


def own_bytes() -> int:
    """Return the memory of this process and its children without mapped files; 0 if unknown."""
    try:
        me = psutil.Process()
        found = [one.memory_info() for one in (me, *me.children(recursive=True))]
    except (OSError, psutil.Error):
        return 0
    return sum(int(info.rss - getattr(info, "shared", 0)) for info in found)


def bandwidth(
    build: str,
    cpu: str,
    devices: Sequence[Device],
    n_threads: int,
    folder: Path,
    *,
    measure: Callable[[int], Throughput | None] = probe_throughput,
    clock: Callable[[], float] = time.time,
) -> float | None:
    """Return the bytes of weights that this build computes with per second, measured once a month.

    Args:
        build: Identity of the installed llama.cpp.
        cpu: Name of the CPU.
        devices: Devices that the build lists.
        n_threads: CPU threads.
        folder: Where measurements are stored.
        measure: Measures with so many threads; takes seconds.
        clock: Seconds since 1970.

    Returns:
        None if it cannot be measured.
    """
    parts = [build, cpu, str(n_threads)]
    parts += [f"{device.backend} {device.name} {device.description}" for device in devices]
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    file = folder / "throughput" / f"{name}.json"
    stored = json_file.read(file, FORMAT, _stored)
    if stored is not None and 0 <= clock() - stored[1] < (_VALID_S if stored[0].alone else _VALID_BUSY_S):
        return stored[0].bytes_per_s
    found = measure(n_threads)
    if found is None:
        return stored[0].bytes_per_s if stored is not None else None
    try:
        raw = {"format": FORMAT, "bytes_per_s": found.bytes_per_s, "alone": found.alone, "at": clock()}
        json_file.write(file, raw)
    except OSError as error:
        log.warning("the bandwidth of this machine cannot be stored: %s", error)
    return found.bytes_per_s


def _stored(raw: Any) -> tuple[Throughput, float]:
    """Return a stored measurement and its time."""
    bytes_per_s, at = float(raw["bytes_per_s"]), float(raw["at"])
    if not math.isfinite(bytes_per_s) or bytes_per_s <= 0 or not math.isfinite(at):
        raise ValueError(f"{bytes_per_s} is no measurement")
    return Throughput(bytes_per_s, raw["alone"] is True), at
