"""When a program that is tested has come to rest: told by its event loop, not by how busy the machine is."""

from __future__ import annotations

import asyncio
import threading
from math import inf

import pytest
from textual.pilot import Pilot

_NEAR_S = 0.02
"""What timers do so soon, in all, is still an effect of what was done before; what goes on for ever is not."""
_LONGEST_S = 30.0
"""Only where something never ends is waited so long."""
_WORKING = frozenset({"aside", "machine", "pair"})
"""Threads that have something to tell the screen when they end."""


async def at_rest(*_: float) -> None:
    """Wait until nothing is left to do; stands in for `textual._wait.wait_for_idle`.

    That one looks every 20 ms whether the process has used next to no processor: beside other tests it waits many
    times as long as there is something to do, and where nobody lets the process run it takes that for rest.
    """
    loop = asyncio.get_running_loop()
    end, near = loop.time() + _LONGEST_S, _NEAR_S
    while loop.time() < end:
        # Before the loop has its turn as well: what an ended thread has left it is dealt with then.
        waits = _is_working()
        await asyncio.sleep(0)
        if loop._ready:  # type: ignore[attr-defined]
            continue
        if waits or _is_working():
            await asyncio.sleep(0.001)
            continue
        timers = loop._scheduled  # type: ignore[attr-defined]
        wait = min((timer.when() for timer in timers if not timer.cancelled()), default=inf) - loop.time()
        if wait > near:
            return
        near -= max(0.0, wait)
        await asyncio.sleep(max(0.0, wait))


def _is_working() -> bool:
    return any(thread.name in _WORKING for thread in threading.enumerate())


def told_by_the_loop(patch: pytest.MonkeyPatch) -> None:
    """Let a pilot wait so, and for every widget with all others instead of sending something through each."""

    async def wait_for_screen(pilot: Pilot[object]) -> bool:
        await at_rest()
        return True

    patch.setattr("textual.app.wait_for_idle", at_rest)
    patch.setattr("textual.pilot.wait_for_idle", at_rest)
    patch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
