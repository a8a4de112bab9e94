"""Graphics on Windows: the adapters that are present by CIM, their true memory and drivers by the registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.hardware import gpus_nvidia
from app.hardware.gpu import Gpu, Reader, clean, parse_json

DISPLAY_KEY = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
QUERY = (
    "Get-CimInstance Win32_VideoController | Select-Object Name,DriverVersion,PNPDeviceID | ConvertTo-Json -Compress"
)
_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
_INTEGRATED = re.compile(
    r"radeon(\(tm\))? (rx )?(vega [0-9]+ )?graphics|radeon(\(tm\))? [0-9]{3}m\b|radeon(\(tm\))? 80[56]0s"
    r"|uhd|iris|hd graphics|arc(\(tm\))? (graphics|[0-9]{3}[tv])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Adapter:
    name: str
    driver: str
    pci: str
    total: int | None = None


def read(reader: Reader) -> list[Gpu]:
    """Every graphics processor of a vendor that llama.cpp knows.

    The registry also remembers cards that were taken out, so it is the list only where CIM does not answer.
    """
    registered = [a for values in reader.system.registry(DISPLAY_KEY) if (a := _registered(values)) is not None]
    sizes = {adapter.pci: adapter.total for adapter in registered}
    adapters = _present(reader) or registered
    nvidia = gpus_nvidia.read(reader, [])
    gpus = [_gpu(a, a.total if a.total is not None else sizes.get(a.pci), reader) for a in adapters]
    return nvidia + [gpu for gpu in gpus if not (nvidia and gpu.vendor == "nvidia")]


def _present(reader: Reader) -> list[_Adapter]:
    answer = parse_json(reader.ask("powershell", "-NoProfile", "-NonInteractive", "-Command", QUERY))
    rows: list[Any] = answer if isinstance(answer, list) else [answer]
    adapters = []
    for row in rows:
        if isinstance(row, dict):
            adapter = _adapter(row.get("Name"), row.get("DriverVersion"), row.get("PNPDeviceID"), None)
            if adapter is not None:
                adapters.append(adapter)
    return adapters


def _registered(values: Mapping[str, object]) -> _Adapter | None:
    size = values.get("HardwareInformation.qwMemorySize")
    if isinstance(size, bytes):
        size = int.from_bytes(size, "little")
    total = size if isinstance(size, int) and size > 0 else None
    return _adapter(values.get("DriverDesc"), values.get("DriverVersion"), values.get("MatchingDeviceId"), total)


def _adapter(name: object, driver: object, device: object, total: int | None) -> _Adapter | None:
    pci = re.search(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})", str(device).lower())
    if pci is None or pci.group(1) not in _VENDORS:
        return None
    return _Adapter(clean(str(name or "")), clean(str(driver or "")), ":".join(pci.groups()), total)


def _gpu(adapter: _Adapter, total: int | None, reader: Reader) -> Gpu:
    vendor = _VENDORS[adapter.pci[:4]]
    integrated = bool(_INTEGRATED.search(adapter.name))
    toolkit = gpus_nvidia.toolkits(reader) if vendor == "nvidia" else ""
    driver = _nvidia_version(adapter.driver) if vendor == "nvidia" else adapter.driver
    name = adapter.name or f"GPU {adapter.pci}"
    # What the firmware set aside for integrated graphics says nothing about what it can use.
    return Gpu(vendor, name, None if integrated else total, None, driver, toolkit, integrated=integrated)


def _nvidia_version(windows: str) -> str:
    """ "31.0.15.5123" is NVIDIA's 551.23: the last five digits."""
    digits = "".join(windows.split(".")[-2:])
    return f"{digits[-5:-2]}.{digits[-2:]}" if re.fullmatch(r"[0-9]{5,}", digits) else windows
