"""A child process that runs the engine worker: the parent's handle on it, and the child's main loop.

Parent and child exchange pickled values. The child runs as the same user and without a sandbox, so its messages are
trusted as much as the child itself: isolation protects against crashes, not against malicious code.
"""

import logging
import os
import pickle
import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, NoReturn

from app.core.log import logged_to
from app.core.paths import log_file
from app.core.program import ExitStatus, python_environment
from app.worker.engine_worker import EngineWorker

_EXIT_S = 5.0
"""How long a process may take to exit after its pipe was closed or it was killed."""
_TAIL_BYTES = 1 << 14
_CLOSE_S = 4.0
"""How long the child waits for a native call before it exits."""


@dataclass(frozen=True, slots=True)
class MethodCall:
    """Call a method of the child's worker immediately, such as `cancel`; commands wait in its queue instead."""

    method: str
    arguments: tuple[Any, ...] = ()


class Process:
    """A child process, with a thread that writes to it and a thread that reads from it.

    The child is not in the terminal's foreground group, so Ctrl+C does not reach it; it ends when its standard input
    ends, even if this process is killed. Its output on stderr explains a crash. `command`, from
    `app.core.program.python_command`, calls `serve`. Raises OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        """Every event of the child, and finally its `ExitStatus`."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed once the process has ended
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=python_environment(),
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        # A child that does not read its pipe must block only this thread.
        _start(self._write, self._popen.stdin)
        self._reader = _start(self._read, self._popen.stdout)

    @property
    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    def send(self, message: object) -> None:
        """Queue a message and return immediately."""
        self._outbox.put(pickle.dumps(message))

    def close(self, timeout: float) -> None:
        """Ask the process to end; kill it after `timeout` seconds."""
        self._outbox.put(None)
        self._reader.join(timeout)
        if self._reader.is_alive():
            self._popen.kill()

    def kill(self) -> None:
        """Kill the process and wait a moment, so that the next process finds its memory free."""
        self._popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(_EXIT_S)

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            while (data := self._outbox.get()) is not None:
                pipe.write(data)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            with pipe:
                while True:
                    self.messages.put(pickle.load(pipe))
        except EOFError:
            pass
        except Exception:
            # The last message of a killed process may be cut; a damaged message can raise anything.
            self._popen.kill()
        try:
            code = self._popen.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self.messages.put(ExitStatus(code, self._written()))
        self._outbox.put(None)

    def _written(self) -> str:
        with self._stderr as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace")


def _start(work: Callable[[IO[bytes]], None], pipe: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=work, args=(pipe,), name=f"engine {work.__name__[1:]}", daemon=True)
    thread.start()
    return thread


# In the child


def serve(cancel: threading.Event | None = None) -> NoReturn:
    """Run commands until the parent closes its end of the pipe or is gone."""
    commands, events = _take_pipes()
    # The parent searches stderr for the reason of a crash, such as llama.cpp's log.
    logging.getLogger("tandem").addHandler(logging.StreamHandler())

    def send(event: object) -> None:
        data = pickle.dumps(event)
        try:
            events.write(data)
            events.flush()
        except OSError:
            # The parent is gone.
            os._exit(1)

    worker = EngineWorker(send, cancel=cancel)
    with suppress(EOFError, pickle.UnpicklingError), logged_to(log_file()):
        while True:
            message = pickle.load(commands)
            if isinstance(message, MethodCall):
                getattr(worker, message.method)(*message.arguments)
            else:
                worker.submit(message)
    worker.close(_CLOSE_S)
    # Interpreter shutdown would wait for a native call that did not return.
    os._exit(0)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take over stdin and stdout; replace them by nothing and by stderr.

    Native libraries print to any stream, and a process that they start must not hold the parent's pipes open.
    """
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, events
