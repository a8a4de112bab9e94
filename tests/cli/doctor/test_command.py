"""`tandem doctor`, the command: its exit code, its JSON, and what it gathers here."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import pytest

from app.cli.doctor import command
from app.cli.output import LOOKING
from app.core.errors import ModelLoadError
from app.hardware.checks import Facts
from app.hardware.pair_view import PairView
from app.hardware.slow_causes import Situation
from tests.cli.doctor_facts import ADVICE, FACTS, GOOD, with_gpu

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


def test_what_it_is_at_is_said_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def imported() -> None:
        assert shown == [LOOKING]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "StatusLine", lambda _: argparse.Namespace(show=shown.append))
    monkeypatch.setattr(command, "imported_whole", imported)
    with pytest.raises(KeyboardInterrupt):
        command.doctor(argparse.Namespace())


def test_no_color_is_honored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, FACTS)
    assert "\x1b" in capsys.readouterr().out

    run(monkeypatch, replace(FACTS, terminal=replace(GOOD, colors=0)))
    assert "\x1b" not in capsys.readouterr().out

    run(monkeypatch, replace(FACTS, terminal=replace(GOOD, live=False)))
    assert "\x1b" not in capsys.readouterr().out


def test_json_holds_what_the_sections_say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, with_gpu(advice=ADVICE), json=True) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["summary"]) == ("warning", "1 problem: your RTX 4090 is not used")
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


def test_what_is_gathered_here_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")

    facts = command.gather()

    assert facts.build is not None
    assert facts.failure is None
    assert "CPU" in [device.name for device in facts.devices]
    assert "GGML_VK_VISIBLE_DEVICES=0" in facts.hidden
    assert {place.label for place in facts.places} >= {"models", "settings"}
