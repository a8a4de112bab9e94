"""Worker events on their way from the worker's thread to the screen's.

Most come many times a second and wait for the screen's own pace; only the others wake it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from app.engine.text.segments import Segment
from app.worker.events import (
    Event,
    Failed,
    Finished,
    JobEnded,
    JobProgressed,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PairChanged,
    PromptProgress,
    Step,
    StepDetails,
)

FrequentEvent = LoadProgress | Measuring | PromptProgress | Step
"""Events that come many times a second."""
SingleEvent = Loaded | PairChanged | Notice | Finished | Failed | JobProgressed | JobEnded
"""Events that wake the screen."""


@dataclass(slots=True)
class Batch:
    """Frequent events as one: all their text, the latest of their numbers."""

    latest: FrequentEvent
    segments: list[Segment] = field(default_factory=list)
    details: list[StepDetails] = field(default_factory=list)

    def add(self, event: FrequentEvent) -> None:
        self.latest = event
        if isinstance(event, Step):
            self.segments += event.segments
            if event.details is not None:
                self.details.append(event.details)


class EventQueue:
    """Called by the worker with every event; holds them for `drain`."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._wake: Callable[[], object] | None = None
        self._woken = False
        self.closed = False

    def __call__(self, event: Event) -> None:
        """Add an event; runs on the worker's thread."""
        self._events.append(event)
        wake = self._wake
        if wake is not None and not self._woken and not isinstance(event, FrequentEvent):
            self._woken = True
            # The screen's event loop may end between two instructions of this thread.
            with suppress(RuntimeError):
                wake()

    def connect(self, wake: Callable[[], object]) -> None:
        """Set the thread-safe call that makes the screen drain soon."""
        self._wake = wake

    def close(self) -> None:
        """Drop all events from now on."""
        self.closed, self._wake = True, None

    def drain(self, expects: Callable[[Event], bool]) -> Iterator[Batch | SingleEvent]:
        """Yield events, oldest first, with frequent ones as one batch wherever they follow each other.

        Args:
            expects: Returns whether to yield an event; the others are dropped.
        """
        # First, so that an event that arrives meanwhile wakes the screen again.
        self._woken = False
        batch: Batch | None = None
        while self._events and not self.closed:
            event = self._events.popleft()
            if not expects(event):
                continue
            if isinstance(event, FrequentEvent):
                batch = batch or Batch(event)
                batch.add(event)
                continue
            if batch is not None:
                yield batch
                batch = None
            yield event
        if batch is not None and not self.closed:
            yield batch
