"""Programs are found where they are installed, and never in the folder that the user works in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.core.program import find_program


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of programs on Windows, which is not that in which something of the same name lies."""
    folder, here = tmp_path / "System32", tmp_path / "downloaded"
    for place in (folder, here):
        place.mkdir()
        (place / "clip.exe").touch()
    (here / "rocm-smi.exe").touch()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", "downloaded", f'"{folder}"')))
    monkeypatch.setattr(sys, "platform", "win32")
    return folder


def test_on_windows_the_folder_that_the_user_works_in_is_not_looked_into(installed: Path) -> None:
    assert find_program("clip") == str(installed / "clip.exe")
    assert find_program("rocm-smi") is None


def test_elsewhere_the_system_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch(0o755)
    (tmp_path / "other" / "vendors").touch(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path / "first"))

    assert find_program("tool", (str(tmp_path / "other"),)) == str(tmp_path / "first" / "tool")
    assert find_program("vendors", (str(tmp_path / "other"),)) == str(tmp_path / "other" / "vendors")
    assert find_program("vendors") is None
