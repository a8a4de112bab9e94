"""`tandem doctor`: exit code, JSON, and facts about this machine."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from app.cli import doctor, doctor_checks
from app.cli.command_line import parse_args
from app.cli.doctor_checks import PairReport
from app.core.errors import ModelLoadError
from app.core.paths import config_dir
from app.hardware.checks import Check, Facts
from tests.cli.doctor_facts import ADVICE, FACTS, TERMINAL, text, with_gpu

SLOW = Check("warning", "quota", "The quota ran out.", ("  --threads 2",), slowdown=2.0)
PAIR = PairReport({"the pair": [], "speed and causes": [SLOW]}, {"name": "big"})
NO_PAIR = PairReport({}, {})
BROKEN = replace(FACTS, build=None, devices=(), failure=ModelLoadError("Broken."))


def run(monkeypatch: pytest.MonkeyPatch, facts: Facts, pair: PairReport = NO_PAIR, **args: Any) -> int:
    monkeypatch.setattr(doctor, "gather", lambda: facts)
    monkeypatch.setattr(doctor_checks, "check_pair", lambda *_: pair)
    return doctor.doctor(**args)


def test_summary_is_first_and_only_a_problem_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, FACTS) == 0
    assert capsys.readouterr().out.startswith("No problems found.\n\n")
    assert run(monkeypatch, with_gpu(advice=ADVICE)) == 0
    assert capsys.readouterr().out.startswith("1 problem: your RTX 4090 is not used\n  pip install cuda-build\n\n")
    assert run(monkeypatch, BROKEN) == 1
    assert capsys.readouterr().out.startswith("1 problem: Broken.\n\n")


def test_no_color_is_honored(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for terminal, colored in [
        (TERMINAL, True),
        (replace(TERMINAL, colors=0), False),
        (replace(TERMINAL, live=False), False),
    ]:
        run(monkeypatch, replace(FACTS, terminal=terminal))
        assert ("\x1b" in capsys.readouterr().out) is colored


def test_json_has_every_section(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, with_gpu(advice=ADVICE), PAIR, as_json=True) == 0

    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["summary"]) == ("warning", "2 problems; the first: your RTX 4090 is not used")
    assert said["machine"]["gpus"][0]["name"] == "RTX 4090"
    assert said["llama"]["devices"][0]["name"] == "CPU"
    assert said["advice"]["command"] == "pip install cuda-build"
    assert said["pair"] == {"name": "big"}
    assert said["causes"] == [
        {"label": "quota", "text": SLOW.text, "factor": 2.0, "measured": True, "hint": ["  --threads 2"]}
    ]
    assert [section["title"] for section in said["sections"]] == [
        "machine",
        "llama.cpp",
        "the pair",
        "speed and causes",
        "files",
        "downloads",
        "environment",
    ]
    assert run(monkeypatch, BROKEN, as_json=True) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["llama"]) == ("problem", {"build": None, "devices": [], "error": "Broken."})


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("words", [["doctor", "big"], ["doctor", "--pair", "big"]])
def test_pair_is_named_by_argument_or_flag(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "models.toml").write_text('[pairs.big]\ntarget = "x.gguf"\n')
    monkeypatch.setattr(doctor, "gather", lambda: FACTS)
    seen: list[str] = []

    def check_pair(given: Mapping[str, Any], _: Facts) -> PairReport:
        seen.append(given["pair"])
        return PAIR

    monkeypatch.setattr(doctor_checks, "check_pair", check_pair)
    assert doctor.doctor(**parse_args(words).given) == 0
    assert seen == ["big"]


def test_gather_detects_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")

    facts = doctor.gather()

    assert facts.build is not None
    assert facts.failure is None
    assert "CPU" in [device.name for device in facts.devices]
    assert "GGML_VK_VISIBLE_DEVICES=0" in facts.hidden
    assert {check.label for check in facts.environment} >= {"models", "settings"}


def test_text_is_wrapped_and_commands_are_not() -> None:
    long = ("python -m pip install " + "--option value " * 20).strip()
    rows = text(with_gpu(advice=replace(ADVICE, command=long)), 60).splitlines()

    assert rows[:2] == ["machine", "ok       CPU         AMD EPYC, 2 cores, 4 threads"]
    assert any(long in row for row in rows)
    assert max(len(row) for row in rows if "--option" not in row) <= 60


def test_control_characters_in_values_are_removed() -> None:
    evil = replace(
        FACTS, environment=(Check("ok", "tandem", "\x1b]52;c;eA==\x07"),), hidden=("CUDA_VISIBLE_DEVICES=\x1b[2J",)
    )

    assert "\x1b" not in text(evil)
