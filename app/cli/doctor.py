"""`tandem doctor`: check machine, llama.cpp, pair and files, and show the commands that fix problems."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app import __version__
from app.cli.output import LOOKING, obeys_codes, status
from app.cli.setting_flags import in_flags
from app.core.errors import CatalogError, ModelLoadError, UsageError
from app.core.printable import printable

if TYPE_CHECKING:
    from app.cli.doctor_checks import PairReport
    from app.cli.setting_flags import Given
    from app.hardware.checks import Check, Facts
    from app.hardware.devices import BuildInfo, Device

    Sections = Mapping[str, Sequence[Check]]
    """Checks by the title of their section."""

_MAX_REPORT_WIDTH = 120
_STATE_COLUMNS, _LABEL_COLUMNS = 9, 12
"""Widths of the first two columns."""
_LEVEL_COLORS = {"ok": "\x1b[32m", "untried": "", "warning": "\x1b[33m", "problem": "\x1b[31m"}
_BOLD_CODE, _RESET_CODE = "\x1b[1m", "\x1b[0m"
_SYSTEM_NAMES = {"linux": "Linux", "darwin": "macOS", "windows": "Windows"}
_HIDING_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")


def doctor(named: str | None = None, *, as_json: bool = False, **given: Any) -> int:
    """Run and print all checks; return 1 if there is a problem, else 0."""
    # The status appears before the imports, which take a moment.
    status.show(LOOKING)
    asked = checked_options(named, given)
    from app.cli.doctor_checks import check_pair, downloads, own_files
    from app.hardware.checks import llama_checks, machine_checks, summary, terminal_check, worst

    facts = gather()
    pair = check_pair(asked, facts)
    sections = {
        "machine": machine_checks(facts),
        "llama.cpp": llama_checks(facts),
        **pair.sections,
        "files": own_files(),
        "downloads": downloads(),
        "environment": [*facts.environment, terminal_check(facts.terminal)],
    }
    every = [check for checks in sections.values() for check in checks]
    state, told = worst(every), summary(every)
    status.clear()
    if as_json:
        outcome = {"version": __version__, "state": state, "summary": told[0]}
        print(json.dumps(_worded(outcome | json_of(facts, sections, pair))))
    else:
        columns = min(facts.terminal.columns or _MAX_REPORT_WIDTH, _MAX_REPORT_WIDTH)
        color = facts.terminal.live and facts.terminal.colors > 0 and obeys_codes()
        print(*(printable(in_flags(line)) for line in told), "", sep="\n")
        print("\n".join(render(sections, columns=columns, color=color)))
    return 1 if state == "problem" else 0


def render(sections: Sections, *, columns: int, color: bool) -> list[str]:
    """Return the sections as lines of text, with colored states and headings; commands are never wrapped."""
    out: list[str] = []
    for title, checks in sections.items():
        out += [""] if out else []
        out.append(f"{_BOLD_CODE}{title}{_RESET_CODE}" if color else title)
        for check in checks:
            out += _rows(check, columns, color=color)
    return [line.rstrip() for line in out]


def _rows(check: Check, columns: int, *, color: bool) -> list[str]:
    width = max(20, columns - _STATE_COLUMNS - _LABEL_COLUMNS)
    body: list[str] = []
    for text in map(in_flags, (check.text, *check.hint)):
        if text.startswith("  "):
            body.append(printable(text))
        else:
            body += textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False)
    state = f"{check.state:{_STATE_COLUMNS}}"
    first = (
        f"{_LEVEL_COLORS[check.state]}{state}{_RESET_CODE}" if color else state
    ) + f"{check.label:{_LABEL_COLUMNS}}"
    indent = " " * (_STATE_COLUMNS + _LABEL_COLUMNS)
    return [(indent if i else first) + row for i, row in enumerate(body or [""])]


def checked_options(named: str | None, given: Given) -> Given:
    """Return the options with the named pair. Raises UsageError; doctor itself reports wrong files."""
    from app.cli.options import is_chosen, read_process
    from app.cli.setting_flags import read_flags
    from app.worker.known_pairs import named_pair

    if named is not None:
        if is_chosen(given):
            raise UsageError("Name one pair: by its name, by --pair, or by its files.")
        given = {**given, "pair": named}
    read_flags(given)
    read_process(given)
    if "pair" in given:
        with suppress(CatalogError):
            named_pair(given["pair"])
    return given


def gather() -> Facts:
    """Detect this machine and its llama.cpp; takes seconds where a vendor tool is slow."""
    from app.core import paths
    from app.hardware.builds import LibraryError, advice
    from app.hardware.checks import Check, Facts, folder_check, terminal
    from app.hardware.installation import installation
    from app.hardware.machine import detect
    from app.models.hub.cache import folder

    machine = detect()
    build, devices, failure = _library(machine.ram_available)
    cause = failure.failure if isinstance(failure, LibraryError) else None
    live = sys.stdout.isatty()
    columns, rows = shutil.get_terminal_size() if live else (0, 0)
    in_wsl = " in WSL" if machine.wsl else ""
    system = f"{_SYSTEM_NAMES.get(machine.system, machine.system)} {platform.release()}{in_wsl}, {machine.arch}"
    versions = {"tandem": __version__, "python": f"{platform.python_version()}, {sys.executable}", "system": system}
    if build is not None:
        commit = f", commit {build.commit}" if build.commit else ""
        versions["llama.cpp"] = f"{build.version}{commit}, in llama-cpp-python {build.binding}"
    folders = {
        "settings": paths.config_dir(),
        "models": folder(),
        "cache": paths.cache_dir(),
        "data": paths.memory_dir().parent,
        "log": paths.log_file().parent,
    }
    checks = [Check("ok", name, text) for name, text in versions.items()]
    checks += [folder_check(label, path) for label, path in folders.items()]
    return Facts(
        machine=machine,
        build=build,
        devices=devices,
        failure=failure,
        advice=advice(machine, build, devices, installation(machine.system), cause),
        terminal=terminal(
            os.environ, live=live, size=(columns, rows), encoding=sys.stdout.encoding or "", system=machine.system
        ),
        environment=tuple(checks),
        hidden=tuple(f"{name}={os.environ[name]}" for name in _HIDING_VARIABLES if name in os.environ),
    )


def _library(ram_available: int) -> tuple[BuildInfo | None, tuple[Device, ...], ModelLoadError | None]:
    try:
        # The import loads llama.cpp and can fail.
        from app.llama.child import probe

        return *probe(ram_available), None
    except ModelLoadError as error:
        return None, (), error


def _worded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _worded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_worded(one) for one in value]
    return in_flags(value) if isinstance(value, str) else value


def json_of(facts: Facts, sections: Sections, pair: PairReport) -> dict[str, Any]:
    """Return the findings as JSON."""
    return {
        "machine": asdict(facts.machine),
        "llama": {
            "build": asdict(facts.build) if facts.build is not None else None,
            "devices": [asdict(device) for device in facts.devices],
            "error": facts.failure.message if facts.failure else None,
        },
        "advice": asdict(facts.advice) if facts.advice else None,
        "pair": pair.facts,
        "causes": [
            {
                "label": cause.label,
                "text": cause.text,
                "factor": cause.slowdown,
                "measured": cause.slowdown is not None,
                "hint": cause.hint,
            }
            for cause in pair.causes
        ],
        "terminal": asdict(facts.terminal),
        "sections": [
            {"title": title, "lines": [asdict(check) for check in checks]} for title, checks in sections.items()
        ],
    }
