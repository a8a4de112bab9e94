"""Check the folders of Tandem without a home folder."""

import os
import sys

import pytest

from app.cli import main


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has home folders by other means")
@pytest.mark.parametrize(
    "command", [["settings", "path"], ["pairs", "list"], ["export"], ["run", "Hi"], ["doctor"], []], ids=" ".join
)
def test_a_missing_home_folder_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    import pwd

    def nobody(_: int) -> None:
        raise KeyError("uid not found")

    for name in [name for name in os.environ if name == "HOME" or name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    assert main(command) == 1
    assert "no home folder" in capsys.readouterr().err
