"""Memory for models: what this machine and RPC servers have, and what a pair needs."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from app.core import atomic
from app.core.child import ChildError, ask
from app.core.errors import AppError
from app.core.paths import memory_dir
from app.core.units import free_memory, memory_size
from app.hardware.builds import missed
from app.hardware.cpu import OthersUse, default_threads
from app.hardware.devices import Device, fast_devices
from app.hardware.fit import PairNeeds, Rooms, main_memory_room
from app.hardware.machine import Machine, detect, main_memory
from app.hardware.recommend import Capacity
from app.llama.child import SafeFiles, probe
from app.llama.installed import build_identity, is_cpu_only_build
from app.models.memory_estimate import ModelMemory, draft_memory, estimate_memory, with_tensors
from app.models.model_facts import read_facts
from app.models.pair_info import PairInfo
from app.settings.placement import CPU

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.params import PairParams
    from app.settings.model_params import ContextParams, ModelParams


FORMAT = 2
_VALID_S = 7 * 86_400.0
"""How long a measurement is used: another program may have slowed it down."""
_BUSY_NOTE = "busy now: speeds are estimated when other programs are idle"
log = logging.getLogger("tandem.memory")
log.addHandler(logging.NullHandler())


def memory_rooms(devices: Sequence[Device] | None = None) -> Rooms:
    """Return the devices that this build can use, and RAM.

    Args:
        devices: Result of `app.llama.child.probe`, if known; otherwise a child process lists them.

    Raises:
        ModelLoadError: llama.cpp cannot list its devices.
    """
    _, available = main_memory()
    if devices is None and is_cpu_only_build():
        devices = ()
    elif devices is None:
        # Use a child, so that this process can still choose an op offload threshold.
        _, devices = probe(available)
    rooms = (device for device in devices if device.kind in ("gpu", "igpu", "software"))
    return (*rooms, main_memory_room(available))


def with_remote(rooms: Rooms, servers: Sequence[RpcServer]) -> Rooms:
    """Return the rooms with RPC servers after the local GPUs, in llama.cpp's numbering."""
    local = fast_devices(rooms)
    # They form one group with local GPUs, over which a model can be split.
    backend = local[0].backend if local and local[0].is_fast else "RPC"
    free = [n_bytes for server in servers for n_bytes in server.free_bytes]
    remote = tuple(Device(f"RPC{i}", "gpu", backend, n_bytes) for i, n_bytes in enumerate(free))
    return (*rooms[:-1], *remote, rooms[-1])


def machine_capacity(released: Mapping[str, int] | None = None, *, with_speed: bool = True) -> tuple[str, Capacity]:
    """Describe the machine in one line; return it with the memory for models that this build can use.

    Args:
        released: Bytes by device that are freed before other models are loaded; see `loaded_bytes`.
        with_speed: Measure the bandwidth of the memory, which may take seconds the first time.
    """
    released = {name.lower(): n_bytes for name, n_bytes in (released or {}).items()}
    machine = detect()
    devices: tuple[Device, ...] = ()
    only_cpu = is_cpu_only_build()
    if not only_cpu:
        # `tandem doctor` reports a broken library; a proposal for RAM is still correct.
        with suppress(AppError):
            _, devices = probe(machine.ram_available)
    ram = main_memory_room(machine.ram_available, machine.ram_total)
    rooms = tuple(_with_released(room, released) for room in (*memory_rooms(devices)[:-1], ram))
    capacity, others, gpus = Capacity(rooms), OthersUse(), fast_devices(rooms)
    if with_speed and (only_cpu or devices):
        capacity = replace(capacity, bytes_per_s=bandwidth(machine.cpu, devices))
        if any(gpu.has_own_memory for gpu in gpus):
            capacity = replace(capacity, ram_bytes_per_s=bandwidth(machine.cpu, devices, of_ram=True))
    line = _line(machine, devices, rooms)
    is_busy = with_speed and capacity.bytes_per_s is None and others.is_much
    return f"{line} · {_BUSY_NOTE}" if is_busy else line, capacity


def _with_released(room: Device, released: Mapping[str, int]) -> Device:
    """Return a device with released memory counted as free, up to its total."""
    free = room.free_bytes + released.get(room.name.lower(), 0)
    return replace(room, free_bytes=min(free, room.total_bytes or free))


def _names(gpus: Rooms) -> str:
    names = Counter(gpu.description for gpu in gpus)
    return " and ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items())


def _line(machine: Machine, devices: Sequence[Device], rooms: Rooms) -> str:
    ram, cores, gpus = memory_size(machine.ram_total), f"{machine.physical_cores} cores", fast_devices(rooms)
    free = sum(gpu.room_bytes for gpu in gpus)
    if gpus and all(gpu.has_own_memory for gpu in gpus):
        total = sum(gpu.total_bytes for gpu in gpus)
        told = free_memory(free, total) if total else f"{memory_size(free)} free"
        return f"{_names(gpus)}, {told} for models · {cores} · {ram} RAM"
    free = min(free, rooms[-1].room_bytes) if gpus else rooms[-1].room_bytes
    unused = [f"{gpu.name}, which this llama.cpp cannot use (⟨doctor⟩)" for gpu in missed(machine.gpus, devices)]
    return " · ".join(filter(None, [_names(gpus), *unused, cores, f"{memory_size(free)} of {ram} RAM free for models"]))


def loaded_bytes(pair: PairInfo | None) -> Mapping[str, int]:
    """Return the estimated bytes by device that unloading a pair releases.

    RAM counts only without mapped weights, because the system can already reuse these.
    """
    by_device = {memory.device.lower(): memory.n_bytes for memory in pair.memory} if pair is not None else {}
    if CPU in by_device:
        by_device[CPU] = min(by_device[CPU], own_bytes())
    return by_device


def own_bytes() -> int:
    """Return the memory of this process and its children without mapped files; 0 if unknown."""
    try:
        me = psutil.Process()
        found = [one.memory_info() for one in (me, *me.children(recursive=True))]
    except (OSError, psutil.Error):
        return 0
    return sum(int(info.rss - getattr(info, "shared", 0)) for info in found)


def bandwidth(cpu: str, devices: Sequence[Device], *, of_ram: bool = False) -> float | None:
    """Return the bytes of weights that this build processes per second, measured once a week.

    A measurement beside busy programs is not stored: the latest quiet measurement counts, and the next call tries
    again.

    Args:
        of_ram: Compute on the CPU instead of the device that layers go to first.

    Returns:
        None without memory, after a crash or hang of a driver, or while other programs are busy.
    """
    n_threads = default_threads()
    parts = [build_identity(), cpu, str(n_threads)]
    parts += [f"{device.backend} {device.name} {device.description}" for device in devices]
    parts += ["RAM"] * of_ram
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    file = memory_dir() / "throughput" / f"{name}.json"
    stored = atomic.read_json(file, FORMAT, lambda raw: (float(raw["bytes_per_s"]), float(raw["at"])))
    if stored is not None and stored[0] > 0 and 0 <= time.time() - stored[1] < _VALID_S:
        return stored[0]
    others = OthersUse()
    try:
        found: float | None = ask("llama.throughput.throughput", n_threads, of_ram, seconds=20.0)
        if found is not None and others.is_much:
            return stored[0] if stored is not None and stored[0] > 0 else None
        if found is not None:
            atomic.write_json(file, {"format": FORMAT, "bytes_per_s": found, "at": time.time()})
    except (AppError, ChildError):
        return None
    except OSError as error:
        log.warning("the bandwidth of this machine cannot be stored: %s", error)
    return found


def needs(params: PairParams, rooms: Rooms) -> PairNeeds:
    """Estimate what a pair needs on these devices from the headers of its files.

    Raises:
        ModelFileError: A file is missing or not a model.
    """
    facts = read_facts(params.target)
    context, draft = params.target_context(facts.n_ctx_train), None
    n_unused = 0 if params.model.load_mtp else facts.n_mtp_layers
    target = estimate_memory(facts, context)
    target = with_tensors(target, params.target, params.model.overrides, n_unused=n_unused)
    projector, host = _projector_bytes(params)
    target = replace(target, projector=projector, host=target.host + host)
    if params.draft is not None or params.model.load_mtp:
        own = params.draft_context(context.n_ctx)
        draft_facts = read_facts(params.draft) if params.draft is not None else None
        draft = draft_memory(facts, draft_facts, own, params.model.overrides)
    if draft is not None and params.draft is not None and params.draft != params.target:
        draft = with_tensors(draft, params.draft)
    return PairNeeds(target, draft, rooms, params.model, params.draft_model)


def _projector_bytes(params: PairParams) -> tuple[int, int]:
    if params.projector is None:
        return 0, 0
    from app.llama.projector_loading import projector_bytes

    try:
        return projector_bytes(params)
    except AppError:
        # The load reports a missing file.
        return 0, 0


def measured_needs(params: PairParams, pair: PairNeeds) -> PairNeeds:
    """Return the needs by llama.cpp's own estimate, where available, for the placement of `params`."""
    from app.llama.footprint import measure

    safe = SafeFiles(params.safe_files)

    def of(need: ModelMemory, path: Path, model: ModelParams, context: ContextParams) -> ModelMemory:
        found = measure(need, path, model, context)
        if found is not need:
            safe.add(path)
        return found

    target, draft = pair.target, pair.draft
    target = of(target, params.target, params.model, params.target_context(target.n_ctx))
    if draft is not None and params.draft is not None:
        draft = of(draft, params.draft, params.draft_model, params.draft_context(draft.n_ctx))
    return replace(pair, target=target, draft=draft)
