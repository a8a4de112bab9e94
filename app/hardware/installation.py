"""Detect how Tandem was installed, and which commands change llama.cpp in that environment."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import sysconfig
import tomllib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from app.core.errors import STRUCTURE_ERRORS
from app.core.fixes import quoted

LIBRARY_VARIABLE = "LLAMA_CPP_LIB_PATH"
"""Variable that names a folder with a llama.cpp that replaces the installed build."""
_DISTRIBUTION_NAME = "tandem-chat"


@dataclass(frozen=True, slots=True)
class Installation:
    """The environment of Tandem; its commands are for the shell of `system`.

    Attributes:
        tool: What installs packages into it.
        again: Words with which `uv tool install` or `pipx install` creates the environment again.
        index: Index from which `uv tool` installed llama.cpp.
        is_managed: Whether pip refuses to change this Python, which belongs to the operating system (PEP 668).
        library_folder: Folder with a llama.cpp that replaces the installed build; None if the user names no folder.
    """

    tool: Literal["uv tool", "pipx", "pip", "uv pip"]
    python: str
    system: str
    again: tuple[str, ...] = ()
    index: str | None = None
    is_managed: bool = False
    library_folder: str | None = None

    @property
    def note(self) -> str | None:
        """Return what to read before running a command, if anything."""
        managed = "This Python belongs to the operating system, so pip needs --break-system-packages."
        return managed if self.is_managed else None

    @property
    def unset_command(self) -> str:
        """The command after which the installed llama.cpp is used."""
        return f"Remove-Item Env:{LIBRARY_VARIABLE}" if self.system == "windows" else f"unset {LIBRARY_VARIABLE}"

    def wheel_command(self, package: str, version: str, index: str, *more: str) -> str:
        """Return the command that installs a wheel from an index, and more packages from PyPI."""
        # Without --only-binary pip would compile the CPU build if the index lacks this release.
        match self.tool:
            case "uv tool":
                return self._uv_tool(*self._with(more), "--reinstall-package", package, "--index", index)
            case "pipx":
                command = self._pipx(f"--extra-index-url {index} --only-binary {package}")
                return f"{command}; {self.add_command(*more)}" if more else command
        return self._pip("--only-binary", package, "--extra-index-url", index, f"{package}=={version}", *more)

    def build_command(self, package: str, version: str, cmake: str) -> str:
        """Return the command that compiles a package; a cached build may have used other CMAKE_ARGS."""
        match self.tool:
            case "uv tool":
                command = self._uv_tool("--no-cache", "--reinstall-package", package, "--no-binary-package", package)
            case "pipx":
                command = self._pipx(f"--no-cache-dir --no-binary {package}")
            case _:
                command = self._pip("--no-cache-dir", "--no-binary", package, f"{package}=={version}")
        return (
            f'$env:CMAKE_ARGS = "{cmake}"; {command}' if self.system == "windows" else f'CMAKE_ARGS="{cmake}" {command}'
        )

    def add_command(self, *packages: str, alone: bool = True) -> str:
        """Return the command that installs packages, even over a part of them, and keeps the present llama.cpp.

        Unless `alone`, the command also installs their dependencies.
        """
        match self.tool:
            case "uv tool":
                return self._uv_tool(*self._with(packages), *(("--index", self.index) if self.index else ()))
            case "pipx":
                return self._command("pipx", "inject", "--force", Path(self.python).parents[1].name, *packages)
        return self._pip(*packages, alone=alone)

    def _with(self, packages: tuple[str, ...]) -> list[str]:
        return [word for package in packages if package not in self.again for word in ("--with", package)]

    def _uv_tool(self, *how: str) -> str:
        return self._command("uv", "tool", "install", *self.again, "--force", *how)

    def _pipx(self, pip_arguments: str) -> str:
        return self._command("pipx", "install", *self.again, "--force", f"--pip-args={pip_arguments}")

    def _pip(self, *arguments: str, alone: bool = True) -> str:
        own = [self.python, "-m", "pip", "install"]
        words = own if self.tool == "pip" else ["uv", "pip", "install", "--python", self.python]
        words += ["--break-system-packages"] if self.is_managed else []
        return self._command(*words, *(["--force-reinstall", "--no-deps"] if alone else []), *arguments)

    def _command(self, *words: str) -> str:
        text = " ".join(quoted(word, self.system) for word in words)
        # PowerShell treats a quoted program as text unless the call operator precedes it.
        return f"& {text}" if self.system == "windows" and text.startswith('"') else text


def install_command(*packages: str, alone: bool = False) -> str:
    """Return the command that adds packages to the running Tandem; see `Installation.add_command`."""
    from app.hardware.system import System

    return installation(System().name).add_command(*packages, alone=alone)


def installation(system: str) -> Installation:
    """Return how the running Tandem was installed."""
    is_installed = importlib.util.find_spec("llama_cpp") is not None
    return replace(_installation(system), library_folder=(is_installed and os.environ.get(LIBRARY_VARIABLE)) or None)


def _installation(system: str) -> Installation:
    python, prefix = sys.executable or "python", Path(sys.prefix)
    with suppress(OSError, *STRUCTURE_ERRORS):
        return _of_uv_tool((prefix / "uv-receipt.toml").read_text(encoding="utf-8"), python, system)
    with suppress(OSError, *STRUCTURE_ERRORS):
        return _of_pipx((prefix / "pipx_metadata.json").read_text(encoding="utf-8"), python, system)
    marker = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    is_managed = sys.prefix == sys.base_prefix and marker.is_file()
    # Environments created by uv have no pip.
    has_pip = importlib.util.find_spec("pip") is not None
    return Installation("pip" if has_pip else "uv pip", python, system, is_managed=is_managed)


def _of_uv_tool(receipt: str, python: str, system: str) -> Installation:
    """Read the receipt of `uv tool install`.

    Raises:
        LookupError: It is not Tandem's, or Tandem's folder is gone, so that uv could not install it again.
    """
    tool = tomllib.loads(receipt)["tool"]
    entries = {entry["name"]: entry for entry in tool["requirements"]}
    own = entries.pop(_DISTRIBUTION_NAME)
    again = [_requirement(own), *(["--editable"] if "editable" in own else [])]
    for entry in entries.values():
        again += ["--with-editable" if "editable" in entry else "--with", _requirement(entry)]
    again += ["--python", tool["python"]] if tool.get("python") else []
    indexes = [index["url"] for index in tool.get("options", {}).get("index", ()) if not index.get("default")]
    return Installation("uv tool", python, system, tuple(again), next(iter(indexes), None))


def _requirement(entry: dict[str, Any]) -> str:
    extras = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
    if place := entry.get("directory") or entry.get("editable") or entry.get("path"):
        return f"{_existing(place)}{extras}"
    address = entry.get("url")
    if source := entry.get("git"):
        # uv writes the branch, tag or commit as a query.
        source, _, query = source.partition("?")
        reference = re.search(r"(?:rev|tag|branch)=([^&#]+)", query)
        address = f"git+{source.partition('#')[0]}{f'@{reference[1]}' if reference else ''}"
    return f"{entry['name']}{extras}{f' @ {address}' if address else entry.get('specifier', '')}"


def _of_pipx(metadata: str, python: str, system: str) -> Installation:
    """Read the metadata of `pipx install`; see `_of_uv_tool` for errors."""
    package = json.loads(metadata)["main_package"]
    if package["package"] != _DISTRIBUTION_NAME:
        raise LookupError(_DISTRIBUTION_NAME)
    wanted = package["package_or_url"]
    if "://" not in wanted and re.search(r"[/\\]", wanted):
        _existing(re.sub(r"\[[^\]]*\]$", "", wanted))
    editable = ("--editable",) if {"--editable", "-e"}.intersection(package["pip_args"]) else ()
    suffix = (f"--suffix={package['suffix']}",) if package.get("suffix") else ()
    return Installation("pipx", python, system, (wanted, *editable, *suffix))


def _existing(place: str) -> str:
    if not Path(place).exists():
        raise LookupError(place)
    return place
