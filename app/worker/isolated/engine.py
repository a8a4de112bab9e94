"""The parent's side: an engine like `EngineWorker` whose worker lives in a child process."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from app.core.child import Ending
from app.core.errors import AppError, EngineLostError, StoppedError, UsageError
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus, FinishReason, Source
from app.models.pair_info import PairInfo
from app.worker.commands import Answer, Command, Job, Load, Loader, RunJob
from app.worker.events import (
    AnswerPlan,
    Event,
    Failed,
    Finished,
    JobEnded,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PairChanged,
    PromptProgress,
    Step,
)
from app.worker.isolated.codec import Codec
from app.worker.isolated.process import Cancel, Drafts, Inspect, Process
from app.worker.request import AnswerRequest, with_seed

_CLOSE_S = 5.0
_RETRY = "Send the prompt again; the models are loaded again first."
_OTHERWISE = "If it happens again, use another pair, or the CPU alone (--device cpu)."

log = logging.getLogger("tandem.isolated")
log.addHandler(logging.NullHandler())

HintAfter = Callable[[Loader, Ending], str]
"""Returns a hint for a pair whose process ended like this; "" if there is none."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds after which the parent stops waiting.

    Attributes:
        stop: For the child to end a stopped command; after it the command ends without the child.
        kill: For the same until the child is killed, so that the next command does not wait longer.
        notice: Of silence while remote devices compute, until a notice says so.
        silence: The same until the child is killed. A slow server may take minutes for one batch or one tensor.
    """

    stop: float = 1.0
    kill: float = 10.0
    notice: float = 20.0
    silence: float = 300.0


class _Closed(Exception):  # noqa: N818 - ends the thread
    pass


class IsolatedEngine:
    """Loads pairs and answers in a child process, which may die without taking this one with it.

    The process starts with the first command, and again with the next command after it died; a pair that it had
    loaded is then loaded again. One thread sends one command at a time and passes its events on. A stop is carried
    out even if the child does not react to it.

    Args:
        emit: Receives every event on the engine's thread; it must be quick.
        command: Starts the child, which calls `app.worker.isolated.child.serve`.
        codec: The same as the child's.
        hint_after: Hint after a pair's process ended.
        servers: Servers of remote devices, for which llama.cpp waits without a limit.
        deadlines: How long to wait.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        command: Sequence[str],
        codec: Codec,
        hint_after: HintAfter = lambda loader, ending: "",
        servers: Sequence[str] = (),
        deadlines: Deadlines | None = None,
    ) -> None:
        self._emit_event = emit
        self._command = command
        self._codec = codec
        self._hint_after = hint_after
        self._servers = f"{' and '.join(servers)} {'has' if len(servers) == 1 else 'have'}" if servers else ""
        self.deadlines = deadlines or Deadlines()
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Commands, (process, message) from the child, and None, which only wakes the thread."""
        self._waiting: deque[Command] = deque()
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._closed = False
        self._last_number = self._cancelled_through = 0
        self._cancelled_at = 0.0
        self._impatient = False
        """Whether a second stop or another load was requested while a stopped command still runs in the child."""
        self._busy = False
        self._inspected, self._drafts = False, True
        self._loader: Loader | None = None
        self._has_pair = False
        self._pair: PairInfo | None = None
        self._notices: set[Notice] = set()
        self._thread = threading.Thread(target=self._run, name="isolated engine", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Process id of the child; None while there is none."""
        process = self._process
        return process.pid if process is not None else None

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first. The loader must be a value that the codec knows."""
        self._impatient = True
        self._number(Load, loader)

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        # Seeded here, so that the seed is known even if the child does not react to a stop.
        return self._number(Answer, replace(request, sampling=with_seed(request.sampling)))

    def run(self, job: Job) -> int:
        """Run a job with the pair; the job must be a value that the codec knows. Numbers are as for `answer`."""
        return self._number(RunJob, job)

    def _number(self, kind: Callable[[int, Any], Command], what: Any) -> int:
        with self._lock:
            self._last_number += 1
            self._inbox.put(kind(self._last_number, what))
            return self._last_number

    def cancel(self) -> None:
        """Stop the running and all waiting commands; text that was written stays."""
        with self._lock:
            self._cancelled_through, self._cancelled_at = self._last_number, time.monotonic()
            self._impatient = True
        self._send(Cancel())
        self._inbox.put(None)

    def inspect(self, on: bool) -> None:
        """Add the target's probabilities to step details from the next step on, or stop that."""
        self._inspected = on
        self._send(Inspect(on))

    def draft(self, on: bool) -> None:
        """Allow or forbid drafting from the next step on."""
        self._drafts = on
        self._send(Drafts(on))

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything and end the process.

        Args:
            timeout: Seconds until it is killed.

        Returns:
            True: everything has ended.
        """
        with self._lock:
            self._closed = True
            process = self._process
        self._inbox.put(None)
        if process is not None:
            process.close(_CLOSE_S if timeout is None else timeout)
        return True

    def _send(self, message: object) -> None:
        with self._lock:
            if self._process is not None:
                self._process.send(message)

    def _emit(self, event: Event) -> None:
        if self._closed:
            raise _Closed
        try:
            self._emit_event(event)
        except Exception:
            log.exception("an event of the engine process was lost")

    # The thread

    def _run(self) -> None:
        while not self._closed:
            try:
                command = self._waiting.popleft() if self._waiting else self._take(None)
                if command is not None:
                    self._perform(cast("Command", command))
            except _Closed:
                return

    def _take(self, timeout: float | None) -> Any:
        """Return the next command, message of the present child, or None.

        Raises:
            queue.Empty: Nothing came within the timeout.
        """
        item = self._inbox.get(timeout=timeout)
        if self._closed:
            raise _Closed
        if not isinstance(item, tuple):
            return item
        process, message = item
        if process is not self._process:
            return None
        if not isinstance(message, Ending) or self._busy:
            return message
        self._forget()
        self._emit(Notice(f"The engine process ended {message.how}; the next answer loads the models again."))
        return None

    def _perform(self, command: Command) -> None:
        if isinstance(command, Load):
            self._loader, self._has_pair = None, False
        if command.number <= self._cancelled_through:
            self._emit(_Progress(command).stopped())
        elif isinstance(command, RunJob) and not command.job.loads and not self._has_pair:
            self._emit(JobEnded(command.number, None))
        else:
            self._busy = True
            try:
                if not isinstance(command, Load) and not self._has_pair:
                    if self._loader is None:
                        raise UsageError("No model is loaded.")
                    self._exchange(Load(command.number, self._loader), waiting=command)
                self._exchange(command)
            except AppError as error:
                self._emit(_failed(command, error))
            except OSError as error:
                reason = error.strerror or str(error)
                lost = EngineLostError(f"The engine process cannot be started: {reason}.", "Leave --isolate out.")
                self._emit(_failed(command, lost))
            finally:
                self._busy = False

    def _start(self) -> Process:
        with self._lock:
            if self._closed:
                raise _Closed
            if self._process is None:
                self._process = Process(self._command, self._codec, lambda process, m: self._inbox.put((process, m)))
                self._process.send(Inspect(self._inspected))
                self._process.send(Drafts(self._drafts))
            return self._process

    def _forget(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        self._has_pair = False
        if process is not None:
            process.kill()

    def _exchange(self, command: Command, waiting: Command | None = None) -> None:
        """Send a command and pass its events on until it has ended.

        Args:
            command: The command.
            waiting: The command for which a lost pair is loaded again; None if this is a command of its own.

        Raises:
            AppError: The lost pair could not be loaded again, or the process ended.
        """
        process, progress = self._start(), _Progress(waiting or command)
        settled = noticed = False
        process.send(command)
        if command.number <= self._cancelled_through:
            process.send(Cancel())
        since = time.monotonic()
        while not (settled and self._impatient):
            try:
                message = self._take(self._patience(command, since, settled=settled, noticed=noticed))
            except queue.Empty:
                if settled:
                    break
                if command.number <= self._cancelled_through:
                    if isinstance(command, Load):
                        self._forget()
                        raise StoppedError("Loading was stopped.") from None
                    self._emit(progress.stopped())
                    while self._waiting and self._waiting[0].number <= self._cancelled_through:
                        self._emit(_Progress(self._waiting.popleft()).stopped())
                    settled, self._impatient = True, any(isinstance(later, Load) for later in self._waiting)
                    continue
                silence = f"{self._servers} not answered for {_duration(time.monotonic() - since)}"
                if noticed:
                    self._forget()
                    text = f"{silence} {progress.activity}; the engine process was ended."
                    raise self._lost(text, command, waiting, Ending(0)) from None
                self._emit(Notice(f"{silence}. Esc stops the wait."))
                noticed = True
                continue
            if isinstance(message, Command):
                self._waiting.append(message)
            elif isinstance(message, Ending):
                self._forget()
                if settled:
                    return
                text = f"The engine process ended {progress.activity}, {message.how}."
                raise self._lost(text, command, waiting, message)
            elif message is not None:
                since, noticed = time.monotonic(), False
                if self._pass_on(message, command, progress, reload=waiting is not None, muted=settled):
                    return
        self._forget()
        if not self._impatient:
            self._emit(Notice("The engine process did not stop and was ended; the next answer loads the models again."))

    def _patience(self, command: Command, since: float, *, settled: bool, noticed: bool) -> float | None:
        """Return the seconds to wait for the child's next message; None without a limit."""
        limits = self.deadlines
        if command.number <= self._cancelled_through:
            end = self._cancelled_at + (limits.kill if settled else limits.stop)
        elif self._servers:
            end = since + (limits.silence if noticed else limits.notice)
        else:
            return None
        return max(0.0, end - time.monotonic())

    def _pass_on(self, event: Event, command: Command, progress: _Progress, *, reload: bool, muted: bool) -> bool:
        """Pass one event of the child on; returns whether it ends the command."""
        progress.follow(event, self._pair)
        match event:
            case Loaded(pair):
                assert isinstance(command, Load)
                if reload and pair != self._pair:
                    self._emit(PairChanged(pair))
                self._loader, self._has_pair, self._pair = command.loader, True, pair
            case PairChanged(pair):
                self._pair = pair
            case Failed(request=None) if reload:
                raise event.error
            case Notice() if isinstance(command, Load):
                if reload and event in self._notices:
                    return False
                self._notices.add(event)
        ended = isinstance(event, Loaded | Finished | JobEnded | Failed)
        if not muted and not (reload and isinstance(event, Loaded)):
            self._emit(event)
        return ended

    def _lost(self, text: str, command: Command, waiting: Command | None, ending: Ending) -> EngineLostError:
        loader = command.loader if isinstance(command, Load) else self._loader
        hint = self._hint_after(loader, ending) if loader is not None else ""
        is_retried = waiting is not None or not isinstance(command, Load)
        return EngineLostError(text, f"{_RETRY} {hint}".rstrip() if is_retried else hint or _OTHERWISE)


class _Progress:
    """Track the results of a command, so that it can be ended without its process."""

    def __init__(self, command: Command) -> None:
        self._of = command
        self._text: list[str] = []
        self._reasoning: list[str] = []
        if isinstance(command, Answer) and command.request.begun is not None:
            self._text.append(command.request.begun.text)
            self._reasoning.append(command.request.begun.reasoning)
        self._stats = GenerationStats()
        self._status: DraftingStatus | None = None
        self._sources: tuple[Source, ...] = ()
        self.activity = "while loading the models" if isinstance(command, Load) else "while reading the prompt"

    def follow(self, event: Event, pair: PairInfo | None) -> None:
        match event:
            case LoadProgress(what=what):
                self.activity = f"while loading the {what} model"
            case Loaded() | PromptProgress():
                self.activity = "while reading the prompt"
            case Measuring():
                self.activity = "while measuring the pair"
            case Step(segments=segments, stats=stats, drafting=status):
                self.activity = "while writing the answer"
                for segment in segments:
                    (self._reasoning if segment.reasoning else self._text).append(segment.text)
                self._stats, self._status = stats, status
                if pair is not None and status is not None and isinstance(self._of, Answer):
                    self._sources = pair.sources(self._of.request.drafting)

    def stopped(self) -> Event:
        """Return the event that ends the command as one that was stopped."""
        if not isinstance(self._of, Answer):
            text = "Loading was stopped." if isinstance(self._of, Load) else "It was stopped."
            return _failed(self._of, StoppedError(text))
        request = self._of.request
        seed = None if request.sampling.is_greedy else request.sampling.seed
        return Finished(
            request=self._of.number,
            reason=FinishReason.CANCELLED,
            text="".join(self._text).lstrip(),
            reasoning="".join(self._reasoning).strip(),
            stats=self._stats,
            plan=AnswerPlan.of(request.drafting, self._sources, seed),
            drafting=self._status,
        )


def _failed(command: Command, error: AppError) -> Failed:
    return Failed(None if isinstance(command, Load) else command.number, error)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
