"""An isolated engine over a fake child, and its events."""

import queue
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import psutil

from app.conversations.message import Message, Role
from app.core.program import python_command
from app.engine.events import PromptProgress, Step
from app.engine.interfaces import UNCONTROLLED, Clock, Controls
from app.engine.types import Drafting, SamplingParams
from app.worker.engine_worker import EngineWorker, Progress
from app.worker.events import Event, Failed, Finished, Loaded
from app.worker.isolated_engine import IsolatedEngine
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.worker.fake_process import MODULE

GREEDY = SamplingParams(temperature=0)


def question(
    text: str = "abc", max_tokens: int | None = 5, drafting: Drafting = None, stops: tuple[str, ...] = ()
) -> AnswerRequest:
    return AnswerRequest((Message(Role.USER, text),), GREEDY, drafting, max_tokens, stops, with_details=True)


ENDLESS = question(max_tokens=None)


def ticking() -> Clock:
    """Return a clock each reading of which takes a microsecond."""
    return count(0, 1000).__next__


def answered(
    pair: FakePair, request: AnswerRequest, controls: Controls = UNCONTROLLED, clock: Clock | None = None
) -> tuple[list[Event], Finished]:
    """Answer a request without a worker; return its events and the last of them."""
    seen = list(answer(pair, 1, request, controls, clock or ticking()))
    return seen, finished(seen[-1])


def failed(event: Event) -> Failed:
    """Return the event, which must be a failure."""
    assert isinstance(event, Failed)
    return event


def finished(event: Event) -> Finished:
    """Return the event, which must be the end of an answer."""
    assert isinstance(event, Finished)
    return event


def untimed(event: Event) -> Event:
    """Return the event without clock times and file counts."""
    if isinstance(event, Step | Finished):
        stats = event.stats.snapshot()
        for name in vars(stats):
            if name.endswith("_ns"):
                setattr(stats, name, 0)
        event = replace(event, stats=stats)
        if isinstance(event, Step):
            details = replace(event.details, total_ns=0) if event.details is not None else None
            event = replace(event, total_ns=0, work_ns=0, details=details)
        return event
    if isinstance(event, PromptProgress):
        return replace(event, left_s=None)
    if isinstance(event, Loaded):
        return replace(event, pair=replace(event.pair, memory=()))
    return event


class Listener:
    """Events as they arrive."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def until(self, *kinds: type[Event]) -> list[Event]:
        """Return the events up to the next event of these kinds."""
        seen: list[Event] = []
        while not seen or not isinstance(seen[-1], kinds):
            seen.append(self.events.get(timeout=HANGS_S))
        return seen


class WorkerHarness(Listener):
    """A worker of this process and its events."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = EngineWorker(self.events.put)

    def load(self, pair: LoadedPair) -> None:
        self.worker.load(lambda cancel, progress: pair)

    def load_when_set(self, pair: LoadedPair) -> threading.Event:
        """Load a pair when the returned event is set."""
        loads = threading.Event()

        def load(cancel: threading.Event, progress: Progress) -> LoadedPair:
            assert loads.wait(HANGS_S)
            return pair

        self.worker.load(load)
        return loads


class Harness(Listener):
    """An engine in a child process and its events."""

    def __init__(self, command: Sequence[str] = (), servers: Sequence[str] = (), stop_s: float = HANGS_S) -> None:
        super().__init__()
        command = command or python_command("-m", MODULE)
        self.engine = IsolatedEngine([self.events.put], command, servers)
        self.engine.stop_s = stop_s

    @property
    def child(self) -> psutil.Process:
        assert self.engine._process is not None
        return psutil.Process(self.engine._process._popen.pid)
