"""Files, vendor tools and memory of the operating system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig

import psutil

from app.core.program import find_program, limited_run
from app.hardware.cpu import read_file

TOOL_SECONDS = 10.0
"""Time limit for a tool; nvidia-smi wakes every GPU, which takes seconds if there are many."""
_ARCHITECTURE_NAMES = {"amd64": "x86_64", "aarch64": "arm64"}
# Folders of vendor tools that are often not in a user's PATH
_TOOL_FOLDERS = ("/usr/sbin", "/sbin", "/usr/lib/wsl/lib")


class System:
    """System calls for detection; tests replace them.

    Attributes:
        name: "linux", "darwin" or "windows".
        arch: Architecture of the interpreter, such as "x86_64" or "arm64".
        troubles: Sentences about tools that failed.
    """

    def __init__(self) -> None:
        self.name = "windows" if sys.platform == "win32" else platform.system().lower()
        # On Windows, `platform` reports the CPU instead of the interpreter, and takes long.
        machine = (
            sysconfig.get_platform().removeprefix("win-") if self.name == "windows" else platform.machine().lower()
        )
        self.arch = _ARCHITECTURE_NAMES.get(machine, machine)
        self.troubles: list[str] = []

    def read(self, path: str) -> str:
        """Return the text of a file, or an empty text if it cannot be read."""
        return read_file(path)

    def names(self, path: str) -> tuple[str, ...]:
        """List a folder by name; () if it cannot be read."""
        try:
            return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - half the price of Path objects
        except OSError:
            return ()

    def run(self, *argv: str) -> str:
        """Return the output of a tool, or an empty text if it is missing or fails; `troubles` describes the failure."""
        program = find_program(argv[0], _TOOL_FOLDERS)
        if program is None:
            return ""
        try:
            done = limited_run([program, *argv[1:]], TOOL_SECONDS, {**os.environ, "LC_ALL": "C"})
        except OSError as error:
            trouble = f"cannot be started: {error.strerror or error}"
        except subprocess.TimeoutExpired:
            trouble = f"did not answer within {TOOL_SECONDS:g} seconds"
        else:
            if done.returncode == 0:
                return done.stdout.decode("utf-8", errors="replace")
            trouble = f"failed with code {done.returncode}"
        self.troubles.append(f"{argv[0]} {trouble}.")
        return ""

    def sysctl(self, name: str) -> str:
        """Return a value of macOS, or an empty text if it is unknown."""
        return self.run("sysctl", "-in", name).strip()

    def glibc(self) -> str:
        """Return the version of the GNU C library, such as "2.36", or an empty text on systems without it."""
        name, version = platform.libc_ver()
        return version if name == "glibc" else ""

    def memory(self) -> tuple[int, int]:
        """Return the bytes of RAM: total, and available without swapping."""
        now = psutil.virtual_memory()
        return int(now.total), int(now.available)

    def cores(self) -> tuple[int, int]:
        """Return the numbers of cores and of hardware threads."""
        logical = psutil.cpu_count() or 1
        return psutil.cpu_count(logical=False) or logical, logical

    def windows_cpu(self) -> str:
        """Return the name of the CPU in the Windows registry."""
        if sys.platform != "win32":
            return ""
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
        except OSError:
            return ""
