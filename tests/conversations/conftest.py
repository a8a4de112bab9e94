"""Conversations and pairs shared by several test modules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversations.store import Store
from tests.conversations.stores import Clock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "conversations.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(file: Path, clock: Clock) -> Iterator[Store]:
    store = Store(file, now=clock)
    yield store
    store.close()
