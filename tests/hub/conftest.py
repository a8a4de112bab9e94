"""A running hub for every test that wants one, with the client pointed at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, file_download
from huggingface_hub.utils import _http

from tests.hub.client import Clock, point_at
from tests.hub.loopback import LoopbackHub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A running hub; `huggingface_hub` asks it, without a token, and keeps its cache in `tmp_path`."""
    with LoopbackHub() as running:
        point_at(running.endpoint, tmp_path / "hf", monkeypatch)
        yield running
        running.faults.release()
        close_session()
    assert running.errors == [], "the loopback hub itself failed"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses the client makes before it tries again; they take no time."""
    clock = Clock()
    monkeypatch.setattr(_http, "time", clock)
    monkeypatch.setattr(file_download, "time", clock)
    return clock.pauses
