"""Whole machines that we do not have, as files: what is found there, what is said, and which build is named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.hardware.builds import advice
from app.hardware.checks import Facts, Line, views
from app.hardware.machine import look
from app.hardware.terminal import terminal
from tests.machines import FakeBuild, FakeDevice, FakeSystem

FILES = sorted((Path(__file__).parents[1] / "data" / "machines").glob("*.toml"))


def facts_of(given: dict[str, Any]) -> Facts:
    system = FakeSystem(
        given["system"],
        given["arch"],
        files=given.get("files"),
        tools=given.get("tools"),
        registry={key: tuple(rows) for key, rows in given.get("registry", {}).items()},
        memory=tuple(given["memory"]),
        cores=tuple(given["cores"]),
    )
    machine, llama = look(system), given["llama"]
    build = FakeBuild(tuple(llama["backends"]), tuple(llama["features"]))
    devices = tuple(FakeDevice(**device) for device in llama.get("devices", ()))
    return Facts(
        machine=machine,
        build=build,
        devices=devices,
        failure=None,
        advice=advice(machine, build, devices, given["python"]),
        terminal=terminal({}, live=False, size=(0, 0), encoding="utf-8", system=machine.system),
    )


def labelled(facts: Facts, label: str) -> list[Line]:
    return [line for line in views(facts).lines if line.label == label]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_machine_and_what_is_said_of_it(file: Path) -> None:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    expected = given["expected"]
    facts = facts_of(given)

    assert facts.machine.troubles == ()
    assert [[x.state, x.text, x.other] for x in labelled(facts, "graphics")] == expected["graphics"]
    assert " ".join(hint for x in labelled(facts, "graphics") for hint in x.hint) == expected.get("graphics_hint", "")
    (build,) = labelled(facts, "build")
    assert build.state == expected["build"]
    if "memory" in expected:
        assert [line.text for line in labelled(facts, "memory")] == [expected["memory"]]

    if "devices" in expected:
        assert [line.other for line in labelled(facts, "device")] == expected["devices"]

    found = facts.advice
    said = (found.backend, found.command, found.other, found.notes) if found is not None else ("", "", "", ())
    assert said == (expected["backend"], expected["command"], expected["other"], tuple(expected["notes"]))
    # The command stands there whole, to be copied.
    assert not expected["command"] or f"  {expected['command']}" in build.hint


def test_the_machines_are_there() -> None:
    names = {file.stem for file in FILES}

    assert {"nvidia", "nvidia-two", "amd-rocm", "amd-vulkan", "intel-arc", "apple-m2"} <= names
    assert {"wsl2", "laptop", "container", "virtual-machine"} <= names
