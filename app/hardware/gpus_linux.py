"""Graphics on Linux, from the PCI bus up; the vendors' own files add what the bus does not know."""

from __future__ import annotations

import re

from app.hardware import gpus_amd, gpus_nvidia
from app.hardware.gpu import Gpu, Reader, Slot, clean, kernel_driver

_DEVICES = "/sys/bus/pci/devices"
_VENDORS = {"0x10de": ("nvidia", "NVIDIA"), "0x1002": ("amd", "AMD"), "0x8086": ("intel", "Intel")}
# Display controllers, and AMD's accelerators without a display.
_CLASSES = ("0x03", "0x1200")
_NAME_LISTS = ("/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids")
_INTEL_INTEGRATED = "0000:00:02.0"


def read(reader: Reader) -> list[Gpu]:
    """Every graphics processor of a vendor that llama.cpp knows."""
    slots = _slots(reader)
    gpus = gpus_nvidia.read(reader, [slot for slot in slots if slot.vendor == "nvidia"])
    gpus += gpus_amd.read(reader, [slot for slot in slots if slot.vendor == "amd"])
    gpus += [_intel(reader, slot) for slot in slots if slot.vendor == "intel"]
    return gpus


def _slots(reader: Reader) -> list[Slot]:
    found = []
    for address in reader.system.names(_DEVICES):
        folder = f"{_DEVICES}/{address}"
        vendor = reader.system.read(f"{folder}/vendor").strip().lower()
        if vendor not in _VENDORS or not reader.system.read(f"{folder}/class").startswith(_CLASSES):
            continue
        number = clean(reader.system.read(f"{folder}/device")).lower().removeprefix("0x")
        driver = re.search(r"^DRIVER=(\w+)$", reader.system.read(f"{folder}/uevent"), re.MULTILINE)
        short, maker = _VENDORS[vendor]
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
