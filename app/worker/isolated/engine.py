"""The parent's side: an engine like `app.worker.engine_worker.EngineWorker`, whose worker lives in a child process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from app.core.child import Ending
from app.core.errors import EngineLostError
from app.worker.engine_worker import Job, Loader
from app.worker.events import Event, JobEnded, Notice
from app.worker.isolated.codec import Codec
from app.worker.isolated.process import Process
from app.worker.isolated.protocol import Answer, Begin, Cancel, Drafts, Inspect, Load, RunJob
from app.worker.isolated.requests import PendingRequest, RequestQueue
from app.worker.isolated.watchdog import Finding, Quiet, Watchdog
from app.worker.request import AnswerRequest, with_seed

_CLOSE_S = 5.0
_CANCEL_TIMEOUT_S = 1.0
"""A stop that a child has not heard after this is carried out here; a call that waits for a device does not hear it."""
_AGAIN = "Ask again: the models are loaded anew before the answer."
_OTHERWISE = "If it ends so again, take another pair, or the processor alone (--device cpu)."

WaysOut = Callable[[Loader, Ending], str]
"""What to do differently with a pair whose process ended so, as a sentence; "" if nothing is known."""


class IsolatedEngine:
    """Loads pairs and answers in a process of its own; that one may die, and this one says so and goes on.

    The process is started with the first request, and anew with the next one after it has died. A pair that was
    loaded when it died is loaded again before the next answer. A stop is carried out whether the process hears it or
    not: what it does not let go of goes on unheard, until another load, a second stop or the watchdog ends the process.

    Args:
        emit: Receives every event, on the thread that reads from the child or on that of the caller; it must be quick.
        command: Starts the child, which calls `app.worker.isolated.child.serve`.
        codec: The same as the child's.
        ways_out: What to do differently after a pair's process ended.
        watchdog: Watches over the process where it waits for other machines.
        cancel_timeout_s: Seconds that the process has to hear a stop.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        command: Sequence[str],
        codec: Codec,
        ways_out: WaysOut = lambda loader, ending: "",
        watchdog: Watchdog | None = None,
        cancel_timeout_s: float = _CANCEL_TIMEOUT_S,
    ) -> None:
        self._emit = emit
        self._command = command
        self._codec = codec
        self._ways_out = ways_out
        self._watchdog = watchdog
        self._cancel_timeout_s = cancel_timeout_s
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._requests = RequestQueue(self._turn_to)
        self._kill_reason = ""
        """Why the child is being ended by us; "" while it is not."""
        self._inspected = False
        self._drafts = True

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first. The loader must be a value that the codec knows."""
        with self._asking():
            if self._requests.is_stuck:
                self._restart()
            self._requests.loader = None
            self._send(self._requests.add(Load(loader)))

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        # Drawn here, so that it can be told of an answer whose process does not hear the stop.
        return self._ask(Answer(replace(request, sampling=with_seed(request.sampling))))

    def run(self, job: Job) -> int:
        """Do other work with the pair; the job must be a value that the codec knows. Numbers are as for `answer`."""
        with self._lock:
            # A process is not started only to say that it has no pair.
            number = self._requests.pass_over() if self._process is None and not job.loads else None
        if number is None:
            return self._ask(RunJob(job))
        self._emit(JobEnded(number, None))
        return number

    def cancel(self) -> None:
        """Stop what was asked for so far, running or waiting; text that came stays, later requests are not touched."""
        with self._lock:
            process, through = self._process, self._requests.last_number
            if process is None:
                return
            process.send(Cancel())
            if self._requests:
                timer = threading.Timer(self._cancel_timeout_s, self._cancel_unheard, (process, through))
                timer.daemon = True
                timer.start()
                if self._watchdog is not None:
                    self._watchdog.stopped()

    def inspect(self, on: bool) -> None:
        """With the rounds that are told tell the target's probabilities from now on, or stop; also within an answer."""
        with self._lock:
            self._inspected = on
            if self._process is not None:
                self._process.send(Inspect(on))

    def draft(self, on: bool) -> None:
        """Let answers be drafted as they ask for it, or not at all, from the next round on."""
        with self._lock:
            self._drafts = on
            if self._process is not None:
                self._process.send(Drafts(on))

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything and end the process.

        Args:
            timeout: Seconds that it has for that; it is killed after them.

        Returns:
            Whether everything has ended: it always has.
        """
        with self._lock:
            process = self._process
            self._forget()
        if process is not None:
            process.close(_CLOSE_S if timeout is None else timeout)
        return True

    # To the child

    def _ask(self, command: Answer | RunJob) -> int:
        with self._asking():
            requests = self._requests.add(command)
            self._send(requests)
        return requests[-1].number

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except OSError as error:
            reason = error.strerror or str(error)
            self._lose(EngineLostError(f"The engine process cannot be started: {reason}.", "Leave --isolate out."))

    def _send(self, requests: Sequence[PendingRequest]) -> None:
        if self._process is None:
            self._process = Process(self._command, self._codec, self)
            self._process.send(Begin(requests[0].number - 1))
            if self._inspected:
                self._process.send(Inspect(True))
            if not self._drafts:
                self._process.send(Drafts(False))
            self._watch(self._process)
        for request in requests:
            self._process.send(request.command)

    def _turn_to(self, request: PendingRequest | None) -> None:
        """The child comes to the next request, or has none left."""
        if self._watchdog is None:
            return
        if request is not None:
            self._watchdog.begin(loading=request.loader is not None)
        else:
            self._watchdog.idle()

    def _watch(self, process: Process) -> None:
        if self._watchdog is not None:
            is_over, report = (lambda: process is not self._process), partial(self._found, process)
            threading.Thread(
                target=self._watchdog.run, args=(is_over, report), name="engine watch", daemon=True
            ).start()

    # A child that does not respond

    def _cancel_unheard(self, process: Process, through: int) -> None:
        """Carry out a stop of everything up to a number, if the child has not."""
        with self._asking():
            stopped = [request for request in self._requests.unsettled() if request.number <= through]
            current = self._requests.current
            if process is not self._process or not stopped or current is None:
                return
            ended = [request.stopped() for request in stopped if not request.is_reload]
            # It is not worth waiting for twice, and a pair that is not wanted never.
            ends = current.is_settled or current.loader is not None
            for request in stopped:
                request.is_settled = True
            if ends:
                self._restart()
        for event in ended:
            self._emit(event)

    def _found(self, process: Process, finding: Finding) -> None:
        """The watchdog has found something."""
        if isinstance(finding, Quiet):
            self._emit(Notice(finding.text))
            return
        with self._asking():
            if process is not self._process or not self._requests:
                return
            if not self._requests.is_stuck:
                self._kill_reason = finding.why
                process.kill()
                return
            self._restart()
        self._emit(Notice(f"{finding.why}, so the engine process was ended; the next answer loads the models anew."))

    def _restart(self) -> None:
        """End the child, and give what is not settled to a new one."""
        assert self._process is not None
        self._process.kill()
        left = self._requests.unsettled()
        self._forget()
        if left:
            self._send(self._requests.reissue(left))

    # From the child

    def heard(self, process: Process, message: Event) -> None:
        """See `app.worker.isolated.process.Listener`."""
        with self._lock:
            event = None
            if process is self._process:
                if self._watchdog is not None:
                    self._watchdog.heard(message)
                event = self._requests.follow(message)
        if event is not None:
            self._emit(event)

    def ended(self, process: Process, ending: Ending) -> None:
        """See `app.worker.isolated.process.Listener`."""
        # Whoever starts a process has the lock until it is known here; some end before that.
        with self._lock:
            if process is not self._process:
                return
            current = self._requests.current
        if current is None:
            self._lose(None)
            self._emit(Notice(f"The engine process ended {ending.how}; the next answer loads the models anew."))
            return
        activity = self._requests.activity
        how = f"The engine process ended while {activity}, {ending.how}."
        if self._kill_reason:
            how = f"{self._kill_reason} while {activity}; the engine process was ended."
        self._lose(EngineLostError(how, self._hint(current, ending)))

    def _hint(self, current: PendingRequest, ending: Ending) -> str:
        """What to do about a process that is gone while something is asked for."""
        loader = current.loader or self._requests.loader
        way_out = self._ways_out(loader, ending) if loader is not None else ""
        waits_for_answer = current.loader is None or current.is_reload
        return f"{_AGAIN} {way_out}".rstrip() if waits_for_answer else way_out or _OTHERWISE

    def _lose(self, error: EngineLostError | None) -> None:
        """The process is gone, and with it everything that it was asked for."""
        with self._lock:
            requests = list(self._requests)
            self._forget()
            if any(request.loader is not None and not request.is_reload for request in requests):
                self._requests.loader = None
        for request in requests:
            if error is not None and not (request.is_reload or request.is_settled):
                self._emit(request.failed(error))

    def _forget(self) -> None:
        self._process, self._kill_reason = None, ""
        self._requests.clear()
