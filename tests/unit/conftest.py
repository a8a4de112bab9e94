"""What several files of tests keep conversations in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.store import Store
from tests.unit.keeping import Kept
from tests.unit.stores import Clock


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
