"""Fetches what the engine has said, at a pace that leaves the processor to the models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from textual.css.query import NoMatches
from textual.widget import MountError

from app.ui.listening.bridge import Batch, EventBridge, Single
from app.ui.listening.pace import Pace
from app.worker.events import Event


class Ears(Protocol):
    """Who is told; `app.ui.chat.hearing` provides it."""

    @property
    def is_waiting(self) -> bool:
        """Whether more is to come."""

    def is_wanted(self, event: Event) -> bool:
        """Whether somebody still waits for what an event belongs to."""

    async def show(self, batch: Batch) -> None:
        """Something went on."""

    async def handle(self, event: Single) -> None:
        """Something happened."""

    def rest(self, next_s: float) -> None:
        """All that has come was told; the next look is so many seconds away."""


class Listener:
    """Looks at the bridge as long as there is something to wait for.

    Args:
        bridge: Where events wait.
        ears: Who is told.
        set_timer: Calls something after so many seconds.
    """

    def __init__(
        self, bridge: EventBridge, ears: Ears, set_timer: Callable[[float, Callable[[], Awaitable[None]]], object]
    ) -> None:
        self._bridge = bridge
        self._ears = ears
        self._set_timer = set_timer
        self._pace = Pace()
        self._looking = False

    def begin(self) -> None:
        """Something was asked for."""
        self._pace.start()
        self._look_soon()

    async def listen(self) -> None:
        """Tell what has come since the last time, at once: one new layout instead of one per token."""
        try:
            for event in self._bridge.drain(self._ears.is_wanted):
                if isinstance(event, Batch):
                    await self._ears.show(event)
                else:
                    await self._ears.handle(event)
        except (MountError, NoMatches):
            # Widgets go while the program ends, perhaps between two of the lines above.
            if not self._bridge.closed:
                raise

    async def _look(self) -> None:
        self._looking = False
        await self.listen()
        self._look_soon()

    def _look_soon(self) -> None:
        if self._ears.is_waiting and not self._looking:
            self._looking = True
            delay = self._pace.next_delay()
            self._ears.rest(delay)
            self._set_timer(delay, self._look)
