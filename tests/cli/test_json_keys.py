"""The keys that help promises to scripts are those that they find."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli import main
from app.cli.json_keys import JSON_KEYS, TIMINGS
from app.cli.parser import build_parser


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def test_every_command_that_prints_objects_names_their_keys() -> None:
    for parser in parsers(build_parser()):
        name = parser.prog.removeprefix("tandem").strip()
        prints = any("--json" in action.option_strings for action in parser._actions) or name == "export"
        assert (name in JSON_KEYS) is prints, name
        words = " ".join(parser.format_help().split())
        assert all(key in words for key in JSON_KEYS.get(name, ())), name
        assert name != "run" or all(f" {key}" in words for key in TIMINGS)


@pytest.mark.parametrize("command", ["pairs list", "pairs show", "pairs check", "settings", "settings show", "doctor"])
def test_they_are_what_is_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    name = ["demo"] if command in ("pairs show", "pairs check") else []

    assert main([*command.split(), *name, "--json"]) in (0, 1)

    found = json.loads(capsys.readouterr().out)
    for one in found if isinstance(found, list) else [found]:
        assert tuple(one) == JSON_KEYS[command]
