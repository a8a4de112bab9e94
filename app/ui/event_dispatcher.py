"""Hands queued worker events to their handler, at a pace that leaves the CPU to the models."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from textual.css.query import NoMatches
from textual.widget import MountError

from app.ui.event_queue import Batch, EventQueue, SingleEvent
from app.worker.events import Event

FASTEST_S = 0.2
SLOWEST_S = 1.0
_SHARE = 0.016
"""Share of a core that drawing may take: the models wait for the slowest of their threads. Reading and writing the
terminal takes another half percent."""


class EventHandler(Protocol):
    """Receives events; the chat and the comparison provide one."""

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come."""

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to a request of this handler."""

    async def show(self, batch: Batch) -> None:
        """Show text and progress."""

    async def handle(self, event: SingleEvent) -> None:
        """Handle an event that is no progress."""

    def rest(self, next_s: float) -> None:
        """All events are handled; the next look is in so many seconds."""


class Pace:
    """Spaces drawing by the CPU time it takes. Belongs to the thread that draws."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Forget the time spent while nothing was drawn."""
        self._spent_s = time.thread_time()

    def next_delay(self) -> float:
        """Return the seconds until the next drawing, from the CPU time since the last call."""
        now = time.thread_time()
        spent, self._spent_s = now - self._spent_s, now
        return min(max(FASTEST_S, spent / _SHARE), SLOWEST_S)


class EventDispatcher:
    """Looks at the queue while a handler expects events.

    Args:
        queue: Holds the events.
        handler: Gets all events but those of `overlay`.
        set_timer: Calls something after so many seconds.

    Attributes:
        overlay: Handler of a screen on top of the chat; gets the events of its own requests.
    """

    def __init__(
        self,
        queue: EventQueue,
        handler: EventHandler,
        set_timer: Callable[[float, Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._queue = queue
        self._handler = handler
        self._set_timer = set_timer
        self._pace = Pace()
        self._looks = False
        self.overlay: EventHandler | None = None

    def start(self) -> None:
        """Look at the queue from now on; something was asked for."""
        self._pace.start()
        self._look_soon()

    async def dispatch(self) -> None:
        """Handle all queued events at once: one layout instead of one per token."""
        try:
            for event in self._queue.drain(lambda event: self._handler_of(event).expects(event)):
                if isinstance(event, Batch):
                    await self._handler_of(event.latest).show(event)
                else:
                    await self._handler_of(event).handle(event)
        except (MountError, NoMatches):
            # Widgets go while the program ends, perhaps between two of the lines above.
            if not self._queue.closed:
                raise

    def _handler_of(self, event: Event) -> EventHandler:
        return self.overlay if self.overlay is not None and self.overlay.expects(event) else self._handler

    async def _look(self) -> None:
        self._looks = False
        await self.dispatch()
        self._look_soon()

    def _look_soon(self) -> None:
        handlers = [self._handler, *([self.overlay] if self.overlay is not None else [])]
        if not self._looks and any(handler.expects_events for handler in handlers):
            self._looks = True
            delay = self._pace.next_delay()
            for handler in handlers:
                handler.rest(delay)
            self._set_timer(delay, self._look)
