"""The commands of an engine and what they carry: loaders, answers and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

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
