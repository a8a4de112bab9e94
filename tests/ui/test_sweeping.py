"""The collector of cycles waits for the end of an answer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from app.ui import sweeping
from app.ui.chat import events
from tests.ui.chat_driver import open_chat


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as it was, afterwards; before, it leaves nothing alone."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()


class _Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.usefixtures("collector")
def test_old_objects_are_left_alone_and_young_ones_are_not() -> None:
    young, middle, _ = gc.get_threshold()
    sweeping.leave_old_objects()

    assert gc.get_freeze_count()
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > 100_000


@pytest.mark.usefixtures("collector")
def test_a_sweep_takes_what_was_left() -> None:
    sweeping.leave_old_objects()
    gc.collect(1)
    cycle = _Cycle()
    gc.collect(1)
    del cycle

    sweeping.sweep()

    assert not any(isinstance(thing, _Cycle) for thing in gc.get_objects())


async def test_everything_is_looked_at_after_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[bool] = []
    monkeypatch.setattr(events, "REST_S", 0.001)
    monkeypatch.setattr(events, "sweep", lambda: swept.append(True))
    async with open_chat() as chat:
        await chat.send("go")
        assert not swept
        chat.engine.says("an answer")
        chat.engine.finishes()
        await chat.ready()
        await chat.until(lambda: swept)
