"""CPU, RAM and GPUs of this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.core.printable import one_line
from app.hardware.cpu import cgroup_folders
from app.hardware.gpus import Gpu, list_gpus, parse_bytes, version_key
from app.hardware.system import System

_FEATURES = {"pni": "SSE3", "avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "avx512f": "AVX512", "amx_int8": "AMX_INT8"}
"""llama.cpp's names of CPU features by Linux's names."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        system: "linux", "darwin" or "windows".
        ram_total: Bytes of RAM that this process may use, limited by a container.
        ram_available: Bytes of RAM available without swapping.
        arch: Architecture of the interpreter, such as "x86_64" or "arm64".
        features: Instruction sets of the CPU by llama.cpp's names; () if unknown.
        glibc: Version of the GNU C library; () on Linux without it, None elsewhere.
        wsl: Whether this Linux runs in WSL, which supports CUDA but not Vulkan.
        troubles: Sentences about tools that failed.
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
    glibc: tuple[int, ...] | None = None
    vulkan: bool = False
    wsl: bool = False
    translated: bool = False
    troubles: tuple[str, ...] = ()


def detect(system: System | None = None) -> Machine:
    """Detect this machine; takes seconds where a vendor tool is slow."""
    system = system or System()
    total, available = main_memory(system)
    physical, logical = system.cores()
    return Machine(
        system=system.name,
        cpu=processor_name(system),
        physical_cores=physical,
        logical_cores=logical,
        ram_total=total,
        ram_available=available,
        gpus=tuple(list_gpus(system)),
        arch=system.arch,
        features=_features(system),
        glibc=version_key(system.glibc()) if system.name == "linux" else None,
        vulkan=system.name == "windows" or "libvulkan.so.1 " in system.run("ldconfig", "-p"),
        wsl="microsoft" in system.read("/proc/sys/kernel/osrelease").lower(),
        translated=system.name == "darwin" and system.sysctl("sysctl.proc_translated") == "1",
        troubles=tuple(dict.fromkeys(system.troubles)),
    )


def processor_name(system: System | None = None) -> str:
    """Return the name of the CPU."""
    system, name = system or System(), ""
    if system.name == "linux":
        # On ARM the kernel does not know the name, but some boards do.
        found = re.search(r"^model name\s*:\s*(.+)$", system.read("/proc/cpuinfo"), re.MULTILINE)
        name = found.group(1) if found else system.read("/proc/device-tree/model")
    elif system.name == "darwin":
        name = system.sysctl("machdep.cpu.brand_string")
    elif system.name == "windows":
        name = system.windows_cpu()
    return one_line(name) or f"{system.arch or 'unknown'} CPU"


def _features(system: System) -> tuple[str, ...]:
    if system.name != "linux" or system.arch != "x86_64":
        return ()
    found = re.search(r"^flags\s*:\s*(.+)$", system.read("/proc/cpuinfo"), re.MULTILINE)
    flags = set(found.group(1).split()) if found else set()
    return tuple(name for flag, name in _FEATURES.items() if flag in flags)


def main_memory(system: System | None = None) -> tuple[int, int]:
    """Return total and available RAM, limited by the container, which /proc/meminfo does not show."""
    system = system or System()
    total, available = system.memory()
    for folder in cgroup_folders(system.read):
        if limit := parse_bytes(system.read(f"{folder}/memory.max")):
            used = parse_bytes(system.read(f"{folder}/memory.current")) or 0
            cached = re.search(r"^inactive_file ([0-9]{1,18})$", system.read(f"{folder}/memory.stat"), re.MULTILINE)
            left = limit - used + (int(cached.group(1)) if cached else 0)
            total, available = min(total, limit), min(available, limit, max(0, left))
    return total, available
