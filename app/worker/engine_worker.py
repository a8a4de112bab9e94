"""The engine worker: one thread that owns every native handle for its whole life.

Commands go in through a queue; events come out through a callback that runs on the worker's thread. llama.cpp requires
one thread per object, and a thread that owns everything needs no other locks.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.errors import AppError, Interrupted, StoppedError, UsageError
from app.models.pair_info import PairInfo
from app.worker.events import Event, Failed, JobEnded, Loaded, LoadProgress, Notice, PairChanged
from app.worker.jobs import AnswerJob, Job
from app.worker.request import AnswerRequest, LoadedPair

if TYPE_CHECKING:
    from app.engine.interfaces import Controls

log = logging.getLogger("tandem.worker")
log.addHandler(logging.NullHandler())


Progress = Callable[[float], bool]
"""Called with the loaded share of a pair's bytes; returns False to cancel."""

Loader = Callable[[threading.Event, Progress], LoadedPair]
"""Loads a pair on the worker's thread, until the event is set; raises AppError, or Interrupted after a stop."""


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """Run a job with the pair, or load a pair; for a child process, the work must be picklable."""

    number: int
    work: Job | Loader

    @property
    def request(self) -> int | None:
        """Return the number that its events have; those of a load have none."""
        return self.number if isinstance(self.work, Job) else None

    @property
    def gives_way(self) -> bool:
        return isinstance(self.work, Job) and self.work.gives_way


class Engine:
    """Numbers commands in the order of submission, and holds the switches of answers.

    `EngineWorker` runs the commands in this process, and `IsolatedEngine` in a child process.

    Args:
        receivers: Each gets every event on the engine's thread; they must be quick.
        name: Name of that thread, which runs `_run`.
    """

    def __init__(self, receivers: Sequence[Callable[[Event], None]], name: str) -> None:
        self._receivers = receivers
        self._loader: Loader | None = None
        """Loader of the last loaded pair."""
        # A daemon, because a native call that does not return must not keep the program alive.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._commands: queue.SimpleQueue[EngineCommand | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._last_number = self._current = 0
        self._gives_way = False
        """Whether the running command gives way to others."""
        self._last_firm = 0
        """Number of the last command that does not give way."""
        self._cancelled: set[int] = set()
        """Numbers of stopped commands that have not ended."""
        self._inspected, self._drafts = False, True

    def inspect(self, on: bool) -> None:
        """Add the target's probabilities to step details from the next step, or stop adding them."""
        self._inspected = on

    def draft(self, on: bool) -> None:
        """Allow or forbid drafting from the next step."""
        self._drafts = on

    def load(self, loader: Loader) -> None:
        """Load a pair after freeing the current pair."""
        self._put(loader)

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; return the number that its events have as `request`."""
        return self.run(AnswerJob(request))

    def run(self, job: Job) -> int:
        """Run a job with the pair; return the number that its events have as `request`."""
        return self._put(job)

    def _put(self, work: Job | Loader) -> int:
        with self._lock:
            self._last_number = number = self._last_number + 1
            command = EngineCommand(number, work)
            self._commands.put(command)
            stopped = None
            if not command.gives_way:
                self._last_firm, stopped = number, self._current if self._gives_way else None
        if stopped is not None:
            self.cancel(stopped)
        return number

    def cancel(self, number: int | None = None) -> None:
        """Stop a command, or all commands; written text stays."""
        raise NotImplementedError

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything and free the models; return whether that ended within `timeout` seconds."""
        raise NotImplementedError

    def _run(self) -> None:
        raise NotImplementedError

    def _emit(self, event: Event) -> None:
        for receive in self._receivers:
            receive(event)

    def _begin(self, command: EngineCommand) -> None:
        """Mark a command as running and forget stops of earlier commands; the caller holds the lock."""
        self._current = command.number
        self._gives_way = command.gives_way
        if self._gives_way and self._last_firm > command.number:
            self._cancelled.add(command.number)
        self._cancelled = {number for number in self._cancelled if number >= self._current}

    def _is_cancelled(self, command: EngineCommand) -> bool:
        return command.number in self._cancelled

    def _is_current(self, number: int | None) -> bool:
        """Mark a command, or all, as canceled; return whether this may include the running command."""
        self._cancelled.update(range(self._current, self._last_number + 1) if number is None else [number])
        return number in (None, self._current)


class EngineWorker(Engine):
    """Loads pairs and answers, one command at a time, on its own thread.

    Args:
        cancel: Set by `cancel()`; a flag that llama.cpp reads too stops a decode in the middle.
    """

    def __init__(self, *receivers: Callable[[Event], None], cancel: threading.Event | None = None) -> None:
        super().__init__(receivers, "engine")
        self._flag = cancel or threading.Event()
        self._pair: LoadedPair | None = None
        self._reported_notices: Sequence[str] = ()
        self._reported_pair: PairInfo | None = None
        self._thread.start()

    def submit(self, command: EngineCommand) -> None:
        """Queue a command numbered by the parent process."""
        with self._lock:
            self._last_number = command.number
            self._commands.put(command)

    def adopt(self, loader: Loader) -> None:
        """Load this pair for the next command, because its process ended."""
        self._loader = loader

    def cancel(self, number: int | None = None) -> None:
        with self._lock:
            if self._is_current(number):
                self._flag.set()

    def close(self, timeout: float | None = None) -> bool:
        self.cancel()
        self._commands.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (command := self._next_command()) is not None:
            with self._lock:
                self._begin(command)
                if self._is_cancelled(command):
                    self._flag.set()
                else:
                    self._flag.clear()
            try:
                match command.work:
                    case Job() as job if job.loads or self._pair is not None:
                        self._emit_all(job.run(self._loaded, command.number, self._controls()))
                    case Job():
                        self._emit(JobEnded(command.number, None))
                    case loader:
                        self._load(loader)
            except AppError as error:
                self._emit(Failed(command.request, error))
            except Interrupted:
                self._emit(Failed(command.request, StoppedError("Loading was stopped.")))
            except Exception as error:
                log.exception("unexpected failure in the engine")
                unexpected = AppError(f"Unexpected error: {type(error).__name__}: {error}", "Please report it.")
                self._emit(Failed(command.request, unexpected))
        self._free()

    def _controls(self) -> Controls:
        from app.engine.interfaces import Controls

        return Controls(
            self._flag.is_set, self._flag.wait, inspected=lambda: self._inspected, drafts=lambda: self._drafts
        )

    def _next_command(self) -> EngineCommand | None:
        """Wait for a command; meanwhile, free a pair that is idle for long, and load it again for the next command."""
        try:
            return self._commands.get(timeout=self._pair.idle_s if self._pair is not None else None)
        except queue.Empty:
            self._free()
            self._emit(Notice("The models were unloaded to free memory; the next prompt loads them again."))
            return self._commands.get()

    def _load(self, loader: Loader) -> None:
        self._free()
        self._loader = None
        self._pair = loader(self._flag, self._load_progress)
        self._loader = loader
        self._reported_notices, self._reported_pair = (), self._pair.info
        self._report(self._pair)
        self._emit(Loaded(self._pair.info))

    def _report(self, pair: LoadedPair) -> None:
        for text in pair.notices:
            if text not in self._reported_notices:
                self._emit(Notice(text))
        if pair.info != self._reported_pair:
            self._emit(PairChanged(pair.info))
        self._reported_notices, self._reported_pair = tuple(pair.notices), pair.info

    def _load_progress(self, share: float) -> bool:
        self._emit(LoadProgress(share))
        return not self._flag.is_set()

    @property
    def _loaded(self) -> LoadedPair:
        if self._pair is None and self._loader is not None:
            self._pair = self._loader(self._flag, self._load_progress)
        if self._pair is None:
            raise UsageError("No model is loaded.")
        self._report(self._pair)
        return self._pair

    def _emit_all(self, events: Iterator[Event]) -> None:
        try:
            for event in events:
                self._emit(event)
        finally:
            if self._pair is not None:
                self._pair.caches.write_soon()
            self._free_spent()

    def _free_spent(self) -> None:
        """Free a pair whose target failed, so that the next command loads it again; leave out a failed draft."""
        pair = self._pair
        if pair is None:
            return
        if pair.target.is_broken:
            self._free()
        elif pair.drafter is not None and pair.drafter.is_broken:
            pair.drop_draft()
            self._report(pair)

    def _free(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
