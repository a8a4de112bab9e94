"""AMD cards on Linux: the amdgpu driver's files hold nearly all; rocm-smi adds the name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.hardware.gpu import Gpu, Reader, Slot, clean, kernel_driver, parse_json, version_key, whole

_NODES = "/sys/class/kfd/kfd/topology/nodes"
# Processors with graphics inside: they report a small carved-out memory of their own and use the processor's.
_INTEGRATED = re.compile("gfx(902|909|90c|1013|1033|103[5-7]|1103|115[0-3])")


def read(reader: Reader, slots: Sequence[Slot]) -> list[Gpu]:
    """Every AMD card on the bus."""
    if not slots:
        return []
    toolkit, targets, names = _toolkit(reader), _targets(reader), _tool_names(reader)
    return [_card(reader, slot, toolkit, targets.get(slot.address, ""), names) for slot in slots]


def _card(reader: Reader, slot: Slot, toolkit: str, target: str, names: dict[str, str]) -> Gpu:
    folder = f"/sys/bus/pci/devices/{slot.address}"
    total = whole(reader.system.read(f"{folder}/mem_info_vram_total"))
    used = whole(reader.system.read(f"{folder}/mem_info_vram_used"))
    return Gpu(
        "amd",
        names.get(slot.address) or clean(reader.system.read(f"{folder}/product_name")) or slot.name,
        total,
        max(0, total - used) if total is not None and used is not None else None,
        kernel_driver(reader, slot.module),
        toolkit,
        target=target,
        integrated=bool(_INTEGRATED.fullmatch(target)),
    )


def _toolkit(reader: Reader) -> str:
    installed = [n.removeprefix("rocm-") for n in reader.system.names("/opt") if re.fullmatch(r"rocm-[0-9.]+", n)]
    described = re.match(r"[0-9]+(?:\.[0-9]+)+", reader.system.read("/opt/rocm/.info/version"))
    versions = {*installed, *([described.group()] if described else [])}
    return f"ROCm {', '.join(sorted(versions, key=version_key, reverse=True))}" if versions else ""


def _targets(reader: Reader) -> dict[str, str]:
    """What each card's code is compiled for, by PCI address, from the compute driver's topology."""
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


def _tool_names(reader: Reader) -> dict[str, str]:
    """Marketing names by PCI address; the spelling of the keys changed between versions of rocm-smi."""
    answer = parse_json(reader.ask("rocm-smi", "--showproductname", "--showbus", "--json"))
    if not isinstance(answer, dict):
        return {}
    named = {}
    for card in answer.values():
        values: dict[str, Any] = {k.lower(): v for k, v in card.items()} if isinstance(card, dict) else {}
        bus, series = values.get("pci bus"), values.get("card series")
        if isinstance(bus, str) and isinstance(series, str) and not series.startswith("0x"):
            named[bus.lower()] = clean(series if "AMD" in series else f"AMD {series}")
    return named
