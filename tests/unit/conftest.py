"""What several files of tests keep conversations and pairs in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.store import Store
from tests.unit.keeping import Kept
from tests.unit.stores import Clock


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything of one test is, Tandem's own folders included."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "conversations.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(file: Path, clock: Clock) -> Iterator[Store]:
    store = Store.open(file, now=clock)
    yield store
    store.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "conversations.db")
    yield kept
    kept.keeper.close()
