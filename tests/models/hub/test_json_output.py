"""JSON about pairs, on a terminal and elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.cli import main
from tests.models.hub.models import tiny


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("words", [["pairs", "check"], ["setup", "--name", "mine", "--no-trial", "--target"]])
def test_what_a_file_is_called_steers_no_terminal(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    is_terminal: bool,
) -> None:
    name = "\u00fc\u009b31m"
    tiny(home / "mine", f"{name}.gguf")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)

    assert main([*words, str(home / "mine" / f"{name}.gguf"), "--json"]) == 0

    out = capsys.readouterr().out
    assert out.isascii() == is_terminal
    assert "\u00fc" in str(json.loads(out)["target"])
