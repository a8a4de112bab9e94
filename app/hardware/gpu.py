"""A graphics processor as the operating system and its vendor's tools describe it."""

from __future__ import annotations

import json
import re
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
        """What a tool prints; empty if it is missing, fails or hangs."""
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
        """Whether a shared library can be loaded by its name, on Linux."""
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
