"""GPUs as the operating system and the tools of their vendors describe them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from app.hardware.system import System, ToolError

TOOL_SECONDS = 10.0
"""nvidia-smi wakes every card of a machine and needs seconds where there are many."""
MIB = 1 << 20
_LONGEST = 100
_LIBRARY_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/run/opengl-driver/lib",
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One graphics processor.

    Attributes:
        vendor: "nvidia", "amd", "intel" or "apple".
        name: As its vendor calls it, or its PCI number.
        total_bytes: Its own memory; None where it is not known or shared with the processor.
        free_bytes: Of that; None where it is not known.
        driver: The driver and its version; empty if none drives it.
        toolkit: Versions of the vendor's toolkit that are installed, newest first, such as "CUDA 12.4".
        target: What its code is compiled for: "8.9" (compute capability) or "gfx1100".
        api: The newest version of the vendor's interface that the driver takes, such as "12.4" for CUDA.
        integrated: Whether it shares the processor's memory.
    """

    vendor: str
    name: str
    total_bytes: int | None
    free_bytes: int | None
    driver: str
    toolkit: str
    target: str = ""
    api: str = ""
    integrated: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """A display controller on the PCI bus.

    Attributes:
        address: Such as "0000:01:00.0".
        vendor: As in `Gpu`.
        name: From the distribution's list of PCI numbers, or the numbers themselves.
        module: The kernel module that drives it, or empty.
    """

    address: str
    vendor: str
    name: str
    module: str


@dataclass(slots=True)
class Reader:
    """A system, and what went wrong while it was asked.

    Attributes:
        system: Where everything is read from.
        troubles: Sentences about tools that are there and did not answer.
    """

    system: System
    troubles: list[str] = field(default_factory=list)
    _linked: str | None = None

    def ask(self, *argv: str) -> str:
        """Run a tool; return "" if it is missing, fails or hangs."""
        try:
            return self.system.run(*argv, seconds=TOOL_SECONDS)
        except ToolError as error:
            self.note(f"{error}.")
            return ""

    def note(self, trouble: str) -> None:
        if trouble not in self.troubles:
            self.troubles.append(trouble)

    def linked(self) -> str:
        """The list of libraries that the loader of Linux knows."""
        if self._linked is None:
            self._linked = self.ask("ldconfig", "-p")
        return self._linked

    def has_library(self, name: str) -> bool:
        """Return whether Linux can load a shared library by name."""
        return f"{name} " in self.linked() or any(self.system.exists(f"{d}/{name}") for d in _LIBRARY_FOLDERS)


def kernel_driver(reader: Reader, module: str) -> str:
    """A kernel module and its version, which for one that came with the kernel is the kernel's; empty for none."""
    if not module:
        return ""
    version = clean(reader.system.read(f"/sys/module/{module}/version"))
    kernel = clean(reader.system.read("/proc/sys/kernel/osrelease"))
    return f"{module} {version}" if version else f"{module}, kernel {kernel}" if kernel else module


def clean(text: str) -> str:
    """One short line of printable characters; names come from firmware and tools."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST]).split())[:_LONGEST]


def parse_json(text: str) -> Any:
    """The first JSON value of a tool's answer, which may have warnings in front; None if there is none."""
    starts = [i for i in (text.find("{"), text.find("[")) if i >= 0]
    if not starts:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, min(starts))[0]
    except (ValueError, RecursionError):
        return None


def whole(text: str) -> int | None:
    """A count of bytes in decimal digits; None for anything else."""
    text = text.strip()
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def version_key(text: str) -> tuple[int, ...]:
    """A version as numbers that compare; () for a text without digits."""
    return tuple(int(n) for n in re.findall(r"[0-9]{1,9}", text)[:4])


_SMI_FIELDS = "name,memory.total,memory.free,driver_version"
_WINDOWS_TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"


def _nvidia_gpus(reader: Reader, slots: Sequence[Slot]) -> list[Gpu]:
    """Every NVIDIA card.

    Args:
        reader: Where to look.
        slots: The cards on the bus. Where nvidia-smi answers, it alone counts: in a container it lists the cards
            that may be used.
    """
    asked = _from_tool(reader)
    if asked:
        return asked
    version = _module_version(reader)
    jetson = _jetson(reader)
    if not slots and not jetson:
        return []
    toolkit = _cuda_toolkits(reader)
    if jetson:
        return [Gpu("nvidia", jetson, None, None, version or "tegra", toolkit, integrated=True)]
    return [
        Gpu("nvidia", _nvidia_model(reader, slot.address) or slot.name, None, None, version or slot.module, toolkit)
        for slot in slots
    ]


def _cuda_toolkits(reader: Reader) -> str:
    """The CUDA toolkits, or at least run-time libraries, that are installed: "CUDA 13.0, 12.4"."""
    found: set[str] = set()
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        found.update(re.findall(r"(?:cuda-|v)([0-9]+\.[0-9]+)", reader.system.env(variable)))
    for folder in ("/usr/local", _WINDOWS_TOOLKITS):
        for name in reader.system.names(folder):
            found.update(re.findall(r"^(?:cuda-|v)([0-9]+\.[0-9]+)$", name))
    described = parse_json(reader.system.read("/usr/local/cuda/version.json"))
    with suppress(KeyError, TypeError):
        found.add(".".join(re.findall(r"[0-9]+", described["cuda"]["version"])[:2]))
    found.update(re.findall(r"release ([0-9]+\.[0-9]+)", reader.ask("nvcc", "--version")))
    if reader.system.name == "linux":
        majors = {version.split(".")[0] for version in found}
        linked = reader.linked()
        run_time, algebra = (set(re.findall(rf"{x}\.so\.([0-9]+)", linked)) for x in ("libcudart", "libcublas"))
        found.update((run_time & algebra) - majors)
    versions = sorted(filter(None, found), key=version_key, reverse=True)
    return f"CUDA {', '.join(versions)}" if versions else ""


def _from_tool(reader: Reader) -> list[Gpu]:
    overview = reader.ask("nvidia-smi")
    if not overview:
        return []
    api = re.search(r"CUDA(?: UMD)? Version\s*:\s*([0-9]+\.[0-9]+)", overview)
    # Drivers before 510 refuse the whole question for a field that they do not know.
    rows = _query(reader, f"{_SMI_FIELDS},compute_cap") or _query(reader, _SMI_FIELDS)
    if not rows:
        reader.note("nvidia-smi did not list its cards in a form that can be read.")
        return []
    toolkit = _cuda_toolkits(reader)
    return [_nvidia_card(row, toolkit, api.group(1) if api else "") for row in rows]


def _query(reader: Reader, fields: str) -> list[list[str]]:
    before = list(reader.troubles)
    answer = reader.ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    rows = [[cell.strip() for cell in row] for row in csv.reader(answer.splitlines())]
    if rows and all(len(row) == fields.count(",") + 1 and row[0] for row in rows):
        return rows
    reader.troubles[:] = before  # the caller says what an answer without rows means
    return []


def _nvidia_card(row: list[str], toolkit: str, api: str) -> Gpu:
    total, free = whole(row[1]), whole(row[2])
    return Gpu(
        "nvidia",
        clean(row[0]),
        total * MIB if total is not None else None,
        free * MIB if free is not None else None,
        clean(row[3]),
        toolkit,
        target=row[4] if len(row) > 4 and re.fullmatch(r"[0-9]+\.[0-9]+", row[4]) else "",
        api=api,
        # Chips that share the processor's memory answer "[N/A]" or "[Not Supported]".
        integrated=total is None,
    )


def _module_version(reader: Reader) -> str:
    text = reader.system.read("/proc/driver/nvidia/version")
    found = re.search(r"NVRM version:.*?\b([0-9]{3}\.[0-9]+(?:\.[0-9]+)?)\b", text)
    return found.group(1) if found else ""


def _nvidia_model(reader: Reader, address: str) -> str:
    text = reader.system.read(f"/proc/driver/nvidia/gpus/{address}/information")
    found = re.search(r"^Model:\s*(.+)$", text, re.MULTILINE)
    return clean(found.group(1)) if found else ""


def _jetson(reader: Reader) -> str:
    model = clean(reader.system.read("/proc/device-tree/model"))
    return model if "Jetson" in model else ""


_NODES = "/sys/class/kfd/kfd/topology/nodes"
# Processors with graphics inside: they report a small carved-out memory of their own and use the processor's.
_INTEGRATED_AMD = re.compile("gfx(902|909|90c|1013|1033|103[5-7]|1103|115[0-3])")


def _amd_gpus(reader: Reader, slots: Sequence[Slot]) -> list[Gpu]:
    """Every AMD card on the bus."""
    if not slots:
        return []
    toolkit, targets = _rocm_toolkit(reader), _amd_targets(reader)
    return [_amd_card(reader, slot, toolkit, targets.get(slot.address, "")) for slot in slots]


def _amd_card(reader: Reader, slot: Slot, toolkit: str, target: str) -> Gpu:
    folder = f"/sys/bus/pci/devices/{slot.address}"
    total = whole(reader.system.read(f"{folder}/mem_info_vram_total"))
    used = whole(reader.system.read(f"{folder}/mem_info_vram_used"))
    return Gpu(
        "amd",
        clean(reader.system.read(f"{folder}/product_name")) or slot.name,
        total,
        max(0, total - used) if total is not None and used is not None else None,
        kernel_driver(reader, slot.module),
        toolkit,
        target=target,
        integrated=bool(_INTEGRATED_AMD.fullmatch(target)),
    )


def _rocm_toolkit(reader: Reader) -> str:
    installed = [n.removeprefix("rocm-") for n in reader.system.names("/opt") if re.fullmatch(r"rocm-[0-9.]+", n)]
    described = re.match(r"[0-9]+(?:\.[0-9]+)+", reader.system.read("/opt/rocm/.info/version"))
    versions = {*installed, *([described.group()] if described else [])}
    return f"ROCm {', '.join(sorted(versions, key=version_key, reverse=True))}" if versions else ""


def _amd_targets(reader: Reader) -> dict[str, str]:
    """Return gfx targets by PCI address, from the topology of the compute driver."""
    found = {}
    for node in reader.system.names(_NODES):
        lines = (line.split() for line in reader.system.read(f"{_NODES}/{node}/properties").splitlines())
        values = {line[0]: number for line in lines if len(line) == 2 and (number := whole(line[1])) is not None}
        version, place = values.get("gfx_target_version", 0), values.get("location_id")
        if version and place is not None:
            address = f"{values.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
            # 110000 is gfx1100, 90010 is gfx90a.
            found[address] = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    return found


_PCI_DEVICES = "/sys/bus/pci/devices"
_PCI_VENDORS = {"0x10de": ("nvidia", "NVIDIA"), "0x1002": ("amd", "AMD"), "0x8086": ("intel", "Intel")}
# Display controllers, and AMD's accelerators without a display.
_PCI_CLASSES = ("0x03", "0x1200")
_NAME_LISTS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_INTEL_INTEGRATED = "0000:00:02.0"


def linux_gpus(reader: Reader) -> list[Gpu]:
    """Every graphics processor of a vendor that llama.cpp knows."""
    slots = _slots(reader)
    gpus = _nvidia_gpus(reader, [slot for slot in slots if slot.vendor == "nvidia"])
    gpus += _amd_gpus(reader, [slot for slot in slots if slot.vendor == "amd"])
    gpus += [_intel(reader, slot) for slot in slots if slot.vendor == "intel"]
    return gpus


def _slots(reader: Reader) -> list[Slot]:
    found = []
    for address in reader.system.names(_PCI_DEVICES):
        folder = f"{_PCI_DEVICES}/{address}"
        vendor = reader.system.read(f"{folder}/vendor").strip().lower()
        if vendor not in _PCI_VENDORS or not reader.system.read(f"{folder}/class").startswith(_PCI_CLASSES):
            continue
        number = clean(reader.system.read(f"{folder}/device")).lower().removeprefix("0x")
        driver = re.search(r"^DRIVER=(\w+)$", reader.system.read(f"{folder}/uevent"), re.MULTILINE)
        short, maker = _PCI_VENDORS[vendor]
        name = f"{maker} {_listed_name(reader, vendor[2:], number) or f'GPU {vendor[2:]}:{number}'}"
        found.append(Slot(address, short, name, driver.group(1) if driver else ""))
    return found


def _intel(reader: Reader, slot: Slot) -> Gpu:
    toolkit = "oneAPI" if reader.system.exists("/opt/intel/oneapi/setvars.sh") else ""
    integrated = slot.address == _INTEL_INTEGRATED
    return Gpu("intel", slot.name, None, None, kernel_driver(reader, slot.module), toolkit, integrated=integrated)


def _listed_name(reader: Reader, vendor: str, number: str) -> str:
    """The name in the list of PCI numbers that distributions ship; empty if it is not there."""
    for path in _NAME_LISTS:
        text = reader.system.read(path)
        start = text.find(f"\n{vendor}  ") + 1
        # Lines of a device begin with one tabulator, those of its variants with two, the next vendor's with none.
        for line in text[start:].splitlines()[1:] if start else ():
            if line.startswith(f"\t{number}  "):
                return clean(line[len(number) + 3 :])
            if not line.startswith(("\t", "#")) and line:
                break
    return ""


_MAC_VENDORS = {"apple": "apple", "amd": "amd", "ati": "amd", "intel": "intel", "nvidia": "nvidia"}
_MAC_UNITS = {"MB": MIB, "GB": MIB << 10}


def apple_gpus(reader: Reader) -> list[Gpu]:
    """Every graphics processor; on Apple silicon one, even if no tool answers."""
    answer = parse_json(reader.ask("system_profiler", "SPDisplaysDataType", "-json"))
    cards = answer.get("SPDisplaysDataType") if isinstance(answer, dict) else None
    gpus = [_mac_card(reader, card) for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    known = [gpu for gpu in gpus if gpu is not None]
    if not known and reader.system.arch == "arm64":
        name = clean(reader.ask("sysctl", "-n", "machdep.cpu.brand_string"))
        known = [Gpu("apple", name or "Apple GPU", _metal_limit(reader), None, "Metal", "", integrated=True)]
    return known


def _mac_card(reader: Reader, card: dict[str, Any]) -> Gpu | None:
    name = clean(str(card.get("sppci_model") or card.get("_name") or ""))
    text = f"{card.get('spdisplays_vendor', '')} {name}".lower()
    vendor = next(
        (short for word, short in _MAC_VENDORS.items() if re.search(rf"(?<![a-z]){word}(?![a-z])", text)), None
    )
    if vendor is None or not name:
        return None
    metal = re.search(r"metal\s*([0-9]*)", f"{card.get('spdisplays_mtlgpufamilysupport', '')}".lower())
    driver = f"Metal {metal.group(1)}".strip() if metal else "Metal" if vendor == "apple" else ""
    if vendor == "apple":
        return Gpu(vendor, name, _metal_limit(reader), None, driver, "", integrated=True)
    total = _mac_size(str(card.get("spdisplays_vram", "")))
    return Gpu(vendor, name, total, None, driver, "", integrated=total is None)


def _metal_limit(reader: Reader) -> int | None:
    """Return the GPU's share of RAM that the user set; None for the default."""
    megabytes = whole(reader.ask("sysctl", "-n", "iogpu.wired_limit_mb"))
    return megabytes * MIB if megabytes else None


def _mac_size(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,9}) (MB|GB)", text.strip())
    return int(found.group(1)) * _MAC_UNITS[found.group(2)] if found else None


DISPLAY_KEY = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
QUERY = (
    "Get-CimInstance Win32_VideoController | Select-Object Name,DriverVersion,PNPDeviceID | ConvertTo-Json -Compress"
)
_WINDOWS_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}
_INTEGRATED_NAMES = re.compile(
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


def windows_gpus(reader: Reader) -> list[Gpu]:
    """Every graphics processor of a vendor that llama.cpp knows.

    The registry also remembers cards that were taken out, so it is the list only where CIM does not answer.
    """
    registered = [a for values in reader.system.registry(DISPLAY_KEY) if (a := _registered(values)) is not None]
    sizes = {adapter.pci: adapter.total for adapter in registered}
    adapters = _present(reader) or registered
    nvidia = _nvidia_gpus(reader, [])
    gpus = [_windows_gpu(a, a.total if a.total is not None else sizes.get(a.pci), reader) for a in adapters]
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
    if pci is None or pci.group(1) not in _WINDOWS_VENDORS:
        return None
    return _Adapter(clean(str(name or "")), clean(str(driver or "")), ":".join(pci.groups()), total)


def _windows_gpu(adapter: _Adapter, total: int | None, reader: Reader) -> Gpu:
    vendor = _WINDOWS_VENDORS[adapter.pci[:4]]
    integrated = bool(_INTEGRATED_NAMES.search(adapter.name))
    toolkit = _cuda_toolkits(reader) if vendor == "nvidia" else ""
    driver = _nvidia_version(adapter.driver) if vendor == "nvidia" else adapter.driver
    name = adapter.name or f"GPU {adapter.pci}"
    # What the firmware set aside for integrated graphics says nothing about what it can use.
    return Gpu(vendor, name, None if integrated else total, None, driver, toolkit, integrated=integrated)


def _nvidia_version(windows: str) -> str:
    """ "31.0.15.5123" is NVIDIA's 551.23: the last five digits."""
    digits = "".join(windows.split(".")[-2:])
    return f"{digits[-5:-2]}.{digits[-2:]}" if re.fullmatch(r"[0-9]{5,}", digits) else windows
