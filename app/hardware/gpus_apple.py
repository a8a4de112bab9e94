"""Graphics on macOS: the processor's own on Apple silicon, cards by system_profiler."""

from __future__ import annotations

import re
from typing import Any

from app.hardware.gpu import MIB, Gpu, Reader, clean, parse_json, whole

_VENDORS = {"apple": "apple", "amd": "amd", "ati": "amd", "intel": "intel", "nvidia": "nvidia"}
_UNITS = {"MB": MIB, "GB": MIB << 10}


def read(reader: Reader) -> list[Gpu]:
    """Every graphics processor; on Apple silicon one, even if no tool answers."""
    answer = parse_json(reader.ask("system_profiler", "SPDisplaysDataType", "-json"))
    cards = answer.get("SPDisplaysDataType") if isinstance(answer, dict) else None
    gpus = [_card(reader, card) for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    known = [gpu for gpu in gpus if gpu is not None]
    if not known and reader.system.arch == "arm64":
        name = clean(reader.ask("sysctl", "-n", "machdep.cpu.brand_string"))
        known = [Gpu("apple", name or "Apple GPU", _limit(reader), None, "Metal", "", integrated=True)]
    return known


def _card(reader: Reader, card: dict[str, Any]) -> Gpu | None:
    name = clean(str(card.get("sppci_model") or card.get("_name") or ""))
    text = f"{card.get('spdisplays_vendor', '')} {name}".lower()
    vendor = next((short for word, short in _VENDORS.items() if re.search(rf"(?<![a-z]){word}(?![a-z])", text)), None)
    if vendor is None or not name:
        return None
    metal = re.search(r"metal\s*([0-9]*)", f"{card.get('spdisplays_mtlgpufamilysupport', '')}".lower())
    driver = f"Metal {metal.group(1)}".strip() if metal else "Metal" if vendor == "apple" else ""
    if vendor == "apple":
        return Gpu(vendor, name, _limit(reader), None, driver, "", integrated=True)
    total = _size(str(card.get("spdisplays_vram", "")))
    return Gpu(vendor, name, total, None, driver, "", integrated=total is None)


def _limit(reader: Reader) -> int | None:
    """What the user allows graphics to take of the common memory; None while the system decides."""
    megabytes = whole(reader.ask("sysctl", "-n", "iogpu.wired_limit_mb"))
    return megabytes * MIB if megabytes else None


def _size(text: str) -> int | None:
    found = re.fullmatch(r"([0-9]{1,9}) (MB|GB)", text.strip())
    return int(found.group(1)) * _UNITS[found.group(2)] if found else None
