"""Worker events for the screen, at a pace that leaves the CPU to the models.

Most events come many times a second and wait for the screen's own pace; only the others wake it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from textual.css.query import NoMatches
from textual.widget import MountError

from app.engine.events import Step, StepDetails
from app.engine.text.segments import Segment
from app.worker.events import Event, FrequentEvent


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Frequent events that are drawn together, at least one."""

    events: Sequence[FrequentEvent]

    @property
    def latest(self) -> FrequentEvent:
        return self.events[-1]

    @property
    def segments(self) -> Sequence[Segment]:
        """Return the text of all steps."""
        return [segment for event in self.events if isinstance(event, Step) for segment in event.segments]

    @property
    def details(self) -> Sequence[StepDetails]:
        return [event.details for event in self.events if isinstance(event, Step) and event.details is not None]


FASTEST_S, SLOWEST_S, HEAVY_S = 0.033, 0.09, 0.5
"""Seconds between two drawings of a running answer, and the longest pause after a slow drawing."""
_BUSY_SHARE, _FREE_SHARE, _HEAVY_SHARE = 0.02, 0.25, 0.1
"""Share of a core for drawing: while the models use all cores and wait for their slowest thread; while a core is idle;
and at the slowest pace."""
_SAMPLE_S, _IDLE_CORES = 0.5, 0.5
"""Seconds between two samples of CPU use, and the idle cores that count as one idle core."""


class EventHandler(Protocol):
    """Receives events in order; the chat and the comparison provide one."""

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come."""

    async def show(self, batch: EventBatch) -> None:
        """Show text and progress."""

    async def handle(self, event: Event) -> None:
        """Handle an event that is not frequent."""

    def idle(self, next_s: float) -> None:
        """Called when the queue is empty; the next poll is in `next_s` seconds."""


def delay_after(spent_s: float, *, is_free: bool = False) -> float:
    """Return the seconds until the next drawing, from the CPU time of the last drawing and whether a core is idle."""
    slowest = max(SLOWEST_S, min(HEAVY_S, spent_s / _HEAVY_SHARE))
    return min(max(FASTEST_S, spent_s / (_FREE_SHARE if is_free else _BUSY_SHARE)), slowest)


def next_due(due: float, now: float, delay_s: float) -> float:
    """Return when to draw again: drawing late does not slow the pace down, but leaves time for other work."""
    return max(due + delay_s, now + delay_s / 2)


class IdleCore:
    """Tells whether a core is idle, from samples while it is polled; after a pause the last sample holds."""

    def __init__(self) -> None:
        self._at = self._used = math.inf
        self._is_there = False

    def __bool__(self) -> bool:
        # The first poll is no sample.
        self._at = min(self._at, time.monotonic())
        passed = time.monotonic() - self._at
        if passed >= _SAMPLE_S:
            # The first frame does not need this import.
            from app.hardware.cpu import usable_cpus, used_seconds

            before, self._at, self._used = self._used, time.monotonic(), used_seconds()
            # A sample that spans a pause says nothing about the present.
            if passed < 2 * _SAMPLE_S and before < math.inf:
                self._is_there = usable_cpus() - (self._used - before) / passed >= _IDLE_CORES
        return self._is_there


class OverlayHandler(EventHandler, Protocol):
    """Receives only the events of its own requests."""

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to a request of this handler."""


class EventQueue:
    """Holds the worker's events, and passes them to the screen's handler while it expects any.

    A screen on top of the chat may set `overlay`, which gets the events of its own requests.
    """

    _handler: EventHandler
    _call_next: Callable[[Callable[[], Awaitable[None]]], object]

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._wake: Callable[[], object] | None = None
        self._woken = False
        self.closed = False
        self.overlay: OverlayHandler | None = None
        self._cpu_s = 0.0
        """CPU time of the screen's thread at the last poll."""
        self._looks = False
        self._due = 0.0
        """Time of the event loop at which the last poll was due."""
        self._idle_core = IdleCore()

    def __call__(self, event: Event) -> None:
        """Add an event, on the worker's thread."""
        self._events.append(event)
        wake = self._wake
        if wake is not None and not self._woken and not isinstance(event, FrequentEvent):
            self._woken = True
            # The screen's event loop may end between two instructions of this thread.
            with suppress(RuntimeError):
                wake()

    def connect(
        self,
        wake: Callable[[], object],
        handler: EventHandler,
        call_next: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        """Pass events on from now on.

        Args:
            wake: Dispatches soon, on any thread.
            call_next: Calls a function among the messages of the handler.
        """
        self._wake, self._handler, self._call_next = wake, handler, call_next
        if self._events:
            wake()

    def close(self) -> None:
        """Drop all events from now on."""
        self.closed, self._wake = True, None

    def drain(self) -> Iterator[EventBatch | Event]:
        """Yield the events, oldest first; consecutive frequent events for one handler form a batch."""
        # Clear the flag first, so that an event that arrives meanwhile wakes the screen again.
        self._woken = False
        kind = lambda event: (isinstance(event, FrequentEvent), self._is_overlays(event))  # noqa: E731 - a key
        for (is_frequent, _), run in groupby(self._taken(), kind):
            if is_frequent:
                yield EventBatch(list(run))
            else:
                yield from run

    def _taken(self) -> Iterator[Any]:
        while self._events and not self.closed:
            yield self._events.popleft()

    def _is_overlays(self, event: Event) -> bool:
        return self.overlay is not None and self.overlay.expects(event)

    # On the screen's thread

    def start(self) -> None:
        """Poll the queue from now on, if it is connected, because something was requested."""
        if self._wake is not None:
            self._cpu_s = time.thread_time()
            self._look_soon()

    async def dispatch(self) -> None:
        """Handle all queued events at once: one layout instead of one per token."""
        try:
            for event in self.drain():
                if isinstance(event, EventBatch):
                    await self._handler_of(event.latest).show(event)
                else:
                    await self._handler_of(event).handle(event)
        except (MountError, NoMatches):
            # Widgets disappear while the program ends, perhaps between two of the lines above.
            if not self.closed:
                raise

    def _handler_of(self, event: Event) -> EventHandler:
        return self.overlay if self.overlay is not None and self._is_overlays(event) else self._handler

    async def _look(self) -> None:
        self._looks = False
        await self.dispatch()
        self._look_soon()

    def _look_soon(self) -> None:
        handlers = [self._handler, *([self.overlay] if self.overlay is not None else [])]
        if not self._looks and any(handler.expects_events for handler in handlers):
            self._looks = True
            now = time.thread_time()
            delay, self._cpu_s = delay_after(now - self._cpu_s, is_free=bool(self._idle_core)), now
            for handler in handlers:
                handler.idle(delay)
            loop = asyncio.get_running_loop()
            self._due = next_due(self._due, loop.time(), delay)
            # Textual's timers have a task each.
            loop.call_at(self._due, self._call_next, self._look)
