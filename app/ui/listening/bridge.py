"""Worker events, from the worker's thread to the screen's.

Events wait here until the screen fetches them. Most come many times a second and can wait for the screen's own pace;
only the others wake it.
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

Paced = LoadProgress | Measuring | PromptProgress | Step
"""What comes many times a second."""
Single = Loaded | PairChanged | Notice | Finished | Failed | JobProgressed | JobEnded
"""What comes once, and should not wait."""


@dataclass(slots=True)
class Batch:
    """Events that come many times a second, as one: all their text, the latest of their numbers."""

    latest: Paced
    segments: list[Segment] = field(default_factory=list)
    rounds: list[StepDetails] = field(default_factory=list)


class EventBridge:
    """Called by the worker with every event; holds them for `drain`."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._wake: Callable[[], object] | None = None
        self._woken = False
        self.closed = False
        """Whether nobody listens any more."""

    def __call__(self, event: Event) -> None:
        """Take an event; runs on the worker's thread."""
        self._events.append(event)
        wake = self._wake
        if wake is not None and not self._woken and not isinstance(event, Paced):
            self._woken = True
            # The screen's event loop may end between two instructions of this thread.
            with suppress(RuntimeError):
                wake()

    def connect(self, wake: Callable[[], object]) -> None:
        """Name the thread-safe call that makes the screen drain soon."""
        self._wake = wake

    def close(self) -> None:
        """Nobody will look again."""
        self.closed, self._wake = True, None

    def drain(self, wanted: Callable[[Event], bool]) -> Iterator[Batch | Single]:
        """What has come, oldest first, paced events as one wherever they follow each other.

        Args:
            wanted: Which events to give; the others are dropped.
        """
        # Before the first look: an event that arrives later may then wake once too often, never too seldom.
        self._woken = False
        batch: Batch | None = None
        while self._events and not self.closed:
            event = self._events.popleft()
            if not wanted(event):
                continue
            if isinstance(event, Paced):
                batch = batch or Batch(event)
                batch.latest = event
                batch.segments += event.segments if isinstance(event, Step) else ()
                if isinstance(event, Step) and event.details is not None:
                    batch.rounds.append(event.details)
                continue
            if batch is not None:
                yield batch
                batch = None
            yield event
        if batch is not None and not self.closed:
            yield batch
