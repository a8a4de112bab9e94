"""Check doctor's output and the advised build on recorded machines in tests/data/machines."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.hardware.builds import advice
from app.hardware.checks import Facts, llama_section, machine_section, terminal
from app.hardware.devices import Device
from app.hardware.installation import Installation
from app.hardware.machine import detect
from tests.cli.doctor_facts import fake_build
from tests.machines import FakeSystem

FILES = sorted((Path(__file__).parents[1] / "data" / "machines").glob("*.toml"))


def facts_of(given: dict[str, Any]) -> Facts:
    system = FakeSystem(
        given["system"],
        given["arch"],
        files=given.get("files"),
        tools=given.get("tools"),
        memory=tuple(given["memory"]),
        cores=tuple(given["cores"]),
        windows_cpu=given.get("windows_cpu", ""),
    )
    machine, llama = detect(system), given["llama"]
    build = fake_build(tuple(llama["backends"]), tuple(llama["features"]))
    devices = tuple(Device(**device) for device in llama.get("devices", ()))
    return Facts(
        machine=machine,
        build=build,
        devices=devices,
        failure=None,
        advice=advice(machine, build, devices, Installation("pip", "python", machine.system)),
        terminal=terminal({}, live=False, size=(0, 0), encoding="utf-8", system=machine.system),
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_machine_and_its_advice(file: Path) -> None:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    expected = given["expected"]
    facts = facts_of(given)
    checks = machine_section(facts).lines

    assert facts.machine.troubles == ()
    assert [[x.state, x.text] for x in checks if x.label == "GPU"] == expected["gpus"]
    if "memory" in expected:
        assert [x.text for x in checks if x.label == "memory"] == [expected["memory"]]

    found = facts.advice
    told = (found.backend, found.command, found.other or "", [*found.notes]) if found is not None else ("", "", "", [])
    assert told == (expected["backend"], expected["command"], expected["other"], expected["notes"])
    hints = [hint for check in (*checks, *llama_section(facts).lines) for hint in check.hint]
    assert hints.count(f"  {expected['command']}") == (1 if expected["command"] else 0)
