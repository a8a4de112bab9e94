"""A settings file in a separate folder."""

from pathlib import Path

import pytest

from app.settings.file import SettingsFile


@pytest.fixture
def file(tmp_path: Path) -> SettingsFile:
    return SettingsFile(tmp_path / "there" / "settings.toml")


def write(file: SettingsFile, text: str) -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(text, encoding="utf-8")
