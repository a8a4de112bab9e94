"""Full garbage collections wait for the end of an answer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from app.ui.app import _collect_young_objects_only
from app.ui.chat import renderer
from tests.ui.chat_driver import open_chat


@pytest.fixture
def collector() -> Iterator[None]:
    """Restore the collector afterwards."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()


@pytest.mark.usefixtures("collector")
def test_only_young_objects_are_collected_during_an_answer() -> None:
    young, middle, _ = gc.get_threshold()
    _collect_young_objects_only()

    assert gc.get_freeze_count()
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > 100_000


async def test_an_answer_ends_with_a_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []

    def record(phase: str, info: dict[str, int]) -> None:
        collected.append(info["generation"])

    monkeypatch.setattr(renderer, "COLLECT_DELAY_S", 0.001)
    async with open_chat() as chat:
        await chat.send("go")
        gc.callbacks.append(record)
        try:
            chat.engine.says("an answer")
            chat.engine.finishes()
            await chat.ready()
            await chat.until(lambda: 2 in collected)
        finally:
            gc.callbacks.remove(record)
