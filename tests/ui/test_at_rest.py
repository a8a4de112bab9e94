"""What the tests of the screen wait for, and what they do not."""

from __future__ import annotations

import asyncio
import threading

from app.ui.aside import aside
from tests.ui.at_rest import at_rest


async def test_what_comes_of_what_was_done_is_waited_for() -> None:
    steps: list[int] = []

    def step() -> None:
        steps.append(len(steps))
        if len(steps) < 100:
            asyncio.get_running_loop().call_soon(step)

    asyncio.get_running_loop().call_later(0.001, step)
    await at_rest()
    assert len(steps) == 100


async def test_a_thread_that_has_something_to_tell_is_waited_for() -> None:
    may_end = threading.Event()
    told = asyncio.create_task(aside(may_end.wait))
    asyncio.get_running_loop().call_later(0.05, may_end.set)
    await at_rest()
    assert told.done()


async def test_a_timer_that_is_set_late_in_what_takes_long_is_waited_for() -> None:
    loop, rung = asyncio.get_running_loop(), list[bool]()

    def work(pieces: int) -> None:
        # The processor is used, as by a screen that is laid out.
        until = loop.time() + 0.01
        while loop.time() < until:
            pass
        if pieces:
            loop.call_soon(work, pieces - 1)
        else:
            loop.call_later(0.005, rung.append, True)

    work(4)
    await at_rest()
    assert rung


async def test_what_goes_on_for_ever_is_not_waited_for() -> None:
    timers: list[asyncio.TimerHandle] = []

    def again() -> None:
        timers.append(asyncio.get_running_loop().call_later(0.005, again))

    again()
    await at_rest()
    timers[-1].cancel()


async def test_a_later_time_is_not_waited_for() -> None:
    later = asyncio.get_running_loop().call_later(3600, lambda: None)
    await at_rest()
    later.cancel()
