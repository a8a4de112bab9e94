"""The commands of an engine: load a pair, answer, run a job."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from app.engine.interfaces import Cancelled
from app.worker.events import Event
from app.worker.request import AnswerRequest, LoadedPair


class CancelSwitch(Protocol):
    """A flag that any thread may set and the worker reads."""

    def __call__(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...


Progress = Callable[[str, float], bool]
"""Called with the model being loaded and the share done; returns False to cancel."""

Loader = Callable[[CancelSwitch, Progress], LoadedPair]
"""Loads a pair on the worker's thread; raises AppError, or Interrupted when progress returned False."""


class Job(Protocol):
    """Longer work with the loaded pair, described by a frozen value."""

    @property
    def loads(self) -> bool:
        """Return whether a lost pair is loaded again for it; otherwise the job ends with the result None."""

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        """Do the work. Every event carries `number` as `request`; the last one is `JobEnded`, also after a stop."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load a pair. For a child process the loader must be a frozen dataclass that the codec knows."""

    number: int
    loader: Loader


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a conversation."""

    number: int
    request: AnswerRequest


@dataclass(frozen=True, slots=True)
class RunJob:
    """Run a job with the pair. For a child process the job must be a value that the codec knows."""

    number: int
    job: Job


Command = Load | Answer | RunJob


class CommandQueue:
    """Numbers commands in the order in which they are submitted.

    Both engines share it: the thread of this process and the child process.
    """

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._last_number = self._cancelled_through = 0

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first."""
        self._number(Load, loader)

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        return self._number(Answer, request)

    def run(self, job: Job) -> int:
        """Run a job with the pair; returns the number that its events carry as `request`."""
        return self._number(RunJob, job)

    def _number(self, kind: Callable[[int, Any], Command], what: Any) -> int:
        with self._lock:
            self._last_number += 1
            self._commands.put(kind(self._last_number, what))
            return self._last_number

    def _is_cancelled(self, command: Command) -> bool:
        return command.number <= self._cancelled_through
