"""The engine that a command was asked to run its pair with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from app.cli.process import Process
from app.llama.cancel import CancelFlag
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event

if TYPE_CHECKING:
    from app.worker.isolated.engine import IsolatedEngine


Engine: TypeAlias = "EngineWorker | IsolatedEngine"


def make_engine(process: Process, emit: Callable[[Event], None]) -> Engine:
    """A thread of this process, or a process of its own; neither loads anything before it is asked to.

    Devices of other machines are used in a process of its own only: llama.cpp ends the one that it is in when such a
    device goes away.
    """
    if not process.isolate:
        return EngineWorker(emit, CancelFlag())
    from app.cli.isolated_engine import isolated_engine

    return isolated_engine(process, emit)
