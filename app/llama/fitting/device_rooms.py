"""The memory that models may take: of this machine, and of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from app.hardware.checks import Listed
from app.hardware.device_room import DeviceRoom, fast_devices, main_memory_room
from app.hardware.machine import main_memory
from app.llama.installed import computes_on_processors_only

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer

_FAST = "Apple"
"""The maker of graphics that share RAM and are layers' first choice still, also beside remote cards."""


def memory_rooms(devices: Sequence[Listed] | None = None) -> tuple[DeviceRoom, ...]:
    """RAM, and every graphics processor that this build can use; only where there is one is a child asked.

    Args:
        devices: From `app.llama.probe.probe`, if that was asked already.

    Raises:
        ModelLoadError: llama.cpp cannot list its devices.
    """
    _, available = main_memory()
    cards = []
    if devices is None:
        devices = () if computes_on_processors_only() else _asked(available)
    for device in devices:
        if device.kind in ("gpu", "igpu", "software"):
            in_main = device.kind == "igpu" and device.description.startswith(_FAST)
            kind = cast('Literal["gpu", "igpu", "software"]', "gpu" if in_main else device.kind)
            what = device.description, device.total_bytes
            cards.append(DeviceRoom(device.name, kind, device.backend, device.free_bytes, *what, in_main=in_main))
    return (*cards, main_memory_room(available))


def _asked(available: int) -> Sequence[Listed]:
    """Return what a child lists, where this build says that it can use more than the processor."""
    from app.llama import library
    from app.llama.probe import probe

    return probe(available)[1] if library.supports_offload() else ()


def with_remote(rooms: tuple[DeviceRoom, ...], servers: Sequence[RpcServer]) -> tuple[DeviceRoom, ...]:
    """The rooms with those of other machines behind the cards that are here; llama.cpp counts them through."""
    local = fast_devices(rooms)
    # With local cards they are one group: what one card cannot hold may be split over all of them.
    backend = local[0].backend if local and local[0].kind == "gpu" else "RPC"
    devices = [device for server in servers for device in server.devices]
    remote = tuple(DeviceRoom(f"RPC{i}", "gpu", backend, device.free_bytes) for i, device in enumerate(devices))
    return (*rooms[:-1], *remote, rooms[-1])
