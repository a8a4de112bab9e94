"""`tandem doctor`: what this machine has, what the installed llama.cpp can use, and what to do where they differ.

What is said is decided in `app.hardware.checks`; here facts are gathered and lines are printed. Heavy parts are
imported when the command runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from app import __version__
from app.cli.doctor.lines import render
from app.cli.installer import installer
from app.cli.interrupt import imported_whole
from app.cli.output import LOOKING, StatusLine, clear_status, obeys_codes
from app.core.errors import CatalogError, ModelLoadError, UsageError
from app.core.printable import printable

if TYPE_CHECKING:
    from app.hardware.checks import Facts, Section, State
    from app.hardware.pair_view import PairView
    from app.hardware.slow_causes import Cause, Situation
    from app.hardware.system import Place
    from app.llama.probe import BuildInfo, Device

_WIDEST = 120
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "windows": "Windows"}
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")


def doctor(args: argparse.Namespace) -> int:
    """Look at everything and print it.

    Returns:
        1 if there is a problem, else 0.
    """
    # What is imported takes a moment, too.
    StatusLine(sys.stderr).show(LOOKING)
    with imported_whole():
        from app.cli.doctor.hub_section import hub_section
        from app.cli.doctor.own_files import own_files
        from app.hardware.checks import places, screen, summary, versions, views, worst
        from app.hardware.pair_view import pair_section
        from app.hardware.slow_causes import diagnose, slow_section

    refuse_wrong_usage(args)
    facts = gather()
    pair, situation = look_at(args, facts)
    sections = [views(facts), pair_section(pair)]
    causes = diagnose(situation) if situation is not None else ()
    if situation is not None:
        sections.append(slow_section(situation, causes))
    sections += [own_files(), hub_section(), versions(facts), places(facts), screen(facts)]
    state = worst(sections)
    clear_status()
    if getattr(args, "json", False):
        print(json.dumps(as_json(facts, sections, state, pair, causes, summary(facts, sections)[0])))
    else:
        columns = min(facts.terminal.columns or _WIDEST, _WIDEST)
        color = facts.terminal.live and facts.terminal.colors > 0 and obeys_codes()
        print(*map(printable, summary(facts, sections)), "", sep="\n")
        print("\n".join(render(sections, columns=columns, color=color)))
    return 1 if state == "problem" else 0


def look_at(args: argparse.Namespace, facts: Facts) -> tuple[PairView, Situation | None]:
    """The pair that the flags mean; see `app.cli.doctor.pair`."""
    with imported_whole():
        from app.cli.doctor.pair import look_at_pair

    return look_at_pair(args, facts)


def refuse_wrong_usage(args: argparse.Namespace) -> None:
    """Raise UsageError for flags that mean nothing here or contradict each other; what files say wrong is to be told.

    A pair that is named without a flag is one by `--pair` from here on.
    """
    from app.cli.known_pairs import is_chosen, named_pair
    from app.cli.options import read_process
    from app.cli.setting_flags import read_flags

    if "named" in args:
        if is_chosen(vars(args)):
            raise UsageError("Name one pair: by its name, by --pair, or by its files.")
        args.pair = args.named
    read_flags(args)
    read_process(args)
    if "pair" in args:
        with suppress(CatalogError):
            named_pair(args.pair)


def gather() -> Facts:
    """Look at this machine; takes seconds where a vendor's tool is slow."""
    from app.hardware.builds import advice
    from app.hardware.checks import Facts
    from app.hardware.machine import look
    from app.hardware.terminal import terminal

    machine = look()
    build, devices, failure = _library(machine.ram_available)
    python = ".".join(platform.python_version_tuple()[:2])
    live = sys.stdout.isatty()
    columns, rows = shutil.get_terminal_size() if live else (0, 0)
    encoding = sys.stdout.encoding or ""
    found = [("tandem", __version__), ("python", f"{platform.python_version()}, {sys.executable}")]
    inside = " inside WSL" if machine.wsl else ""
    system = f"{_SYSTEMS.get(machine.system, machine.system)} {platform.release()}{inside}, {machine.arch}"
    found.append(("system", system))
    if build is not None:
        commit = f", commit {build.commit}" if build.commit else ""
        found.append(("llama.cpp", f"{build.version}{commit}, in llama-cpp-python {build.binding}"))
    return Facts(
        machine=machine,
        build=build,
        devices=devices,
        failure=failure,
        advice=advice(machine, build, devices, python, install=installer(machine.system)),
        terminal=terminal(os.environ, live=live, size=(columns, rows), encoding=encoding, system=machine.system),
        places=_places(),
        versions=tuple(found),
        hidden=tuple(f"{name}={os.environ[name]}" for name in _HIDING if name in os.environ),
    )


def _library(ram_available: int) -> tuple[BuildInfo | None, tuple[Device, ...], ModelLoadError | None]:
    try:
        # Importing it loads llama.cpp, which may be what fails.
        from app.llama.probe import probe

        return *probe(ram_available), None
    except ModelLoadError as error:
        return None, (), error


def _places() -> tuple[Place, ...]:
    from app.core import paths
    from app.hardware.system import place
    from app.models.hub.cache import folder

    folders = (
        ("settings", paths.config_dir()),
        ("models", folder()),
        ("cache", paths.cache_dir()),
        ("data", paths.memory_dir().parent),
        ("log", paths.log_file().parent),
    )
    return tuple(place(label, path) for label, path in folders)


def as_json(
    facts: Facts, sections: Sequence[Section], state: State, pair: PairView, causes: Sequence[Cause], headline: str = ""
) -> dict[str, Any]:
    """Everything as one JSON value: both views as they were read, and each line as it is printed."""
    return {
        "version": __version__,
        "state": state,
        "summary": headline,
        "machine": asdict(facts.machine),
        "llama": {
            "build": _plain(facts.build),
            "devices": [_plain(device) for device in facts.devices],
            "error": facts.failure.message if facts.failure else None,
        },
        "advice": asdict(facts.advice) if facts.advice else None,
        "pair": {
            **asdict(replace(pair, trouble=None)),
            "trouble": pair.trouble.message if pair.trouble is not None else None,
        },
        "causes": [asdict(cause) for cause in causes],
        "terminal": asdict(facts.terminal),
        "sections": [{"title": s.title, "lines": [asdict(line) for line in s.lines]} for s in sections],
    }


def _plain(value: Any) -> dict[str, Any] | None:
    return asdict(value) if value is not None else None
