"""Every command with --json prints the keys that scripts depend on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import main
from tests.cli.commands import every_command
from tests.cli.json_keys import JSON_KEYS


def test_every_command_with_json_has_fixed_keys() -> None:
    printing = {str(c.name) for c in every_command() if any("--json" in param.opts for param in c.params)}
    assert printing | {"export"} == {name.split()[-1] for name in JSON_KEYS}


@pytest.mark.parametrize("command", ["pairs list", "pairs show", "pairs check", "settings", "settings show", "doctor"])
def test_json_has_the_fixed_keys(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    name = ["demo"] if command in ("pairs show", "pairs check") else []

    assert main([*command.split(), *name, "--json"]) in (0, 1)

    found = json.loads(capsys.readouterr().out)
    for one in found if isinstance(found, list) else [found]:
        assert tuple(one) == JSON_KEYS[command]
