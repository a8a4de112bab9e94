"""Memory for models: of this machine's devices, and of RPC servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.hardware.devices import Device
from app.hardware.fit import DeviceRoom, Rooms, fast_devices, main_memory_room
from app.hardware.machine import main_memory
from app.llama.installed import is_cpu_only_build

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer

_FAST = "Apple"
"""Maker of integrated GPUs that are as fast as discrete ones."""


def memory_rooms(devices: Sequence[Device] | None = None) -> Rooms:
    """Return the devices that this build can use, and RAM.

    Args:
        devices: Result of `app.llama.child.probe`, if known; otherwise a child process lists them.

    Raises:
        ModelLoadError: llama.cpp cannot list its devices.
    """
    _, available = main_memory()
    if devices is None:
        devices = _listed(available)
    rooms = []
    for device in devices:
        if device.kind in ("gpu", "igpu", "software"):
            in_main = device.kind == "igpu" and device.description.startswith(_FAST)
            kind = "gpu" if in_main else device.kind
            what = device.description, device.total_bytes
            rooms.append(DeviceRoom(device.name, kind, device.backend, device.free_bytes, *what, in_main=in_main))
    return (*rooms, main_memory_room(available))


def _listed(available: int) -> Sequence[Device]:
    if is_cpu_only_build():
        return ()
    from app.llama import library
    from app.llama.child import probe

    return probe(available)[1] if library.supports_offload() else ()


def with_remote(rooms: Rooms, servers: Sequence[RpcServer]) -> Rooms:
    """Return the rooms with those of RPC servers behind the local GPUs; llama.cpp numbers them through."""
    local = fast_devices(rooms)
    # With local GPUs they are one group, over which a model can be split.
    backend = local[0].backend if local and local[0].kind == "gpu" else "RPC"
    devices = [device for server in servers for device in server.devices]
    remote = tuple(DeviceRoom(f"RPC{i}", "gpu", backend, device.free_bytes) for i, device in enumerate(devices))
    return (*rooms[:-1], *remote, rooms[-1])
