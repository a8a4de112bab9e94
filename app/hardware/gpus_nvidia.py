"""NVIDIA cards: nvidia-smi where it answers, the kernel module's files where it does not."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress

from app.hardware.gpu import MIB, Gpu, Reader, Slot, clean, parse_json, version_key, whole

_FIELDS = "name,memory.total,memory.free,driver_version"
_WINDOWS_TOOLKITS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA"


def read(reader: Reader, slots: Sequence[Slot]) -> list[Gpu]:
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
    toolkit = toolkits(reader)
    if jetson:
        return [Gpu("nvidia", jetson, None, None, version or "tegra", toolkit, integrated=True)]
    return [
        Gpu("nvidia", _model(reader, slot.address) or slot.name, None, None, version or slot.module, toolkit)
        for slot in slots
    ]


def toolkits(reader: Reader) -> str:
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
    rows = _query(reader, f"{_FIELDS},compute_cap") or _query(reader, _FIELDS)
    if not rows:
        reader.note("nvidia-smi did not list its cards in a form that can be read.")
        return []
    toolkit = toolkits(reader)
    return [_card(row, toolkit, api.group(1) if api else "") for row in rows]


def _query(reader: Reader, fields: str) -> list[list[str]]:
    before = list(reader.troubles)
    answer = reader.ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    rows = [[cell.strip() for cell in row] for row in csv.reader(answer.splitlines())]
    if rows and all(len(row) == fields.count(",") + 1 and row[0] for row in rows):
        return rows
    reader.troubles[:] = before  # the caller says what an answer without rows means
    return []


def _card(row: list[str], toolkit: str, api: str) -> Gpu:
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


def _model(reader: Reader, address: str) -> str:
    text = reader.system.read(f"/proc/driver/nvidia/gpus/{address}/information")
    found = re.search(r"^Model:\s*(.+)$", text, re.MULTILINE)
    return clean(found.group(1)) if found else ""


def _jetson(reader: Reader) -> str:
    model = clean(reader.system.read("/proc/device-tree/model"))
    return model if "Jetson" in model else ""
