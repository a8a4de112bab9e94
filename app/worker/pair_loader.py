"""A pair with its settings as a command that loads it, and the engine that runs the command.

This module is light: only the worker, which runs the command, imports what loads a pair.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from app.core.errors import UsageError
from app.engine.sources import Source
from app.engine.types import DraftParams
from app.llama.cancel import CancelFlag
from app.llama.params import PairParams
from app.settings.layers import Origin, Resolved, drafting
from app.worker.engine_worker import Engine, EngineWorker, Progress
from app.worker.events import Event
from app.worker.known_pairs import ChosenPair, KnownPair, ProcessOptions
from app.worker.request import LoadedPair

_POLL_S = 0.2
_Received = TypeVar("_Received")
_CHILD_PROGRAM = (
    "from app.llama.cancel import CancelFlag; from app.worker import engine_process as p; p.serve(CancelFlag())"
)


class PairLoader(ChosenPair):
    """Loads the pair on the worker's thread; picklable."""

    __slots__ = ()

    def __call__(self, cancel: threading.Event, progress: Progress) -> LoadedPair:
        # These imports take long, and only the worker needs them.
        from app.llama.installed import check_start

        # Importing llama.cpp would do the same, but the user could not stop it.
        check_start(cancel.is_set)
        from app.worker.loading import load

        return load(self, cancel, progress)


def pair_loader(settings: Resolved, known: KnownPair, process: ProcessOptions | None = None) -> PairLoader:
    """Return a loader of a pair with these settings. Raises UsageError if they contradict each other or the pair."""
    PairParams.of(settings)
    pair = known.pair
    # N-grams have no probabilities for p_min.
    has_draft = settings["draft.type"] != Source.NGRAM and (pair.draft is not None or known.has_mtp_layers)
    if isinstance(drafting(settings), DraftParams) and not has_draft:
        if settings.origin("draft.mode") is Origin.FLAG:
            hint = "Add ⟨draft⟩ FILE, or use ⟨draft.mode=auto⟩ for n-grams."
            raise UsageError("Fixed drafting needs a draft model.", hint)
        # The settings file is meant for pairs with a draft model.
        settings = settings.over({"draft.mode": "off"})
    if drafting(settings) is None:
        pair = replace(pair, draft=None)
    return PairLoader(pair, known.files, settings, process or ProcessOptions())


def make_engine(process: ProcessOptions, *receivers: Callable[[Event], None]) -> Engine:
    """Return an engine that has loaded nothing; each receiver gets every event, on the engine's thread.

    Remote devices need a separate process: llama.cpp aborts when one disappears.
    """
    if not process.isolate:
        return EngineWorker(*receivers, cancel=CancelFlag())
    from app.core.program import python_command
    from app.worker.isolated_engine import IsolatedEngine

    child = python_command("-c", _CHILD_PROGRAM)
    return IsolatedEngine(receivers, child, process.rpc)


def received(events: queue.SimpleQueue[_Received]) -> _Received:
    """Wait for an event in short waits: Windows delivers Ctrl+C to Python only between waits."""
    while True:
        with suppress(queue.Empty):
            return events.get(timeout=_POLL_S)
