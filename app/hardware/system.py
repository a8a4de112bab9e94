"""The operating system: files, folders, registry, disks, and vendor tools with a time limit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from app.core.program import find_program, limited_run

_MOST = 4 << 20
"""Bytes read of one file."""
_ARCHITECTURES = {"amd64": "x86_64", "aarch64": "arm64"}
# Vendor tools that installers leave outside of a user's PATH.
_TOOL_FOLDERS = ("/usr/sbin", "/sbin", "/usr/lib/wsl/lib", "/usr/local/cuda/bin", "/opt/rocm/bin")


class ToolError(Exception):
    """A tool is there but failed, or did not answer in time. The message is a sentence without a full stop."""


class System(Protocol):
    """The system calls that detection needs; tests replace it.

    Attributes:
        name: "linux", "darwin" or "windows".
        arch: "x86_64", "arm64" or what else the interpreter was built for.
    """

    name: str
    arch: str

    def read(self, path: str) -> str:
        """The text of a file; empty if it cannot be read."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """List a folder by name; () if it cannot be read."""
        ...

    def exists(self, path: str) -> bool: ...

    def env(self, name: str) -> str:
        """An environment variable; empty if it is not set."""
        ...

    def run(self, *argv: str, seconds: float) -> str:
        """Run a tool; return "" if it does not exist.

        Raises:
            ToolError: It failed or took longer than `seconds`.
        """
        ...

    def registry(self, key: str) -> tuple[Mapping[str, object], ...]:
        """The values of each key under one of HKEY_LOCAL_MACHINE; empty elsewhere than on Windows."""
        ...

    def memory(self) -> tuple[int, int]:
        """Bytes of RAM: all, and what can be had without swapping."""
        ...

    def cores(self) -> tuple[int, int]:
        """Processor cores and hardware threads."""
        ...


class RealSystem:
    """This machine; implements `System`."""

    def __init__(self) -> None:
        self.name = "windows" if sys.platform == "win32" else platform.system().lower()
        # On Windows `platform` names the processor, also for an interpreter that is translated for it, and takes long.
        machine = (
            sysconfig.get_platform().removeprefix("win-") if self.name == "windows" else platform.machine().lower()
        )
        self.arch = _ARCHITECTURES.get(machine, machine)

    def read(self, path: str) -> str:
        try:
            with Path(path).open("rb") as file:
                return file.read(_MOST).decode("utf-8", errors="replace")
        except OSError:
            return ""

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - half the price of Path objects
        except OSError:
            return ()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where access is denied

    def env(self, name: str) -> str:
        return os.environ.get(name, "")

    def run(self, *argv: str, seconds: float) -> str:
        program = find_program(argv[0], _TOOL_FOLDERS if os.name == "posix" else ())
        if program is None:
            return ""
        return _answer([program, *argv[1:]], seconds)

    def registry(self, key: str) -> tuple[Mapping[str, object], ...]:
        return _registry(key)

    def memory(self) -> tuple[int, int]:
        now = psutil.virtual_memory()
        return int(now.total), int(now.available)

    def cores(self) -> tuple[int, int]:
        logical = psutil.cpu_count() or 1
        return psutil.cpu_count(logical=False) or logical, logical


def _answer(argv: list[str], seconds: float) -> str:
    name = Path(argv[0]).stem
    try:
        done = limited_run(argv, seconds, {**os.environ, "LC_ALL": "C"})
    except OSError as error:
        raise ToolError(f"{name} cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired:
        raise ToolError(f"{name} did not answer within {seconds:g} seconds") from None
    if done.returncode != 0:
        raise ToolError(f"{name} failed with code {done.returncode}")
    return done.stdout.decode("utf-8", errors="replace")


def _registry(key: str) -> tuple[Mapping[str, object], ...]:
    if sys.platform != "win32":
        return ()
    import winreg

    found: list[Mapping[str, object]] = []
    with suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as parent:
        for index in range(winreg.QueryInfoKey(parent)[0]):
            # Some subkeys are closed to everybody but the system.
            with suppress(OSError), winreg.OpenKey(parent, winreg.EnumKey(parent, index)) as child:
                values = (winreg.EnumValue(child, i) for i in range(winreg.QueryInfoKey(child)[1]))
                found.append({name: value for name, value, _ in values})
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, which need not exist yet.

    Attributes:
        label: What it is for, in a word or two.
        path: Where it is.
        writable: Whether it can be written, or made.
        free_bytes: Room on its disk; None if the system does not say.
    """

    label: str
    path: Path
    writable: bool
    free_bytes: int | None


def place(label: str, path: Path) -> Place:
    """Look at a folder, or at the nearest one above it that exists."""
    there = path
    # Path.exists raises where a folder above may not be entered.
    while not os.path.exists(there) and there != there.parent:  # noqa: PTH110
        there = there.parent
    try:
        free = shutil.disk_usage(there).free
    except OSError:
        free = None
    return Place(label, path, there.is_dir() and os.access(there, os.W_OK | os.X_OK), free)
