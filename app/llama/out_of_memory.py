"""Memory that ran out while something was loaded, recognised in what llama.cpp logs: its return value is only NULL."""

from __future__ import annotations

import re

from app.core.errors import NoMemoryError
from app.settings.placement import CPU

_SIGNS = re.compile(
    r"(failed|unable) to allocate|cudaMalloc failed|(out of|insufficient) memory|OutOf(Device|Host)Memory|bad_alloc",
    re.IGNORECASE,
)
# The name of a buffer type begins with its device's: "CUDA0", "MTL0_Private"; those of main memory are others.
_BUFFER = re.compile(r"(?:failed|unable) to allocate (\w+) buffer")
_NO_DEVICE = ("output", "compute", "host", "graph", "metal")
_OF_DEVICE = re.compile("_(Split|Private|Mapped)$")
_MAIN = re.compile(r"CPU|.*_Host$", re.IGNORECASE)


def scarce_device(log: str) -> str | None:
    """Whose memory ran out: a device, `CPU`, or "" where the log does not name it; None if that is not the reason."""
    if not _SIGNS.search(log):
        return None
    names = [name for name in _BUFFER.findall(log) if name.lower() not in _NO_DEVICE]
    if not names:
        return ""
    return CPU if _MAIN.match(names[0]) else _OF_DEVICE.sub("", names[0])


def no_memory(device: str, what: str) -> NoMemoryError:
    """The failure as a sentence.

    Args:
        device: From `scarce_device`.
        what: What was to be put there.
    """
    where = {"": "There is", CPU: "There is"}.get(device, f"On {device} there is")
    kind = " main" if device == CPU else ""
    return NoMemoryError(
        f"{where} not enough{kind} memory for {what}; something else may have taken it since it was counted.",
        "End what uses it, or take a shorter context (--ctx) or another device (--device).",
        device,
    )
