"""GPUs listed by the operating system and nvidia-smi, including those that llama.cpp cannot use."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from typing import Any

from app.core.printable import one_line
from app.hardware.system import System

_MIB = 1 << 20
_LARGEST_CARVE_OUT = 2 << 30
"""Largest amount of RAM that firmware reserves for integrated graphics, unless the user changes it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU.

    Attributes:
        vendor: "nvidia", "amd", "intel" or "apple".
        name: The vendor's name for it, or its PCI number.
        total_bytes: VRAM; None if unknown or shared with the CPU.
        toolkit: Installed versions of the vendor's toolkit, newest first, such as "CUDA 12.4".
        target: Compute capability such as "8.9", if known.
        api: Newest CUDA version that the driver supports, if known.
    """

    vendor: str
    name: str
    total_bytes: int | None
    free_bytes: int | None
    driver: str | None
    toolkit: str | None
    target: str | None = None
    api: str | None = None
    integrated: bool = False

    @property
    def has_driver(self) -> bool:
        """Return whether its driver serves a backend of llama.cpp; nouveau and the old radeon do not."""
        return self.driver not in (None, "", "nouveau", "radeon")


def list_gpus(system: System) -> list[Gpu]:
    """Return the GPUs of vendors that llama.cpp supports."""
    if system.name == "darwin":
        return [_apple_gpu(system)] if system.arch == "arm64" else []
    found = _linux_gpus(system) if system.name == "linux" else _windows_gpus(system)
    # In a container, nvidia-smi lists only the available GPUs.
    nvidia = _nvidia_gpus(system)
    return nvidia + [gpu for gpu in found if not (nvidia and gpu.vendor == "nvidia")]


def parse_bytes(text: str) -> int | None:
    """Parse a count in decimal digits, if it is one."""
    text = text.strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def version_key(text: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparisons; () if it has no digits."""
    return tuple(int(n) for n in re.findall(r"[0-9]{1,9}", text)[:4])


# NVIDIA

_SMI_QUERY = ("--query-gpu=name,memory.total,memory.free,driver_version,compute_cap", "--format=csv,noheader,nounits")
_WINDOWS_TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"


def _nvidia_gpus(system: System) -> list[Gpu]:
    overview = system.run("nvidia-smi")
    if not overview:
        return []
    api = re.search(r"CUDA(?: UMD)? Version\s*:\s*([0-9]+\.[0-9]+)", overview)
    rows = [[cell.strip() for cell in row] for row in csv.reader(system.run("nvidia-smi", *_SMI_QUERY).splitlines())]
    if not rows or not all(len(row) == 5 and row[0] for row in rows):
        system.troubles.append("nvidia-smi did not list its GPUs in a known form.")
        return []
    toolkit = _cuda_toolkits(system)
    return [_nvidia_gpu(row, toolkit, api.group(1) if api else None) for row in rows]


def _nvidia_gpu(row: list[str], toolkit: str | None, api: str | None) -> Gpu:
    name, total, free, driver, target = row
    total_mib, free_mib = parse_bytes(total), parse_bytes(free)
    return Gpu(
        vendor="nvidia",
        name=one_line(name),
        total_bytes=total_mib * _MIB if total_mib is not None else None,
        free_bytes=free_mib * _MIB if free_mib is not None else None,
        driver=one_line(driver) or None,
        toolkit=toolkit,
        target=target if re.fullmatch(r"[0-9]+\.[0-9]+", target) else None,
        api=api,
        # GPUs that share RAM report "[N/A]" or "[Not Supported]".
        integrated=total_mib is None,
    )


def _cuda_toolkits(system: System) -> str | None:
    names = (*system.names("/usr/local"), *system.names(_WINDOWS_TOOLKITS))
    found = {version for name in names for version in re.findall(r"^(?:cuda-|v)([0-9]+\.[0-9]+)$", name)}
    if system.name == "linux":
        libraries = system.run("ldconfig", "-p")
        runtime, cublas = (set(re.findall(rf"{name}\.so\.([0-9]+)", libraries)) for name in ("libcudart", "libcublas"))
        found |= (runtime & cublas) - {version.split(".")[0] for version in found}
    versions = sorted(found, key=version_key, reverse=True)
    return f"CUDA {', '.join(versions)}" if versions else None


# Linux

_PCI_DEVICES = "/sys/bus/pci/devices"
_PCI_VENDORS = {"0x10de": ("nvidia", "NVIDIA"), "0x1002": ("amd", "AMD"), "0x8086": ("intel", "Intel")}
# Display controllers, and accelerators without a display
_PCI_CLASSES = ("0x03", "0x1200")
_PCI_NAMES = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_INTEL_INTEGRATED = "0000:00:02.0"


def _linux_gpus(system: System) -> list[Gpu]:
    found = []
    for address in system.names(_PCI_DEVICES):
        folder = f"{_PCI_DEVICES}/{address}"
        vendor_id = system.read(f"{folder}/vendor").strip().lower()
        if vendor_id in _PCI_VENDORS and system.read(f"{folder}/class").startswith(_PCI_CLASSES):
            found.append(_linux_gpu(system, address, vendor_id))
    return found


def _linux_gpu(system: System, address: str, vendor_id: str) -> Gpu:
    folder = f"{_PCI_DEVICES}/{address}"
    vendor, maker = _PCI_VENDORS[vendor_id]
    device_id = one_line(system.read(f"{folder}/device")).lower().removeprefix("0x")
    name = _pci_name(system, vendor_id[2:], device_id) or f"GPU {vendor_id[2:]}:{device_id}"
    driver = re.search(r"^DRIVER=(\w+)$", system.read(f"{folder}/uevent"), re.MULTILINE)
    # Only amdgpu writes this file.
    total = parse_bytes(system.read(f"{folder}/mem_info_vram_total"))
    used = parse_bytes(system.read(f"{folder}/mem_info_vram_used"))
    rocm = re.match(r"[0-9]+(?:\.[0-9]+)+", system.read("/opt/rocm/.info/version")) if vendor == "amd" else None
    return Gpu(
        vendor=vendor,
        name=f"{maker} {name}",
        total_bytes=total,
        free_bytes=max(0, total - used) if total is not None and used is not None else None,
        driver=driver.group(1) if driver else None,
        toolkit=f"ROCm {rocm.group()}" if rocm else None,
        integrated=address == _INTEL_INTEGRATED
        if vendor == "intel"
        else total is not None and total <= _LARGEST_CARVE_OUT,
    )


def _pci_name(system: System, vendor: str, device: str) -> str | None:
    text = next(filter(None, map(system.read, _PCI_NAMES)), "")
    _, _, devices = text.partition(f"\n{vendor}  ")
    # The lines of a vendor start with a tab.
    found = re.match(rf"[^\n]*(?:\n[\t#][^\n]*)*?\n\t{re.escape(device)}  ([^\n]+)", devices)
    return one_line(found.group(1)) if found else None


# macOS


def _apple_gpu(system: System) -> Gpu:
    limit = parse_bytes(system.sysctl("iogpu.wired_limit_mb"))
    name = one_line(system.sysctl("machdep.cpu.brand_string")) or "Apple GPU"
    return Gpu("apple", name, limit * _MIB if limit else None, None, "Metal", None, integrated=True)


# Windows

CIM_QUERY = (
    "Get-CimInstance Win32_VideoController | Select-Object Name,DriverVersion,PNPDeviceID | ConvertTo-Json -Compress"
)
_INTEGRATED_NAMES = re.compile(
    r"radeon(\(tm\))? (rx )?(vega [0-9]+ )?graphics|radeon(\(tm\))? [0-9]{3}m\b|radeon(\(tm\))? 80[56]0s"
    r"|uhd|iris|hd graphics|arc(\(tm\))? (graphics|[0-9]{3}[tv])",
    re.IGNORECASE,
)


def _windows_gpus(system: System) -> list[Gpu]:
    answer = system.run("powershell", "-NoProfile", "-NonInteractive", "-Command", CIM_QUERY)
    try:
        rows = json.loads(answer or "[]")
    except (ValueError, RecursionError):
        return []
    found = (_windows_gpu(row) for row in (rows if isinstance(rows, list) else [rows]) if isinstance(row, dict))
    return [gpu for gpu in found if gpu is not None]


def _windows_gpu(row: dict[str, Any]) -> Gpu | None:
    pci = re.search(r"ven_([0-9a-f]{4})", str(row.get("PNPDeviceID")).lower())
    known = _PCI_VENDORS.get(f"0x{pci.group(1)}") if pci else None
    if known is None:
        return None
    vendor, maker = known
    name = one_line(str(row.get("Name") or "")) or f"{maker} GPU"
    # NVIDIA's driver includes nvidia-smi; without it the version says nothing about CUDA.
    driver = None if vendor == "nvidia" else one_line(str(row.get("DriverVersion") or "")) or None
    return Gpu(vendor, name, None, None, driver, None, integrated=bool(_INTEGRATED_NAMES.search(name)))
