"""CPU, RAM and GPUs of this machine, from the system and vendor tools."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.hardware.cpu import cgroup_folders, older_cgroup_folders
from app.hardware.gpus import Gpu, Reader, apple_gpus, clean, linux_gpus, whole, windows_gpus
from app.hardware.system import RealSystem, System

PROCESSOR_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor"
# The kernel's words for what llama.cpp's processor code is built with or without, and llama.cpp's own.
_FEATURES = {"pni": "SSE3", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "avx512f": "AVX512", "amx_int8": "AMX_INT8"}
_READERS = {"linux": linux_gpus, "darwin": apple_gpus, "windows": windows_gpus}


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        system: "linux", "darwin" or "windows".
        cpu: The processor's name.
        physical_cores: Cores.
        logical_cores: Hardware threads.
        ram_total: Bytes of RAM that this process may use; a container's limit counts.
        ram_available: Bytes of it that can be had without swapping.
        gpus: Graphics processors of NVIDIA, AMD, Intel and Apple.
        arch: What the interpreter was built for, "x86_64" or "arm64" or other.
        features: Instructions of the processor that matter here, under llama.cpp's names; () where not known.
        vulkan: Whether the Vulkan loader is installed.
        wsl: Whether this Linux runs inside Windows (WSL), which passes on CUDA and no Vulkan driver of a card.
        translated: Whether this interpreter runs through a translation for another processor (Rosetta).
        troubles: Sentences about tools that are there and did not answer.
    """

    system: str
    cpu: str
    physical_cores: int
    logical_cores: int
    ram_total: int
    ram_available: int
    gpus: tuple[Gpu, ...]
    arch: str = ""
    features: tuple[str, ...] = ()
    vulkan: bool = False
    wsl: bool = False
    translated: bool = False
    troubles: tuple[str, ...] = ()


def look(system: System | None = None) -> Machine:
    """Detect this machine; takes seconds where a vendor tool is slow."""
    reader = Reader(system or RealSystem())
    system = reader.system
    total, available = _memory(system)
    physical, logical = system.cores()
    read = _READERS.get(system.name)
    return Machine(
        system=system.name,
        cpu=_processor(reader),
        physical_cores=physical,
        logical_cores=logical,
        ram_total=total,
        ram_available=available,
        gpus=tuple(read(reader)) if read else (),
        arch=system.arch,
        features=_features(system),
        vulkan=_vulkan(reader),
        wsl="microsoft" in system.read("/proc/sys/kernel/osrelease").lower(),
        translated=_translated(reader),
        troubles=tuple(reader.troubles),
    )


def main_memory() -> tuple[int, int]:
    """RAM alone, `ram_total` and `ram_available` of `Machine`: a moment's work, without the vendors' tools."""
    return _memory(RealSystem())


def processor_name() -> str:
    """Return the name of the CPU, without running vendor tools."""
    return _processor(Reader(RealSystem()))


def _processor(reader: Reader) -> str:
    system = reader.system
    name = ""
    if system.name == "linux":
        # On ARM the kernel does not know the name; some boards say theirs.
        found = re.search(r"^model name\s*:\s*(.+)$", system.read("/proc/cpuinfo"), re.MULTILINE)
        name = found.group(1) if found else system.read("/proc/device-tree/model")
    elif system.name == "darwin":
        name = reader.ask("sysctl", "-n", "machdep.cpu.brand_string")
    elif system.name == "windows":
        processors = system.registry(PROCESSOR_KEY)
        name = str(processors[0].get("ProcessorNameString", "")) if processors else ""
    return clean(name) or f"{system.arch or 'unknown'} CPU"


def _features(system: System) -> tuple[str, ...]:
    if system.name != "linux" or system.arch != "x86_64":
        return ()
    found = re.search(r"^flags\s*:\s*(.+)$", system.read("/proc/cpuinfo"), re.MULTILINE)
    flags = set(found.group(1).split()) if found else set()
    return tuple(name for flag, name in _FEATURES.items() if flag in flags)


def _vulkan(reader: Reader) -> bool:
    if reader.system.name == "windows":
        return reader.system.exists(r"C:\Windows\System32\vulkan-1.dll")
    return reader.system.name == "linux" and reader.has_library("libvulkan.so.1")


def _translated(reader: Reader) -> bool:
    return reader.system.name == "darwin" and reader.ask("sysctl", "-in", "sysctl.proc_translated").strip() == "1"


def _memory(system: System) -> tuple[int, int]:
    """All and available memory; in a container its limit, which the kernel enforces and /proc/meminfo does not show."""
    total, available = system.memory()
    if system.name != "linux":
        return total, available
    limits = [(limit, left) for limit, left in _limits(system) if limit > 0]
    return min([total, *(limit for limit, _ in limits)]), min([available, *(left for _, left in limits)])


def _limits(system: System) -> list[tuple[int, int]]:
    """Limit and what is left of it, in bytes, for each control group that this process is in, inner ones first."""
    found = []
    new = ("memory.max", "memory.current", "inactive_file")
    old = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    files = [(folder, *new) for folder in cgroup_folders(system.read)]
    files += [(folder, *old) for folder in older_cgroup_folders(system.read, "memory")]
    for folder, most, now, reclaimable in files:
        limit, used = whole(system.read(f"{folder}/{most}")), whole(system.read(f"{folder}/{now}"))
        if limit is None:
            continue
        cached = re.search(rf"^{reclaimable} ([0-9]{{1,18}})$", system.read(f"{folder}/memory.stat"), re.MULTILINE)
        left = limit - (used or 0) + (int(cached.group(1)) if cached else 0)
        found.append((limit, max(0, min(limit, left))))
    return found
