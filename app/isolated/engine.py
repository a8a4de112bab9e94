"""The parent's side: an engine like `app.worker.EngineWorker`, whose worker lives in a child process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from app.child import Ending
from app.errors import EngineLostError
from app.events import Event, Failed, Finished, JobEnded, Loaded, Notice
from app.isolated.asked import Asked, doing
from app.isolated.codec import Codec
from app.isolated.cut import Cut
from app.isolated.process import Process
from app.isolated.protocol import Answer, Begin, Cancel, Inspect, Load, RunJob
from app.isolated.vigil import Finding, Quiet, Vigil
from app.responder import AnswerRequest
from app.worker import Job, Loader

_CLOSE_S = 5.0
_HEARS_S = 1.0
"""A stop that a child has not heard after this is carried out here; a call that waits for a device does not hear it."""
_AGAIN = "Send it again: the models are loaded anew before the answer."
_OTHERWISE = "If it ends so again, take another pair, or the processor alone (--device cpu)."

WaysOut = Callable[[Loader, Ending], str]
"""What to do differently with a pair whose process ended so, as a sentence; "" if nothing is known."""


class IsolatedEngine:
    """Loads pairs and answers in a process of its own; that one may die, and this one says so and goes on.

    The process is started with the first request, and anew with the next one after it has died. A pair that was
    loaded when it died is loaded again before the next answer. A stop is carried out whether the process hears it or
    not: what it does not let go of goes on unheard, until another load, a second stop or the vigil ends the process.

    Args:
        emit: Receives every event, on the thread that reads from the child or on that of the caller; it must be quick.
        command: Starts the child, which calls `app.isolated.child.serve`.
        codec: The same as the child's.
        ways_out: What to do differently after a pair's process ended.
        vigil: Watches over the process where it waits for other machines.
        hears_s: Seconds that the process has to hear a stop.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        command: Sequence[str],
        codec: Codec,
        ways_out: WaysOut = lambda loader, ending: "",
        vigil: Vigil | None = None,
        hears_s: float = _HEARS_S,
    ) -> None:
        self._emit = emit
        self._command = command
        self._codec = codec
        self._ways_out = ways_out
        self._vigil = vigil
        self._hears_s = hears_s
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._asked: deque[Asked] = deque()
        self._last_number = 0
        self._loader: Loader | None = None
        """Of the pair that was loaded last."""
        self._has_pair = False
        """Whether the child has a pair, or will have."""
        self._doing = ""
        self._why = ""
        """Why the child is being ended by us; "" while it is not."""
        self._inspected = False

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first. The loader must be a value that the codec knows."""
        with self._asking():
            if self._is_deaf:
                self._anew()
            self._loader = None
            self._send(self._note(Load(loader)))

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        return self._with_pair(Answer(request))

    def run(self, job: Job) -> int:
        """Do other work with the pair; the job must be a value that the codec knows. Numbers are as for `answer`."""
        return self._with_pair(RunJob(job))

    def cancel(self) -> None:
        """Stop what was asked for so far, running or waiting; text that came stays, later requests are not touched."""
        with self._lock:
            process, through = self._process, self._last_number
            if process is None:
                return
            process.send(Cancel())
            if self._asked:
                timer = threading.Timer(self._hears_s, self._unheard, (process, through))
                timer.daemon = True
                timer.start()
                if self._vigil is not None:
                    self._vigil.stopped()

    def inspect(self, on: bool) -> None:
        """Tell the details of every round from here on, or no longer."""
        with self._lock:
            self._inspected = on
            if self._process is not None:
                self._process.send(Inspect(on))

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

    def _with_pair(self, command: Answer | RunJob) -> int:
        with self._asking():
            asked = []
            if not self._has_pair and self._loader is not None:
                asked.append(self._note(Load(self._loader), again=True))
            asked.append(self._note(command))
            self._send(*asked)
        return asked[-1].number

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except OSError as error:
            reason = error.strerror or str(error)
            self._lose(EngineLostError(f"The engine process cannot be started: {reason}.", "Leave --isolate out."))

    def _note(self, command: Load | Answer | RunJob, *, again: bool = False) -> Asked:
        self._last_number += 1
        self._has_pair = self._has_pair or isinstance(command, Load)
        cut = Cut(command.request) if isinstance(command, Answer) else None
        self._asked.append(Asked(self._last_number, command, again, cut=cut))
        if len(self._asked) == 1:
            self._begins()
        return self._asked[-1]

    def _send(self, *asked: Asked) -> None:
        if self._process is None:
            self._process = Process(self._command, self._codec, self)
            self._process.send(Begin(asked[0].number - 1))
            if self._inspected:
                self._process.send(Inspect(True))
            self._watch(self._process)
        for one in asked:
            self._process.send(one.command)

    def _begins(self) -> None:
        """The child comes to what was asked for first."""
        if self._vigil is not None:
            self._vigil.begin(loading=self._asked[0].loader is not None)

    def _watch(self, process: Process) -> None:
        if self._vigil is not None:
            is_over, report = (lambda: process is not self._process), partial(self._found, process)
            threading.Thread(target=self._vigil.keep, args=(is_over, report), name="engine watch", daemon=True).start()

    # A child that does not hear

    @property
    def _is_deaf(self) -> bool:
        """Whether the child is still at something that was stopped without it."""
        return bool(self._asked) and self._asked[0].is_settled

    def _unheard(self, process: Process, through: int) -> None:
        """Carry out a stop of everything up to a number, if the child has not."""
        with self._asking():
            stopped = [one for one in self._asked if one.number <= through and not one.is_settled]
            if process is not self._process or not stopped:
                return
            ended = [one.stopped() for one in stopped if not one.again]
            # It is not worth waiting for twice, and a pair that is not wanted never.
            ends = self._is_deaf or self._asked[0].loader is not None
            for one in stopped:
                one.is_settled = True
            if ends:
                self._anew()
        for event in ended:
            self._emit(event)

    def _found(self, process: Process, finding: Finding) -> None:
        """The vigil has found something."""
        if isinstance(finding, Quiet):
            self._emit(Notice(finding.text))
            return
        with self._asking():
            if process is not self._process or not self._asked:
                return
            if not self._is_deaf:
                self._why = finding.why
                process.kill()
                return
            self._anew()
        self._emit(Notice(f"{finding.why}, so the engine process was ended; the next answer loads the models anew."))

    def _anew(self) -> None:
        """End the child, and give what is not settled to a new one."""
        assert self._process is not None
        self._process.kill()
        left = [one for one in self._asked if not one.is_settled]
        self._forget()
        if left and left[0].loader is None and self._loader is not None:
            left.insert(0, Asked(left[0].number - 1, Load(self._loader), again=True))
        self._asked.extend(left)
        if left:
            self._has_pair = left[0].loader is not None
            self._begins()
            self._send(*left)

    # From the child

    def heard(self, process: Process, message: Event) -> None:
        """See `app.isolated.process.Listener`."""
        with self._lock:
            event = None
            if process is self._process:
                if self._vigil is not None:
                    self._vigil.heard(message)
                event = self._settled(message)
        if event is not None:
            self._emit(event)

    def ended(self, process: Process, ending: Ending) -> None:
        """See `app.isolated.process.Listener`."""
        if process is not self._process:
            return
        if not self._asked:
            self._lose(None)
            self._emit(Notice(f"The engine process ended {ending.how}; the next answer loads the models anew."))
            return
        how = f"The engine process ended while {self._what_it_does}, {ending.how}; the conversation is kept."
        if self._why:
            how = f"{self._why} while {self._what_it_does}; the engine process was ended, the conversation is kept."
        self._lose(self._error(how, ending))

    @property
    def _what_it_does(self) -> str:
        return self._doing or ("loading the models" if self._asked[0].loader is not None else "reading the prompt")

    def _error(self, message: str, ending: Ending) -> EngineLostError:
        """The process is gone while something is asked for."""
        now = self._asked[0]
        loader = now.loader or self._loader
        way_out = self._ways_out(loader, ending) if loader is not None else ""
        waits_for_answer = now.loader is None or now.again
        return EngineLostError(message, f"{_AGAIN} {way_out}".rstrip() if waits_for_answer else way_out or _OTHERWISE)

    def _lose(self, error: EngineLostError | None) -> None:
        """The process is gone, and with it everything that it was asked for."""
        with self._lock:
            asked = list(self._asked)
            self._forget()
            if any(one.loader is not None and not one.again for one in asked):
                self._loader = None
        for one in asked:
            if error is not None and not (one.again or one.is_settled):
                self._emit(Failed(None if one.loader is not None else one.number, error))

    def _forget(self) -> None:
        self._asked.clear()
        self._process, self._has_pair, self._doing, self._why = None, False, "", ""
        if self._vigil is not None:
            self._vigil.rest()

    def _settled(self, event: Event) -> Event | None:
        """Keep account of an event; returns what the world is told of it."""
        now = self._asked[0] if self._asked else None
        if now is not None and now.cut is not None:
            now.cut.follow(event)
        match event:
            case Loaded() if now is not None:
                self._loader, self._has_pair = now.loader, True
                return None if self._done().again else event
            case Failed(request=None) if now is not None:
                self._has_pair = False
                if not self._done().again:
                    self._loader = None
                    return event
                # The answer that the pair was loaded for is what fails.
                self._asked[0].is_settled = True
                return replace(event, request=self._asked[0].number)
            case Finished() | JobEnded() | Failed() if now is not None:
                return None if self._done().is_settled else event
            case Notice() if now is not None and now.again:
                return None
            case _ if now is not None and now.is_settled:
                return None
            case _:
                self._doing = doing(event) or self._doing
        return event

    def _done(self) -> Asked:
        self._doing = ""
        done = self._asked.popleft()
        if self._asked:
            self._begins()
        elif self._vigil is not None:
            self._vigil.rest()
        return done
