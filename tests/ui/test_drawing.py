"""Check how often the screen is updated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.ui.sidebar.readouts import Readouts
from tests.ui.chat_driver import open_chat
from tests.ui.fakes import STATS


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


async def test_threads_are_switched_every_millisecond() -> None:
    before = sys.getswitchinterval()
    try:
        async with open_chat():
            assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)


def test_the_frame_period_is_under_five_milliseconds() -> None:
    program = "import app.ui.app; from textual.screen import UPDATE_PERIOD; print(UPDATE_PERIOD)"
    env = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True, text=True)
    assert float(done.stdout) < 0.005
