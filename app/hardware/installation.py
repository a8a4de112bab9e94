"""How Tandem was installed, and the command that changes its llama.cpp in that environment."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.core.shell import quoted

DISTRIBUTION = "tandem-chat"
_BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""Errors that an unexpected receipt can raise."""
_NAMED = re.compile(r"([\w.-]+)(?:\[([^\]]*)\])?(\s*(?:[<>=!~@;].*)?)", re.DOTALL)
"""Name of a distribution, its extras, and the version or address."""
_LOCATED = re.compile(r"(.+?)(?:\[([\w, .-]*)\])?()", re.DOTALL)
"""Folder, file or address, and extras."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What was installed: `name` is a distribution or a folder, `rest` a version or an address."""

    name: str
    extras: tuple[str, ...] = ()
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.name}[{','.join(self.extras)}]{self.rest}" if self.extras else f"{self.name}{self.rest}"


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of Tandem, and the packages that it stands for."""

    name: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Installation:
    """The environment that Tandem runs in; its commands are for the shell of `system`.

    Attributes:
        tool: What installs packages into it.
        python: Path of its interpreter.
        requirement: What `uv tool` or pipx installed; they make the environment again, with the same options.
        options: These options, as words.
        index: Index that `uv tool` took llama.cpp from.
        is_managed: pip refuses to change this Python, which belongs to the operating system (PEP 668).
    """

    tool: Literal["uv tool", "pipx", "pip", "uv pip"]
    python: str
    system: str
    requirement: Requirement = Requirement(DISTRIBUTION)
    options: tuple[str, ...] = ()
    index: str | None = None
    is_managed: bool = False

    @property
    def note(self) -> str | None:
        """What the user should know before running a command."""
        if not self.is_managed:
            return None
        return "This Python belongs to the operating system, so pip needs --break-system-packages."

    def wheel_command(self, package: str, version: str, index: str, extra: Extra | None = None) -> str:
        """Return the command that installs a wheel from an index, and an extra of Tandem."""
        match self.tool:
            case "uv tool":
                return self._uv_tool("--index", index, package=package, extra=extra)
            case "pipx":
                # Without --only-binary it would compile the CPU build where the index lacks this release.
                return self._pipx(f"--extra-index-url {index} --only-binary {package}", extra=extra)
        packages = (f"{package}=={version}", *(extra.packages if extra else ()))
        return self._pip(
            "--force-reinstall", "--no-deps", "--only-binary", package, "--extra-index-url", index, *packages
        )

    def build_command(self, package: str, version: str, cmake: str) -> str:
        """Return the command that compiles a package; earlier builds in a cache had other CMAKE_ARGS."""
        match self.tool:
            case "uv tool":
                command = self._uv_tool("--no-binary-package", package, package=package)
            case "pipx":
                command = self._pipx(f"--no-cache-dir --no-binary {package}")
            case _:
                fresh = ("--force-reinstall", "--no-deps", "--no-cache-dir", "--no-binary", package)
                command = self._pip(*fresh, f"{package}=={version}")
        return (
            f'$env:CMAKE_ARGS = "{cmake}"; {command}' if self.system == "windows" else f'CMAKE_ARGS="{cmake}" {command}'
        )

    def extra_command(self, extra: Extra) -> str:
        """Return the command that installs an extra of Tandem, also over a part of it, and keeps its llama.cpp."""
        match self.tool:
            case "uv tool":
                wanted = str(_with_extra(self.requirement, extra))
                index = ("--index", self.index) if self.index else ()
                return self._command("uv", "tool", "install", wanted, *self.options, "--force", *index)
            case "pipx":
                return self._command("pipx", "inject", "--force", Path(self.python).parents[1].name, *extra.packages)
        return self._pip("--force-reinstall", "--no-deps", *extra.packages)

    def _uv_tool(self, *how: str, package: str, extra: Extra | None = None) -> str:
        wanted = str(_with_extra(self.requirement, extra))
        return self._command(
            "uv", "tool", "install", wanted, *self.options, "--force", "--reinstall-package", package, *how
        )

    def _pipx(self, pip_arguments: str, extra: Extra | None = None) -> str:
        wanted = str(_with_extra(self.requirement, extra))
        return self._command("pipx", "install", "--force", wanted, *self.options, f"--pip-args={pip_arguments}")

    def _pip(self, *arguments: str) -> str:
        allowed = ("--break-system-packages",) if self.is_managed else ()
        if self.tool == "uv pip":
            return self._command("uv", "pip", "install", "--python", self.python, *allowed, *arguments)
        return self._command(self.python, "-m", "pip", "install", *allowed, *arguments)

    def _command(self, *words: str) -> str:
        text = " ".join(quoted(word, self.system) for word in words)
        # PowerShell takes a quoted program for a text unless it is told to call it.
        return f"& {text}" if self.system == "windows" and text.startswith('"') else text


def installation(system: str) -> Installation:
    """Return how the running Tandem was installed."""
    python, prefix = sys.executable or "python", Path(sys.prefix)
    with suppress(*_BROKEN):
        return _of_uv(prefix / "uv-receipt.toml", python, system)
    with suppress(*_BROKEN):
        return _of_pipx(prefix / "pipx_metadata.json", python, system)
    # Environments that uv makes have no pip.
    tool: Literal["pip", "uv pip"] = "pip" if importlib.util.find_spec("pip") is not None else "uv pip"
    marker = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    return Installation(tool, python, system, is_managed=sys.prefix == sys.base_prefix and marker.is_file())


def _of_uv(receipt: Path, python: str, system: str) -> Installation:
    """Read the receipt of `uv tool install`.

    Raises:
        LookupError: It is not Tandem's, or Tandem's folder is gone, so that uv could not install it again.
    """
    tool = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]
    options: list[str] = []
    requirement: Requirement | None = None
    for entry in tool["requirements"]:
        found, is_editable = _of_uv_entry(entry), "editable" in entry
        if entry["name"] == DISTRIBUTION:
            requirement = found
            options += ["--editable"] if is_editable else []
        else:
            options += ["--with-editable" if is_editable else "--with", str(found)]
    if requirement is None:
        raise LookupError(DISTRIBUTION)
    options += ["--python", tool["python"]] if tool.get("python") else []
    indexes = [index["url"] for index in tool.get("options", {}).get("index", ()) if not index.get("default")]
    return Installation("uv tool", python, system, requirement, tuple(options), next(iter(indexes), None))


def _of_uv_entry(entry: dict[str, Any]) -> Requirement:
    name, extras = entry["name"], tuple(entry.get("extras", ()))
    if place := entry.get("directory") or entry.get("editable") or entry.get("path"):
        return _existing(Requirement(place, extras))
    if address := entry.get("url"):
        return Requirement(name, extras, f" @ {address}")
    if address := entry.get("git"):
        # uv writes the branch, tag or commit as a query.
        address, _, query = str(address).partition("?")
        reference = re.search(r"(?:rev|tag|branch)=([^&#]+)", query)
        return Requirement(name, extras, f" @ git+{address.partition('#')[0]}{f'@{reference[1]}' if reference else ''}")
    return Requirement(name, extras, entry.get("specifier", ""))


def _of_pipx(metadata: Path, python: str, system: str) -> Installation:
    """Read the metadata of `pipx install`; raises as `_of_uv`."""
    package = json.loads(metadata.read_text(encoding="utf-8"))["main_package"]
    if package["package"] != DISTRIBUTION:
        raise LookupError(DISTRIBUTION)
    text = package["package_or_url"]
    match = _NAMED.fullmatch(text) or _LOCATED.fullmatch(text)
    if match is None:
        raise LookupError(text)
    extras = tuple(filter(None, re.split(r"[\s,]+", match[2] or "")))
    requirement = Requirement(match[1], extras, match[3])
    if "://" in match[1]:
        requirement = Requirement(DISTRIBUTION, extras, f" @ {match[1]}")
    elif re.search(r"[/\\]", match[1]):
        _existing(requirement)
    options = ["--editable"] if "--editable" in package["pip_args"] or "-e" in package["pip_args"] else []
    options += [f"--suffix={package['suffix']}"] if package.get("suffix") else []
    return Installation("pipx", python, system, requirement, tuple(options))


def _existing(requirement: Requirement) -> Requirement:
    if not Path(requirement.name).exists():
        raise LookupError(requirement.name)
    return requirement


def _with_extra(requirement: Requirement, extra: Extra | None) -> Requirement:
    names: Sequence[str] = (extra.name,) if extra is not None and extra.name not in requirement.extras else ()
    return Requirement(requirement.name, (*requirement.extras, *names), requirement.rest)
