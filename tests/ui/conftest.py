"""Snapshots are SVG files, and are called so; nobody waits for a pace made for eyes."""

from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

SVGImageExtension.file_extension = "svg"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where conversations are kept."""
    return tmp_path / "conversations.db"


@pytest.fixture(autouse=True)
def quick_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.listening.pace.FASTEST_S", 0.05)
    monkeypatch.setattr("app.ui.listening.pace.SLOWEST_S", 0.05)
    monkeypatch.setattr("app.ui.readouts.state.TOLD_S", 0.0)
