"""The parent's side: an engine like `app.worker.EngineWorker`, whose worker lives in a child process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from app.child import Ending
from app.errors import EngineLostError
from app.events import (
    Event,
    Failed,
    Finished,
    JobEnded,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PromptProgressed,
    StepCompleted,
)
from app.isolated.codec import Codec
from app.isolated.process import Process
from app.isolated.protocol import Answer, Begin, Cancel, Command, Inspect, Load, RunJob
from app.responder import AnswerRequest
from app.worker import Job, Loader

_CLOSE_S = 5.0
_AGAIN = "Send it again: the models are loaded anew before the answer."
_OTHERWISE = "If it ends so again, take another pair, or the processor alone (--device cpu)."

WaysOut = Callable[[Loader, Ending], str]
"""What to do differently with a pair whose process ended so, as a sentence; "" if nothing is known."""


@dataclass(slots=True)
class _Asked:
    """Something that the child was asked for and has not done yet.

    Attributes:
        number: Of the request.
        loader: What is loaded; None for an answer.
        again: Whether it is loaded only because its process has ended, so that nobody waits for its events.
        is_settled: Whether its end was told already.
    """

    number: int
    loader: Loader | None = None
    again: bool = False
    is_settled: bool = False


class IsolatedEngine:
    """Loads pairs and answers in a process of its own; that one may die, and this one says so and goes on.

    The process is started with the first request, and anew with the next one after it has died. A pair that was
    loaded when it died is loaded again before the next answer.

    Args:
        emit: Receives every event, on the thread that reads from the child or on that of the caller; it must be quick.
        command: Starts the child, which calls `app.isolated.child.serve`.
        codec: The same as the child's.
        ways_out: What to do differently after a pair's process ended.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        command: Sequence[str],
        codec: Codec,
        ways_out: WaysOut = lambda loader, ending: "",
    ) -> None:
        self._emit = emit
        self._command = command
        self._codec = codec
        self._ways_out = ways_out
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._asked: deque[_Asked] = deque()
        self._last_number = 0
        self._loader: Loader | None = None
        """Of the pair that was loaded last."""
        self._has_pair = False
        """Whether the child has a pair, or will have."""
        self._doing = ""
        self._inspected = False

    def load(self, loader: Loader) -> None:
        """Load a pair, freeing the one before it first. The loader must be a value that the codec knows."""
        with self._asking():
            self._loader = None
            self._note(loader)
            self._send(Load(loader))

    def answer(self, request: AnswerRequest) -> int:
        """Answer a conversation; returns the number that its events carry as `request`."""
        return self._with_pair(Answer(request))

    def run(self, job: Job) -> int:
        """Do other work with the pair; the job must be a value that the codec knows. Numbers are as for `answer`."""
        return self._with_pair(RunJob(job))

    def cancel(self) -> None:
        """Stop what was asked for so far, running or waiting; text that came stays, later requests are not touched."""
        with self._lock:
            if self._process is not None:
                self._process.send(Cancel())

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
            process, self._process = self._process, None
            self._asked.clear()
        if process is not None:
            process.close(_CLOSE_S if timeout is None else timeout)
        return True

    # To the child

    def _with_pair(self, command: Command) -> int:
        with self._asking():
            commands = [command]
            if not self._has_pair and self._loader is not None:
                self._note(self._loader, again=True)
                commands.insert(0, Load(self._loader))
            number = self._note()
            self._send(*commands)
        return number

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except OSError as error:
            reason = error.strerror or str(error)
            self._lose(EngineLostError(f"The engine process cannot be started: {reason}.", "Leave --isolate out."))

    def _note(self, loader: Loader | None = None, *, again: bool = False) -> int:
        self._last_number += 1
        self._has_pair = self._has_pair or loader is not None
        self._asked.append(_Asked(self._last_number, loader, again))
        return self._last_number

    def _send(self, *commands: Command) -> None:
        if self._process is None:
            self._process = Process(self._command, self._codec, self)
            self._process.send(Begin(self._last_number - len(commands)))
            if self._inspected:
                self._process.send(Inspect(True))
        for command in commands:
            self._process.send(command)

    # From the child

    def heard(self, process: Process, message: Event) -> None:
        """See `app.isolated.process.Listener`."""
        with self._lock:
            event = self._settled(message) if process is self._process else None
        if event is not None:
            self._emit(event)

    def ended(self, process: Process, ending: Ending) -> None:
        """See `app.isolated.process.Listener`."""
        if process is not self._process:
            return
        now = self._asked[0] if self._asked else None
        if now is None:
            self._lose(None)
            self._emit(Notice(f"The engine process ended {ending.how}; the next answer loads the models anew."))
            return
        doing = self._doing or ("loading the models" if now.loader is not None else "reading the prompt")
        loader = now.loader or self._loader
        way_out = self._ways_out(loader, ending) if loader is not None else ""
        waits_for_answer = now.loader is None or now.again
        hint = f"{_AGAIN} {way_out}".rstrip() if waits_for_answer else way_out or _OTHERWISE
        message = f"The engine process ended while {doing}, {ending.how}; the conversation is kept."
        self._lose(EngineLostError(message, hint))

    def _lose(self, error: EngineLostError | None) -> None:
        """The process is gone, and with it everything that it was asked for."""
        with self._lock:
            asked = list(self._asked)
            self._asked.clear()
            self._process, self._has_pair, self._doing = None, False, ""
            if any(one.loader is not None and not one.again for one in asked):
                self._loader = None
        for one in asked:
            if error is not None and not (one.again or one.is_settled):
                self._emit(Failed(None if one.loader is not None else one.number, error))

    def _settled(self, event: Event) -> Event | None:
        """Keep account of an event; returns what the world is told of it."""
        now = self._asked[0] if self._asked else None
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
            case LoadProgress(what=what):
                self._doing = f"loading the {what} model"
            case PromptProgressed():
                self._doing = "reading the prompt"
            case Measuring():
                self._doing = "measuring the pair"
            case StepCompleted():
                self._doing = "writing the answer"
        return event

    def _done(self) -> _Asked:
        self._doing = ""
        return self._asked.popleft()
