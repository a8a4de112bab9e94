"""Full garbage collections wait for the end of an answer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from app.ui import garbage_collection
from app.ui.chat import events
from tests.ui.chat_driver import open_chat


@pytest.fixture
def collector() -> Iterator[None]:
    """Restore the collector afterwards."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()


class _Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.usefixtures("collector")
def test_only_young_objects_are_collected_during_an_answer() -> None:
    young, middle, _ = gc.get_threshold()
    garbage_collection.exclude_existing_objects()

    assert gc.get_freeze_count()
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > 100_000


@pytest.mark.usefixtures("collector")
def test_collect_removes_old_cycles() -> None:
    garbage_collection.exclude_existing_objects()
    gc.collect(1)
    cycle = _Cycle()
    gc.collect(1)
    del cycle

    garbage_collection.collect()

    assert not any(isinstance(thing, _Cycle) for thing in gc.get_objects())


async def test_an_answer_ends_with_a_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[bool] = []
    monkeypatch.setattr(events, "COLLECT_DELAY_S", 0.001)
    monkeypatch.setattr(events, "collect", lambda: collected.append(True))
    async with open_chat() as chat:
        await chat.send("go")
        assert not collected
        chat.engine.says("an answer")
        chat.engine.finishes()
        await chat.ready()
        await chat.until(lambda: collected)
