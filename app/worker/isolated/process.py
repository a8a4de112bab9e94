"""The parent's handle on the child process, the messages between the two, and how they are serialized."""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import threading
import typing
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any

from app.core.errors import AppError
from app.core.program import ExitStatus, python_environment
from app.worker.commands import Command
from app.worker.events import Event

_PLAIN = (str, int, float, type(None))
_PATH, _BYTES, _TUPLE, _LIST, _MAPPING = "/", "b", "()", "[]", "{}"


class Codec:
    """Write and read values of registered types.

    Args:
        *roots: Types, or unions of them; the types of their fields and all errors of `app.core.errors` are registered
            too. Any other error arrives as a plain `AppError`.
    """

    def __init__(self, *roots: Any) -> None:
        self._by_name: dict[str, type] = {}
        self._fields: dict[type, tuple[str, ...]] = {}
        for root in (*roots, AppError):
            self._learn(root)

    def encode(self, value: Any) -> bytes:
        """Return a value as one line.

        Raises:
            TypeError: A type in it is not registered.
        """
        return json.dumps(self._pack(value), separators=(",", ":")).encode() + b"\n"

    def decode(self, line: bytes) -> Any:
        """Return the value of one line.

        Raises:
            ValueError: The line is broken, or a type in it is not registered.
        """
        try:
            return self._unpack(json.loads(line))
        except (TypeError, KeyError, IndexError, RecursionError) as error:
            raise ValueError(f"a line is no value: {error}") from error

    def _pack(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, AppError) and kind not in self._fields:
            # The other side waits for an error.
            return self._pack(AppError(value.message, value.hint))
        if kind in self._fields:
            if isinstance(value, Enum):
                return [kind.__name__, value.value]
            if isinstance(value, AppError):
                return [kind.__name__, self._pack(vars(value))]
            return [kind.__name__, *(self._pack(getattr(value, name)) for name in self._fields[kind])]
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Path):
            return [_PATH, str(value)]
        if isinstance(value, bytes):
            return [_BYTES, value.hex()]
        if isinstance(value, dict):
            return [_MAPPING, *([self._pack(key), self._pack(one)] for key, one in value.items())]
        if isinstance(value, tuple | list):
            return [_TUPLE if isinstance(value, tuple) else _LIST, *map(self._pack, value)]
        raise TypeError(f"a {kind.__name__} cannot go to another process")

    def _unpack(self, raw: Any) -> Any:
        if not isinstance(raw, list):
            return raw
        tag, *rest = raw
        if tag == _PATH:
            return Path(rest[0])
        if tag == _BYTES:
            return bytes.fromhex(rest[0])
        if tag == _MAPPING:
            return {self._unpack(key): self._unpack(value) for key, value in rest}
        values = [self._unpack(value) for value in rest]
        if tag == _TUPLE:
            return tuple(values)
        if tag == _LIST:
            return values
        kind = self._by_name.get(tag)
        if kind is None:
            raise ValueError(f"{tag!r} is no type that may come from another process")
        if issubclass(kind, AppError):
            (attributes,) = values
            error = kind.__new__(kind, attributes["message"])
            vars(error).update(attributes)
            return error
        return kind(*values)

    def _learn(self, kind: Any) -> None:
        for part in typing.get_args(kind):
            self._learn(part)
        if not isinstance(kind, type) or kind in self._fields:
            return
        if is_dataclass(kind):
            self._add(kind, tuple(field.name for field in fields(kind)))
            for declared in typing.get_type_hints(kind).values():
                self._learn(declared)
        elif issubclass(kind, Enum):
            self._add(kind)
        elif issubclass(kind, AppError):
            self._add(kind)
            for below in kind.__subclasses__():
                # Other subclasses depend on imports, which differ between the two processes.
                if below.__module__ == AppError.__module__:
                    self._learn(below)

    def _add(self, kind: type, names: tuple[str, ...] = ()) -> None:
        known = self._by_name.setdefault(kind.__name__, kind)
        if known is not kind:
            raise TypeError(f"{known.__module__} and {kind.__module__} both have a {kind.__name__}")
        self._fields[kind] = names


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
        command: From `app.core.program.python_command`.
        codec: The same as the child's.

    Attributes:
        messages: Every event of the child, and at the end its `ExitStatus`.

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
        self.messages.put(ExitStatus(code, self._abort_message))
        self._outbox.put(None)


def _start(work: Callable[[IO[bytes]], None], pipe: IO[bytes]) -> threading.Thread:
    thread = threading.Thread(target=work, args=(pipe,), name=f"engine {work.__name__[1:]}", daemon=True)
    thread.start()
    return thread
