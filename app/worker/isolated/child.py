"""The child's side: the same worker, with commands from one pipe and events into another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, NoReturn

from app.worker.engine_worker import CancelSwitch, EngineWorker, Loader, Progress
from app.worker.isolated.codec import Codec
from app.worker.isolated.protocol import Answer, Begin, Cancel, Drafts, Inspect, LastWords, Load, RunJob, Say
from app.worker.request import LoadedPair

_CLOSE_S = 1.0
"""A native call that does not return must not keep the process from ending."""
_BROKEN = 70
"""The exit code of a process in which a thread has failed; BSD calls it EX_SOFTWARE."""

Prepare = Callable[[Callable[[str], None]], None]
"""Loads what the loaders need, on the worker's thread, and has the library's last words told to the given function."""


def serve(codec: Codec, cancel: CancelSwitch | None = None, prepare: Prepare = lambda say: None) -> NoReturn:
    """Work until the parent closes its end or is gone.

    Args:
        codec: The same as the parent's.
        cancel: The flag of the worker; the default has no native side.
        prepare: Called before every load.
    """
    commands, events = _take_pipes()
    say = _speaker(codec, events)
    threading.excepthook = partial(_end_with, say)
    worker: EngineWorker | None = None
    for line in commands:
        match codec.decode(line):
            case Begin(last_number):
                worker = EngineWorker(say, cancel, last_number)
            case Load(loader) if worker is not None:
                worker.load(_Prepared(loader, prepare, say))
            case Answer(request) if worker is not None:
                worker.answer(request)
            case RunJob(job) if worker is not None:
                worker.run(job)
            case Cancel() if worker is not None:
                worker.cancel()
            case Inspect(on) if worker is not None:
                worker.inspect(on)
            case Drafts(on) if worker is not None:
                worker.draft(on)
    if worker is not None:
        worker.close(_CLOSE_S)
    # Interpreter shutdown would wait for the native call that did not return.
    os._exit(0)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes that came as standard input and output; in their place nothing, and standard error.

    Native libraries print where they like, and what they start must not hold the parent's pipes open.
    """
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, events


def _end_with(say: Say, dead: threading.ExceptHookArgs) -> NoReturn:
    """End the process with a thread that an error has ended; the parent would wait for what it was to say."""
    threading.__excepthook__(dead)
    say(LastWords(f"{dead.exc_type.__name__}: {dead.exc_value}"))
    os._exit(_BROKEN)


def _speaker(codec: Codec, events: BinaryIO) -> Say:
    lock = threading.Lock()

    def say(event: object) -> None:
        line = codec.encode(event)
        try:
            with lock:
                events.write(line)
                events.flush()
        except OSError:
            # Nobody listens any more.
            os._exit(1)

    return say


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A loader behind its preparation."""

    loader: Loader
    prepare: Prepare
    say: Say

    def __call__(self, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        self.prepare(lambda text: self.say(LastWords(text)))
        return self.loader(cancel, progress)
