"""`tandem doctor`: what it says about machines that we do not have, how it prints it, and its exit code."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.doctor import command
from app.cli.doctor.flags import add_doctor_arguments
from app.cli.doctor.lines import render
from app.cli.installer import installer
from app.errors import ModelLoadError
from app.hardware.builds import Advice
from app.hardware.checks import Facts, Line, Section, places, screen, versions, views, worst
from app.hardware.disk import Place, place
from app.hardware.gpu import Gpu
from app.hardware.machine import Machine
from app.hardware.pair_view import PairView
from app.hardware.slow.situation import Situation
from app.hardware.terminal import Terminal, terminal
from tests.machines import FakeBuild, FakeDevice

GIB = 1 << 30
SECTIONS = (views, versions, places, screen)


CPU = FakeDevice("CPU", "AMD EPYC", "cpu", "CPU")
RTX = Gpu("nvidia", "RTX 4090", 24 * GIB, 23 * GIB, "550.54.15", "CUDA 12.4", target="8.9", api="12.4")
ADVICE = Advice(
    "CUDA", "It lacks CUDA.", "pip install cuda-build", ("Install the toolkit.",), "pip build", "Or build it"
)
GOOD = Terminal(True, "xterm-256color", 120, 40, 256, unicode=True, clipboard=True, multiplexer="")
FACTS = Facts(
    machine=Machine("linux", "AMD EPYC", 2, 4, 24 * GIB, 20 * GIB, ()),
    build=FakeBuild(commit="0c1e570"),
    devices=(CPU,),
    failure=None,
    advice=None,
    terminal=GOOD,
    places=(Place("cache", Path("/c"), True, 100 * GIB),),
    versions=(("tandem", "0.1.0"),),
)


def with_gpu(gpu: Gpu = RTX, **changes: object) -> Facts:
    return replace(FACTS, machine=replace(FACTS.machine, gpus=(gpu,)), **changes)  # type: ignore[arg-type]


def line(section: Section, label: str) -> Line:
    (found,) = [line for line in section.lines if line.label == label]
    return found


def text(facts: Facts, columns: int = 120) -> str:
    return "\n".join(render([s(facts) for s in SECTIONS], columns=columns, colour=False))


# What it says


def test_a_good_machine_is_all_ok() -> None:
    assert worst(section(FACTS) for section in SECTIONS) == "ok"
    assert line(views(FACTS), "processor").other == "CPU, AVX2"
    assert line(views(FACTS), "memory").text == "21.5 GB of 25.8 GB free"


def test_an_unused_card_comes_with_the_command() -> None:
    section = views(with_gpu(advice=ADVICE))

    assert line(section, "graphics").state == "warning"
    assert line(section, "build").state == "warning"
    assert line(section, "build").hint == (
        "It lacks CUDA.",
        "Install the toolkit.",
        "  pip install cuda-build",
        "Or build it:",
        "  pip build",
    )


def test_a_used_card_is_ok_and_its_device_is_listed() -> None:
    device = FakeDevice("CUDA0", "NVIDIA GeForce RTX 4090", "gpu", "CUDA")

    section = views(with_gpu(devices=(CPU, device), build=FakeBuild(backends=("CUDA", "CPU"))))

    assert worst([section]) == "ok"
    assert line(section, "device").other == "CUDA0, NVIDIA GeForce RTX 4090, 21.5 GB of 25.8 GB free"


@pytest.mark.parametrize("driver", ["", "nouveau, kernel 6.8"])
def test_a_card_without_a_driver_needs_one(driver: str) -> None:
    found = line(views(with_gpu(replace(RTX, driver=driver))), "graphics")

    assert found.state == "warning"
    assert "NVIDIA's own driver" in found.hint[0]


def test_unused_graphics_inside_the_processor_are_no_warning() -> None:
    assert (
        line(views(with_gpu(Gpu("intel", "Iris", None, None, "i915", "", integrated=True))), "graphics").state == "ok"
    )


def test_a_library_that_does_not_load_is_a_problem() -> None:
    section = views(replace(FACTS, build=None, devices=(), failure=ModelLoadError("It is broken.", "Mend it.")))

    assert line(section, "build") == Line("problem", "build", "", "It is broken.", ("Mend it.",))


def test_what_the_library_complained_about_is_shown() -> None:
    found = line(views(replace(FACTS, build=FakeBuild(errors="no CUDA-capable device"))), "build")

    assert found.state == "warning"
    assert "no CUDA-capable device" in found.other


def test_a_translated_python_is_a_problem() -> None:
    facts = replace(FACTS, machine=replace(FACTS.machine, translated=True))

    assert line(views(facts), "processor").state == "problem"


def test_a_card_that_the_processor_plays_is_named_as_what_it_is() -> None:
    played = FakeDevice("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)", "software", "Vulkan")
    section = views(replace(FACTS, devices=(played, CPU)))

    assert line(section, "device").other == (
        "Vulkan0, llvmpipe (LLVM 15.0.6, 256 bits): the processor, taken only where it is named"
    )
    assert line(section, "processor").other.startswith("CPU, ")


def test_scarce_memory_silent_tools_and_hidden_devices_are_warnings() -> None:
    machine = replace(FACTS.machine, ram_available=GIB, troubles=("nvidia-smi did not answer within 10 seconds.",))

    section = views(replace(FACTS, machine=machine, hidden=("CUDA_VISIBLE_DEVICES=",)))

    assert [found.label for found in section.lines if found.state == "warning"] == ["memory", "tool", "setting"]


@pytest.mark.parametrize(
    ("writable", "free", "state"),
    [
        (True, 100 * GIB, "ok"),
        (True, GIB, "warning"),
        (True, 1 << 20, "problem"),
        (False, None, "problem"),
        (True, None, "ok"),
    ],
)
def test_a_place_is_judged_by_what_can_be_written_and_how_much(writable: bool, free: int | None, state: str) -> None:
    facts = replace(FACTS, places=(Place("cache", Path("/c"), writable, free),))

    assert line(places(facts), "cache").state == state


def test_a_folder_that_does_not_exist_yet_is_where_it_would_be_made(tmp_path: Path) -> None:
    found = place("cache", tmp_path / "a" / "b")

    assert (found.path, found.writable) == (tmp_path / "a" / "b", True)
    assert found.free_bytes
    assert found.free_bytes > 0


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")

    assert not place("cache", tmp_path / "a" / "b").writable


# The terminal


def seen(encoding: str = "utf-8", system: str = "linux", **env: str) -> Terminal:
    return terminal(env, live=True, size=(100, 30), encoding=encoding, system=system)


@pytest.mark.parametrize(
    ("env", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm-direct"}, 1 << 24),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "dumb"}, 0),
        ({}, 0),
        ({"WT_SESSION": "x"}, 1 << 24),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0),
        ({"TERM": "xterm", "NO_COLOR": ""}, 16),
    ],
)
def test_colours_are_told_by_the_environment(env: dict[str, str], colours: int) -> None:
    assert seen(**env).colours == colours


def test_an_old_console_of_windows_has_sixteen_colours() -> None:
    assert seen(system="windows").colours == 16


@pytest.mark.parametrize(
    ("encoding", "term", "expected"),
    [
        ("utf-8", "xterm", True),
        ("UTF8", "xterm", True),
        ("ascii", "xterm", False),
        ("", "xterm", False),
        ("utf-8", "linux", False),
    ],
)
def test_unicode_takes_an_encoding_and_a_terminal_that_have_it(encoding: str, term: str, expected: bool) -> None:
    assert seen(encoding, TERM=term).unicode is expected


def test_terminals_without_a_clipboard_and_those_in_a_multiplexer_are_known() -> None:
    assert seen(TERM="xterm").clipboard
    assert not seen(TERM="linux").clipboard
    assert not seen(TERM="xterm-256color", TERM_PROGRAM="Apple_Terminal").clipboard
    assert seen(TERM="screen", TMUX="/tmp/x").multiplexer == "tmux"


def test_a_poor_terminal_is_told_so() -> None:
    poor = Terminal(True, "linux", 40, 10, 16, unicode=False, clipboard=False, multiplexer="")

    section = screen(replace(FACTS, terminal=poor))

    assert [found.label for found in section.lines if found.state == "warning"] == [
        "size",
        "colours",
        "unicode",
        "clipboard",
    ]
    assert all(found.hint for found in section.lines if found.state == "warning")


def test_a_pipe_is_no_poor_terminal() -> None:
    assert worst([screen(replace(FACTS, terminal=replace(GOOD, live=False, columns=0, rows=0)))]) == "ok"


# How it is printed


def test_the_two_views_stand_side_by_side_where_there_is_room() -> None:
    wide = text(FACTS, 120).splitlines()

    assert wide[0].split("  ")[-1].strip() == "llama.cpp can use"
    column = wide[0].index("llama.cpp can use")
    assert wide[1].index("CPU, AVX2") == column
    assert wide[2].rindex("21.5 GB of") == column


def test_a_narrow_screen_gets_one_below_the_other() -> None:
    narrow = text(with_gpu(advice=replace(ADVICE, command="pip " + "x" * 100)), 70).splitlines()

    assert "         this machine has, and llama.cpp can use" in narrow
    assert " " * 21 + "llama.cpp: CPU, AVX2" in narrow
    assert max(len(row) for row in narrow if "xxx" not in row) <= 70


def test_a_narrow_screen_does_not_put_words_into_the_mouth_of_llama_cpp() -> None:
    section = Section("the pair", (Line("ok", "pair", "demo", "as named"),), other="what it takes")
    narrow = render([section], columns=60, colour=False)

    assert narrow == ["         the pair, and what it takes", "ok       pair        demo", " " * 21 + "as named"]


def test_commands_are_never_broken() -> None:
    long = "python -m pip install " + "--option value " * 20

    assert long.strip() in text(with_gpu(advice=replace(ADVICE, command=long.strip())), 60)


def test_every_line_begins_with_its_state() -> None:
    for row in text(with_gpu(advice=ADVICE)).splitlines():
        assert not row or row.startswith(("ok ", "warning ", "problem ", " "))


def test_colour_is_only_where_it_is_wanted() -> None:
    sections = [section(FACTS) for section in SECTIONS]

    assert "\x1b[32mok" in "\n".join(render(sections, columns=100, colour=True))
    assert "\x1b" not in "\n".join(render(sections, columns=100, colour=False))


def test_what_was_read_cannot_steer_the_terminal() -> None:
    evil = replace(FACTS, versions=(("tandem", "\x1b]52;c;eA==\x07"),), hidden=("CUDA_VISIBLE_DEVICES=\x1b[2J",))

    assert "\x1b" not in text(evil)


# The command


PAIR = PairView("big", "A big pair", "the default pair", target_source="owner/big-GGUF")


def run(monkeypatch: pytest.MonkeyPatch, facts: Facts, pair: PairView = PAIR, **args: Any) -> int:
    monkeypatch.setattr(command, "gather", lambda: facts)
    monkeypatch.setattr(command, "look_at", lambda *_: (pair, Situation(pair, 2, 2) if pair.models else None))
    return command.doctor(argparse.Namespace(**args))


def test_only_a_library_that_does_not_load_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, FACTS) == 0
    assert run(monkeypatch, with_gpu(advice=ADVICE)) == 0
    assert run(monkeypatch, replace(FACTS, build=None, failure=ModelLoadError("Broken."))) == 1
    assert capsys.readouterr().out.count("this machine has") == 3


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, FACTS)
    assert "\x1b" in capsys.readouterr().out

    run(monkeypatch, replace(FACTS, terminal=replace(GOOD, colours=0)))
    assert "\x1b" not in capsys.readouterr().out

    run(monkeypatch, replace(FACTS, terminal=replace(GOOD, live=False)))
    assert "\x1b" not in capsys.readouterr().out


def test_json_holds_what_the_sections_say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, with_gpu(advice=ADVICE), json=True) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["state"] == "warning"
    assert said["machine"]["gpus"][0]["name"] == "RTX 4090"
    assert said["llama"]["devices"][0]["name"] == "CPU"
    assert said["advice"]["command"] == "pip install cuda-build"
    assert [section["title"] for section in said["sections"]] == [
        "this machine has",
        "the pair",
        "files",
        "downloads",
        "versions",
        "places",
        "terminal",
    ]
    assert [line["state"] for line in said["sections"][3]["lines"]] == ["untried"]


def test_json_of_a_library_that_does_not_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, replace(FACTS, build=None, devices=(), failure=ModelLoadError("Broken.")), json=True) == 1

    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["llama"]) == ("problem", {"build": None, "devices": [], "error": "Broken."})


def test_json_is_a_flag() -> None:
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    add_doctor_arguments(parser)

    assert parser.parse_args(["--json"]).json


@pytest.mark.parametrize(
    ("python", "system", "expected"),
    [
        ("/usr/bin/python3", "linux", "/usr/bin/python3 -m pip install"),
        ("/my tools/python", "darwin", "'/my tools/python' -m pip install"),
        (r"C:\venv\python.exe", "windows", r"C:\venv\python.exe -m pip install"),
        (r"C:\My Tools\python.exe", "windows", r'& "C:\My Tools\python.exe" -m pip install'),
        (r"C:\Jürgen\python.exe", "windows", r'& "C:\Jürgen\python.exe" -m pip install'),
    ],
)
def test_the_installer_is_that_of_this_python(
    monkeypatch: pytest.MonkeyPatch, python: str, system: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "executable", python)

    assert installer(system) == expected


def test_an_environment_without_pip_is_one_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/v/python")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert installer("linux") == "uv pip install --python /v/python"


def test_what_is_gathered_here_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")

    facts = command.gather()

    assert facts.build is not None
    assert facts.failure is None
    assert "CPU" in [device.name for device in facts.devices]
    assert "GGML_VK_VISIBLE_DEVICES=0" in facts.hidden
    assert {place.label for place in facts.places} >= {"models", "settings"}
