"""An engine like `EngineWorker` whose worker runs in a child process, which contains native crashes."""

import logging
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.core.errors import AppError, EngineLostError, StoppedError, UsageError
from app.core.program import ExitStatus
from app.engine.events import Step
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason
from app.worker.engine_process import MethodCall, Process
from app.worker.engine_worker import Engine, EngineCommand
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, Notice
from app.worker.jobs import AnswerJob, Job, ReloadJob
from app.worker.request import written

_CLOSE_S = 5.0
_POLL_S = 0.05

log = logging.getLogger("tandem.isolated")
log.addHandler(logging.NullHandler())


class IsolatedEngine(Engine):
    """Loads pairs and answers in a child process, which may crash without ending this process.

    The process starts with the first command, and again with the next command after a crash; then it loads its pair
    again. The engine itself sends that next command, once until a command succeeds. One thread sends one command at a
    time and passes its events on.

    Args:
        command: Starts the child, which calls `app.worker.engine_process.serve`.
        servers: Servers of remote devices, for which llama.cpp waits without a limit.
    """

    stop_s = 5.0
    """Seconds until a child that does not react to a stop is killed."""
    silence_s = 300.0
    """Seconds without an event while remote devices compute; a slow server may take minutes for one tensor."""

    def __init__(
        self, receivers: Sequence[Callable[[Event], None]], command: Sequence[str], servers: Sequence[str] = ()
    ) -> None:
        super().__init__(receivers, "isolated engine")
        self._command = command
        self._servers = " and ".join(servers)
        self._process: Process | None = None
        self._closed = self._has_reloaded = False
        self._cancelled_at = 0.0
        self._thread.start()

    def cancel(self, number: int | None = None) -> None:
        with self._lock:
            is_current = self._is_current(number)
            self._cancelled_at = time.monotonic()
        if is_current:
            self._send(MethodCall("cancel"))

    def inspect(self, on: bool) -> None:
        super().inspect(on)
        self._send(MethodCall("inspect", (on,)))

    def draft(self, on: bool) -> None:
        super().draft(on)
        self._send(MethodCall("draft", (on,)))

    def close(self, timeout: float | None = None) -> bool:
        """Stop everything and end the process, which is killed after `timeout` seconds; return True."""
        with self._lock:
            self._closed = True
            process = self._process
        self._commands.put(None)
        if process is not None:
            process.close(_CLOSE_S if timeout is None else timeout)
        return True

    def _send(self, message: object) -> None:
        with self._lock:
            if self._process is not None:
                self._process.send(message)

    # The thread

    def _run(self) -> None:
        while (command := self._commands.get()) is not None and not self._closed:
            try:
                last = self._perform(command)
            except AppError as error:
                last = Failed(command.request, error)
            except OSError as error:
                reason = error.strerror or str(error)
                lost = EngineLostError(f"The engine process cannot be started: {reason}.", "Leave ⟨isolate⟩ out.")
                self._emit(Failed(command.request, lost))
                continue
            self._emit(last)
            if isinstance(last, Failed):
                if isinstance(command.work, ReloadJob) and not isinstance(last.error, StoppedError):
                    self._emit(Notice(f"The models could not be loaded again. {last.error.sentences}"))
                if isinstance(last.error, EngineLostError) and self._loader is not None and not self._has_reloaded:
                    self._has_reloaded = True
                    self._emit(Notice("The models had to be loaded again."))
                    self.run(ReloadJob())

    def _emit(self, event: Event) -> None:
        if self._closed:
            return
        try:
            super()._emit(event)
        except Exception:
            log.exception("an event of the engine process was lost")

    def _perform(self, command: EngineCommand) -> Event:
        """Run a command and emit its events except the last, which is returned."""
        with self._lock:
            self._begin(command)
        if self._process is not None and self._process.has_ended:
            self._forget()
        job = command.work if isinstance(command.work, Job) else None
        if job is None:
            self._loader = None
        if self._is_cancelled(command):
            return _stopped(command)
        if job is not None and not job.loads and None in (self._process, self._loader):
            return JobEnded(command.number, None)
        if job is not None and self._loader is None:
            raise UsageError("No model is loaded.")
        return self._exchange(command)

    def _forget(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()

    def _exchange(self, command: EngineCommand) -> Event:
        """Send a command and pass its events on; return the last. Raises EngineLostError if the process ends."""
        with self._lock:
            if self._closed:
                raise UsageError("The engine was closed.")
            if self._process is None:
                self._process = Process(self._command)
                self._process.send(MethodCall("inspect", (self._inspected,)))
                self._process.send(MethodCall("draft", (self._drafts,)))
                if self._loader is not None:
                    self._process.send(MethodCall("adopt", (self._loader,)))
            process = self._process
        process.send(command)
        if self._is_cancelled(command):
            # That stop came before the command.
            process.send(MethodCall("cancel"))
        steps: list[Step] = []
        last_event = time.monotonic()
        while True:
            try:
                message = process.messages.get(timeout=_POLL_S)
            except queue.Empty:
                now = time.monotonic()
                if self._is_cancelled(command) and now - self._cancelled_at > self.stop_s:
                    self._forget()
                    return _stopped(command, steps)
                if self._servers and now - last_event > self.silence_s:
                    self._forget()
                    reason = f"{self._servers} did not answer for {now - last_event:.0f} seconds"
                    raise self._lost(f"{reason}; the engine process was ended.", ExitStatus(0)) from None
                continue
            last_event = time.monotonic()
            match message:
                case ExitStatus():
                    self._forget()
                    raise self._lost(f"The engine process {message.how}.", message)
                case Loaded() if not isinstance(command.work, Job):
                    self._loader = command.work
                case Step():
                    steps.append(message)
            if isinstance(message, Loaded | Finished | JobEnded | Failed):
                self._has_reloaded = self._has_reloaded and isinstance(command.work, ReloadJob)
                return message
            self._emit(message)

    def _lost(self, text: str, status: ExitStatus) -> EngineLostError:
        if self._servers and not status.was_killed:
            return EngineLostError(text, "Without ⟨rpc⟩ the models are loaded on this machine alone.")
        return EngineLostError(text, status.fix)


def _stopped(command: EngineCommand, steps: Sequence[Step] = ()) -> Event:
    """Return the last event of a stopped command whose process does not send it; `steps` belong to its answer."""
    job = command.work
    if not isinstance(job, AnswerJob):
        return Failed(command.request, StoppedError(f"{'It' if isinstance(job, Job) else 'Loading'} was stopped."))
    said = written(job.request, [segment for step in steps for segment in step.segments])
    return Finished(
        request=command.number,
        reason=FinishReason.CANCELLED,
        text=said.text.lstrip(),
        reasoning=said.reasoning.strip(),
        stats=replace(steps[-1].stats if steps else GenerationStats(), drafter="none", mode="off"),
        drafting=steps[-1].drafting if steps else None,
    )
