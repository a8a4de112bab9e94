"""The parent's handle on the child process, and the messages between the two."""

from __future__ import annotations

import logging
import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from app.core.child import Ending, python_environment
from app.worker.commands import Command
from app.worker.events import Event
from app.worker.isolated.codec import Codec

log = logging.getLogger("tandem.isolated")
log.addHandler(logging.NullHandler())

_EXIT_S = 5.0
"""Seconds that a process has to exit after its pipe was closed or it was killed."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop every command that was sent so far."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Add the target's probabilities to step details, or stop that."""

    on: bool


@dataclass(frozen=True, slots=True)
class Drafts:
    """Allow or forbid drafting from the next step on."""

    on: bool


@dataclass(frozen=True, slots=True)
class AbortMessage:
    """Last message of a child: the native library's text before it aborts the process."""

    text: str


def codec_for(*values: type) -> Codec:
    """Return the codec of both sides.

    Args:
        *values: Types of loaders and jobs, and of what their events carry.
    """
    return Codec(Command, Event, Cancel, Inspect, Drafts, AbortMessage, *values)


class Process:
    """One child process, with a thread that writes to it and one that reads from it.

    The child shares standard error with this process. It is not in the terminal's foreground group, so Ctrl+C does not
    reach it; it ends when its standard input does, also when this process was killed.

    Args:
        command: From `app.core.child.python_command`.
        codec: The same as the child's.

    Attributes:
        messages: Every event of the child, and at the end its `Ending`.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], codec: Codec) -> None:
        self.messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._codec = codec
        self._abort_message = ""
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=python_environment(),
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        # A child that does not read its pipe must block this thread only.
        _start(self._write, self._popen.stdin)
        self._reader = _start(self._read, self._popen.stdout)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    def send(self, message: object) -> None:
        """Queue a message and return at once.

        Raises:
            TypeError: The codec does not know its type.
        """
        self._outbox.put(self._codec.encode(message))

    def close(self, timeout: float) -> None:
        """Ask the process to end; kill it after `timeout` seconds."""
        self._outbox.put(None)
        self._reader.join(timeout)
        if self._reader.is_alive():
            self._popen.kill()

    def kill(self) -> None:
        """Kill the process and wait a moment, so that the next one finds its memory free."""
        self._popen.kill()
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(_EXIT_S)

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError), pipe:
            while (line := self._outbox.get()) is not None:
                pipe.write(line)
                pipe.flush()

    def _read(self, pipe: IO[bytes]) -> None:
        try:
            with pipe:
                for line in pipe:
                    # The last line of a killed process may be cut.
                    if line.endswith(b"\n"):
                        message = self._codec.decode(line)
                        if isinstance(message, AbortMessage):
                            self._abort_message = message.text
                        else:
                            self.messages.put(message)
        except (OSError, ValueError):
            log.exception("a message of the engine process cannot be read")
            self._abort_message = "its messages cannot be read"
            self._popen.kill()
        try:
            code = self._popen.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            code = self._popen.wait()
        self.messages.put(Ending(code, self._abort_message))
        self._outbox.put(None)


def _start(work: Callable[[IO[bytes]], None], pipe: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=work, args=(pipe,), name=f"engine {work.__name__[1:]}", daemon=True)
    thread.start()
    return thread
