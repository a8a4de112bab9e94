"""Check how often the screen is updated, and that garbage is collected while nothing is drawn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from app.ui.app import _collect_young_objects_only
from app.ui.chat import renderer
from app.ui.sidebar.readouts import Readouts
from tests.fake_engine import STATS
from tests.ui.driver import open_chat


def test_numbers_are_redrawn_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.sidebar.readouts.REDRAW_S", 0.5)
    now, told = 10.0, list[float]()
    readouts = Readouts(clock=lambda: now)
    readouts.begin()
    readouts.watch(lambda: told.append(now))
    for _ in range(12):
        readouts.measured(replace(STATS, predicted_n=STATS.predicted_n + 1), None, live=True)
        now += 0.2
    assert told == pytest.approx([10.0, 10.6, 11.2, 11.8])
    readouts.catch_up()
    readouts.catch_up()
    assert told[4:] == pytest.approx([12.4])
    readouts.measured(STATS, None, live=True)
    readouts.measured(STATS, None, live=False)
    assert len(told) == 6


@pytest.mark.parametrize("change", [Readouts.begin, lambda readouts: readouts.do("stopping"), Readouts.unloaded])
def test_a_new_activity_is_shown_at_once(change: Callable[[Readouts], None]) -> None:
    told: list[str] = []
    readouts = Readouts(clock=lambda: 1.0)
    readouts.measured(STATS, None, live=True)
    readouts.watch(lambda: told.append(readouts.doing))
    change(readouts)
    readouts.measured(STATS, None, live=True)
    assert len(told) == 2


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
            await chat.answer("an answer")
            await chat.until(lambda: 2 in collected)
        finally:
            gc.callbacks.remove(record)
