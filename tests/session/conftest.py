"""A session over a real store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conversations.conftest import clock, file
from tests.session.scripted import ScriptedSession

__all__ = ["chat", "clock", "file"]


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[ScriptedSession]:
    chat = ScriptedSession(tmp_path / "conversations.db")
    yield chat
    chat.session.close()
