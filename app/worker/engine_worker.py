"""The engine worker: one thread that owns every native handle for its whole life.

Commands go in by a queue, events come out by a callback that runs on the worker's thread. llama.cpp wants one thread
per object, and a thread that owns everything needs no other locks.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.core.errors import AppError, Interrupted, StoppedError, UsageError
from app.engine.cache import TokenCache
from app.engine.interfaces import Cancelled, Controls
from app.models.pair_info import PairInfo
from app.worker.events import Event, Failed, JobEnded, Loaded, LoadProgress, Notice, PairChanged
from app.worker.request import AnswerRequest, LoadedPair

_BEARABLE = 1
"""Times that a draft model may fail: what happens once may have been an accident, and costs the next answer no more
than that the pair is loaded anew."""
_FORGIVEN = 8
"""Times that it may take part without a failure until those before are forgotten."""

log = logging.getLogger("tandem.worker")
log.addHandler(logging.NullHandler())


class CancelSwitch(Protocol):
    """A flag that any thread may set and the worker reads."""

    def __call__(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...


Progress = Callable[[str, float], bool]
"""Told what is being loaded and the share done; False cancels."""

Loader = Callable[[CancelSwitch, Progress], LoadedPair]
"""Loads a pair on the worker's thread; raises AppError, or Interrupted when progress said False."""


class Job(Protocol):
    """Longer work with the loaded pair. A frozen value: it says what to do and holds nothing that does it."""

    @property
    def loads(self) -> bool:
        """Whether a pair that was lost is loaded anew for it; else it ends without one, and None is its result."""

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        """Do it. The last event is `JobEnded`; all carry `number` as `request`, and a stop is no failure."""


class CancelEvent:
    """A `CancelSwitch` without a native side."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()


@dataclass(frozen=True, slots=True)
class _Load:
    number: int
    loader: Loader


@dataclass(frozen=True, slots=True)
class _Answer:
    number: int
    request: AnswerRequest


@dataclass(frozen=True, slots=True)
class _Run:
    number: int
    job: Job


class _DraftRecord:
    """How often a draft model has failed of late."""

    def __init__(self) -> None:
        self._n_failed = self._n_good = self._native_ns = 0

    def keeps_failing(self, cache: TokenCache) -> bool:
        """Take note of what has ended, in which it may have taken part; returns whether it is not worth loading anew.

        Args:
            cache: The draft model's.
        """
        if cache.is_spent:
            # What comes in its place has computed nothing yet.
            self._n_failed, self._n_good, self._native_ns = self._n_failed + 1, 0, 0
        elif cache.native_ns != self._native_ns:
            self._n_good, self._native_ns = self._n_good + 1, cache.native_ns
            if self._n_good == _FORGIVEN:
                self._n_failed = 0
        return self._n_failed > _BEARABLE


class EngineWorker:
    """Loads pairs and answers, one thing at a time, on its own thread.

    Args:
        emit: Receives every event on the worker's thread; it must be quick.
        cancel: The flag behind `cancel()`; the default has no native side.
        last_number: What is asked for next has the number after it.
    """

    def __init__(self, emit: Callable[[Event], None], cancel: CancelSwitch | None = None, last_number: int = 0) -> None:
        self._emit = emit
        self._flag: CancelSwitch = cancel or CancelEvent()
        self._commands: queue.SimpleQueue[_Load | _Answer | _Run | None] = queue.SimpleQueue()
        self._pair: LoadedPair | None = None
        self._loader: Loader | None = None
        """Of the pair that was loaded last."""
        self._told: Sequence[str] = ()
        """What there was to say of it."""
        self._known: PairInfo | None = None
        """What it was when that was told last."""
        self._draft_record = _DraftRecord()
        self._lock = threading.Lock()
        self._last_number = last_number
        self._inspected = False
        self._drafts = True
        self._cancelled_through = 0
        # A daemon: a native call that does not return must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first."""
        with self._lock:
            self._last_number += 1
            self._commands.put(_Load(self._last_number, loader))

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        with self._lock:
            self._last_number += 1
            self._commands.put(_Answer(self._last_number, request))
            return self._last_number

    def run(self, job: Job) -> int:
        """Do other work with the pair; returns the number that its events carry as `request`."""
        with self._lock:
            self._last_number += 1
            self._commands.put(_Run(self._last_number, job))
            return self._last_number

    def cancel(self) -> None:
        """Stop what was asked for so far, running or waiting; text that came stays, later requests are not touched."""
        with self._lock:
            self._cancelled_through = self._last_number
            self._flag.set()

    def inspect(self, on: bool) -> None:
        """With the rounds that are told tell the target's probabilities from now on, or stop; also within an answer."""
        self._inspected = on

    def draft(self, on: bool) -> None:
        """Let answers be drafted as they ask for it, or not at all, from the next round on."""
        self._drafts = on

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything, free the models and end the thread.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Returns:
            Whether the thread has ended.
        """
        self.cancel()
        self._commands.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (command := self._commands.get()) is not None:
            with self._lock:
                if command.number > self._cancelled_through:
                    self._flag.clear()
            request = None if isinstance(command, _Load) else command.number
            try:
                match command:
                    case _Load(loader=loader):
                        self._load(loader)
                    case _Answer(number, asked):
                        self._answer(number, asked)
                    case _Run(number, job) if job.loads or self._pair is not None:
                        self._emit_all(job.run(self._loaded, number, self._flag))
                    case _Run(number):
                        self._emit(JobEnded(number, None))
            except AppError as error:
                self._emit(Failed(request, error))
            except Interrupted:
                self._emit(Failed(request, StoppedError("Loading was stopped.")))
            except Exception as error:
                log.exception("unexpected failure in the engine")
                reason = f"Something unexpected went wrong: {type(error).__name__}: {error}"
                self._emit(Failed(request, AppError(reason, "Please report it.")))
        self._free()

    def _load(self, loader: Loader) -> None:
        self._free()
        self._loader = None
        self._pair = loader(self._flag, self._load_progress)
        self._loader = loader
        self._draft_record = _DraftRecord()
        self._told, self._known = (), self._pair.info
        self._tell_of(self._pair)
        self._emit(Loaded(self._pair.info))

    def _tell_of(self, pair: LoadedPair) -> None:
        """Say what is not known of a pair. Nobody asked for another one, so that it is loaded is worth no word."""
        for text in pair.notices:
            if text not in self._told:
                self._emit(Notice(text))
        if pair.info != self._known:
            self._emit(PairChanged(pair.info))
        self._told, self._known = tuple(pair.notices), pair.info

    def _answer(self, number: int, request: AnswerRequest) -> None:
        # What answering takes is imported on this thread: a screen that makes a worker need not wait for it.
        from app.worker.responder import answer

        controls = Controls(self._flag, inspected=lambda: self._inspected, drafts=lambda: self._drafts)
        self._emit_all(answer(self._loaded, number, request, controls))

    def _load_progress(self, what: str, share: float) -> bool:
        self._emit(LoadProgress(what, share))
        return not self._flag()

    @property
    def _loaded(self) -> LoadedPair:
        if self._pair is None and self._loader is not None:
            self._pair = self._loader(self._flag, self._load_progress)
        if self._pair is None:
            raise UsageError("No model is loaded.")
        self._tell_of(self._pair)
        return self._pair

    def _emit_all(self, events: Iterator[Event]) -> None:
        try:
            for event in events:
                self._emit(event)
        finally:
            # An answer survives a draft that failed, and a job may end with what failed it.
            self._free_spent()

    def _free_spent(self) -> None:
        """Let go of what may compute nothing any more; what is asked for next loads it anew.

        A draft model that goes on failing is left out: a pair takes long to load, and may be loaded for every answer.
        """
        pair = self._pair
        if pair is None:
            return
        draft = pair.drafter.cache if pair.drafter is not None else None
        keeps_failing = draft is not None and self._draft_record.keeps_failing(draft)
        if pair.target.is_spent or (draft is not None and draft.is_spent and not keeps_failing):
            self._free()
        elif draft is not None and draft.is_spent:
            self._leave_draft_out(pair)

    def _leave_draft_out(self, pair: LoadedPair) -> None:
        try:
            pair.set_draft_aside()
        except AppError:
            # What is asked for next loads the pair anew, or says why not.
            self._free()
        else:
            self._tell_of(pair)

    def _free(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.close()
