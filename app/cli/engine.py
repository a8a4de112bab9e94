"""The engine that runs a pair: a thread of this process, or a process of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.options import Options, ProcessOptions
from app.llama.cancel import CancelFlag
from app.session.answering import Engine
from app.worker.engine_worker import EngineWorker, Loader, Progress
from app.worker.events import Event
from app.worker.request import LoadedPair

if TYPE_CHECKING:
    from app.core.program import ExitStatus

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class PairLoader:
    """Serializable command that loads a pair in the worker."""

    options: Options

    def __call__(self, cancel: threading.Event, progress: Progress) -> LoadedPair:
        # These imports take long; only the worker needs them.
        from app.llama.start_check import check_start

        # The import of llama.cpp would do the same, but the user could not stop it.
        check_start(cancel.is_set)
        from app.cli.loading import load

        return load(self.options, cancel, progress)


def make_engine(process: ProcessOptions, emit: Callable[[Event], None]) -> Engine:
    """Return an engine that loads nothing yet.

    Remote devices need a process of their own: llama.cpp aborts when one goes away.
    """
    if not process.isolate:
        return EngineWorker(emit, CancelFlag())
    from app.core.program import python_command
    from app.worker.isolated_engine import IsolatedEngine

    child = python_command("-c", "from app.cli.engine import serve_child; serve_child()")
    return IsolatedEngine(emit, child, hint_after, process.rpc)


def received(events: queue.SimpleQueue[Event]) -> Event:
    """Wait for an event, in short waits: Windows delivers Ctrl+C to Python only between two."""
    while True:
        with suppress(queue.Empty):
            return events.get(timeout=_POLL_S)


def serve_child() -> None:
    """Run the isolated engine's child process; does not return."""
    from app.worker.engine_process import serve

    serve(CancelFlag())


def hint_after(loader: Loader, status: ExitStatus) -> str:
    """Return what to do after the process of a pair has ended."""
    assert isinstance(loader, PairLoader)
    remote = loader.options.process.rpc and not status.was_killed
    return "Without --rpc the models are loaded on this machine alone." if remote else status.fix
