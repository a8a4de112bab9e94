"""The worker as a session uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from app.worker.events import Event
from app.worker.request import AnswerRequest

if TYPE_CHECKING:
    from app.worker.engine_worker import Job, Loader


class Engine(Protocol):
    """The commands of `app.worker.engine_worker.EngineWorker`."""

    def load(self, loader: Loader) -> None: ...

    def answer(self, request: AnswerRequest) -> int: ...

    def run(self, job: Job) -> int: ...

    def cancel(self) -> None: ...

    def inspect(self, on: bool) -> None: ...

    def draft(self, on: bool) -> None: ...

    def close(self, timeout: float | None = None) -> bool: ...


EngineFactory = Callable[[Callable[[Event], None]], Engine]
"""Makes an engine that reports to the given callback, on any thread."""
