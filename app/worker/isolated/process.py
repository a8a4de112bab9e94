"""The parent's hold on one child: a process, a thread that writes to it and one that reads."""

from __future__ import annotations

import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Protocol

from app.core.child import Ending, python_environment
from app.worker.isolated.codec import Codec
from app.worker.isolated.protocol import LastWords

log = logging.getLogger("tandem.isolated")
log.addHandler(logging.NullHandler())

_DIES_S = 5.0
"""A process that has closed its pipe is nearly gone."""


class Listener(Protocol):
    """Told what a child says, on the thread that reads, in order; `ended` comes last and once."""

    def heard(self, process: Process, message: Any) -> None: ...

    def ended(self, process: Process, ending: Ending) -> None: ...


class Process:
    """One child.

    Its end of standard error is this process's own, wherever that leads at the moment. It is not in the terminal's
    foreground group, so that Ctrl+C is this process's alone to hear; it ends when its standard input does, which is
    also when this process is gone, however that came about.

    Args:
        command: From `app.core.child.python_command`.
        codec: The same as the child's.
        listener: Told what it says.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], codec: Codec, listener: Listener) -> None:
        self._codec = codec
        self._listener = listener
        self._last_words = ""
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=python_environment(), **_apart()
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        # Writing waits for a child that does not read; nobody here may wait for that.
        _start(self._write, self._popen.stdin)
        self._reader = _start(self._read, self._popen.stdout)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, message: object) -> None:
        """Say something to it; returns at once.

        Raises:
            TypeError: It cannot cross.
        """
        self._outbox.put(self._codec.encode(message))

    def close(self, timeout: float) -> None:
        """Let it end, and end it if it has not after `timeout` seconds."""
        self._outbox.put(None)
        self._reader.join(timeout)
        if self._reader.is_alive():
            self._popen.kill()

    def kill(self) -> None:
        """End it at once; returns before it is gone."""
        self._popen.kill()

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            while (line := self._outbox.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            with pipe:
                for line in pipe:
                    # The last line of a process that was killed may be cut.
                    if line.endswith(b"\n"):
                        message = self._codec.decode(line)
                        self._hear(message)
        except (OSError, ValueError):
            log.exception("what the engine process says cannot be read")
            self._last_words = "what it says cannot be read"
            self._popen.kill()
        self._listener.ended(self, Ending(self._wait(), self._last_words))
        self._outbox.put(None)

    def _hear(self, message: Any) -> None:
        if isinstance(message, LastWords):
            self._last_words = message.text
        else:
            try:
                self._listener.heard(self, message)
            except Exception:
                # What listeners make of it is not the process's fault, and nobody else would tell its end.
                log.exception("an event of the engine process was lost")

    def _wait(self) -> int:
        try:
            return self._popen.wait(_DIES_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            return self._popen.wait()


def _apart() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _start(work: Callable[[IO[bytes]], None], pipe: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=work, args=(pipe,), name=f"engine {work.__name__[1:]}", daemon=True)
    thread.start()
    return thread
