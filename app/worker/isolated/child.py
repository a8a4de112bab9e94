"""The child's side: the engine worker with commands from one pipe and events into another."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, NoReturn

from app.worker.commands import Answer, CancelSwitch, Load, Loader, Progress, RunJob
from app.worker.engine_worker import EngineWorker
from app.worker.isolated.process import AbortMessage, Cancel, Codec, Drafts, Inspect
from app.worker.request import LoadedPair

_CLOSE_S = 4.0
"""Seconds to wait for a native call before the process ends without it."""
_THREAD_FAILED = 70
"""Exit code after an error in a thread; BSD calls it EX_SOFTWARE."""

Prepare = Callable[[Callable[[str], None]], None]
"""Passes the native library's abort message to the given function; called on the worker's thread."""
Send = Callable[[object], None]


def serve(codec: Codec, cancel: CancelSwitch | None = None, prepare: Prepare = lambda send: None) -> NoReturn:
    """Run commands until the parent closes its end of the pipe or is gone.

    Args:
        codec: The same as the parent's.
        cancel: The flag of the worker; the default has no native side.
        prepare: Called before every load.
    """
    commands, events = _take_pipes()
    send = _sender(codec, events)
    threading.excepthook = partial(_end_process, send)
    worker = EngineWorker(send, cancel)

    def prepared(loader: Loader) -> Loader:
        def load(cancel: CancelSwitch, progress: Progress) -> LoadedPair:
            prepare(lambda text: send(AbortMessage(text)))
            return loader(cancel, progress)

        return load

    for line in commands:
        match codec.decode(line):
            case Load(number, loader):
                worker.submit(Load(number, prepared(loader)))
            case Answer() | RunJob() as command:
                worker.submit(command)
            case Cancel():
                worker.cancel()
            case Inspect(on):
                worker.inspect(on)
            case Drafts(on):
                worker.draft(on)
    worker.close(_CLOSE_S)
    # Interpreter shutdown would wait for a native call that did not return.
    os._exit(0)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output; replace them by nothing and by standard error.

    Native libraries print where they like, and a process that they start must not hold the parent's pipes open.
    """
    commands, events = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return commands, events


def _end_process(send: Send, failed: threading.ExceptHookArgs) -> NoReturn:
    """End the process after an error in a thread; the parent would wait for its events."""
    threading.__excepthook__(failed)
    send(AbortMessage(f"{failed.exc_type.__name__}: {failed.exc_value}"))
    os._exit(_THREAD_FAILED)


def _sender(codec: Codec, events: BinaryIO) -> Send:
    lock = threading.Lock()

    def send(event: object) -> None:
        line = codec.encode(event)
        try:
            with lock:
                events.write(line)
                events.flush()
        except OSError:
            # The parent is gone.
            os._exit(1)

    return send
