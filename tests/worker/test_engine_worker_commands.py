"""Whatever the worker is asked for, and whenever it is stopped: each thing ends once, in order, and nothing is left."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversations.message import Message, Role
from app.core.errors import DecodeError, Interrupted, ModelLoadError
from app.engine.interfaces import Controls
from app.engine.types import FinishReason, SamplingParams
from app.worker.engine_worker import EngineWorker, Progress
from app.worker.events import Event, Failed, Finished, JobEnded, JobProgressed, Loaded, Step
from app.worker.request import AnswerRequest, LoadedPair
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair

MOVES = ("load", "load that fails", "load that breaks", "answer", "endless", "job", "go", "go", "cancel", "fail")
ASKED = Message(Role.USER, "abc")
_PATIENCE_S = 60


class Gate:
    """Native calls wait here until a move lets them go."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.fails = False

    def __call__(self) -> None:
        assert self.permits.acquire(timeout=_PATIENCE_S)
        if self.fails:
            self.fails = False
            raise DecodeError("The fake failed.")


class GatedModel(FakeModel):
    """Decodes when it is let."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(mixing(1), n_ctx=64)
        self._gate = gate

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        self._gate()
        super().decode(tokens, n_outputs)


@dataclass(frozen=True)
class GatedJob:
    """Run until stopped, a few times at most."""

    gate: Gate
    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        for part in range(3):
            if controls.cancelled():
                break
            self.gate()
            yield JobProgressed(number, part)
        yield JobEnded(number, None)


class Life:
    """A worker over a gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.worker = EngineWorker(self.events.put)
        self.asked: list[int | None] = []
        self.pairs: list[FakePair] = []
        self.stopped_through = 0

    def do(self, move: str) -> None:
        worker = self.worker
        match move:
            case "load" | "load that fails" | "load that breaks":
                self.asked.append(None)
                worker.load(lambda cancel, progress: self._load(move, progress))
            case "answer" | "endless":
                limit = 4 if move == "answer" else None
                self.asked.append(worker.answer(AnswerRequest((ASKED,), SamplingParams(temperature=0), None, limit)))
            case "job":
                self.asked.append(worker.run(GatedJob(self.gate)))
            case "go":
                self.gate.permits.release()
            case "fail":
                self.gate.fails = True
            case "cancel":
                worker.cancel()
                self.stopped_through = max([self.stopped_through, *(number for number in self.asked if number)])

    def _load(self, move: str, progress: Progress) -> LoadedPair:
        assert all(pair.closed for pair in self.pairs), "two pairs at once"
        if not progress("target", 0.5):
            raise Interrupted
        self.gate()
        if move == "load that fails":
            raise ModelLoadError("It is gone.")
        if move == "load that breaks":
            raise ZeroDivisionError
        self.pairs.append(FakePair(GatedModel(self.gate)))
        return self.pairs[-1]

    def finish(self) -> list[Event]:
        """Everything that was said, when all has ended."""
        self.gate.permits.release(10_000)
        seen: list[Event] = []
        while len(_ends(seen)) < len(self.asked):
            seen.append(self.events.get(timeout=_PATIENCE_S))
        assert self.worker.close(_PATIENCE_S)
        while not self.events.empty():
            seen.append(self.events.get())
        return seen


def _ends(events: Sequence[Event]) -> list[int | None]:
    return [
        None if isinstance(event, Loaded) else event.request
        for event in events
        if isinstance(event, Loaded | Finished | Failed | JobEnded)
    ]


@given(st.lists(st.sampled_from(MOVES), max_size=20))
@settings(max_examples=60, deadline=None)
def test_everything_ends_once(moves: list[str]) -> None:
    life = Life()
    for move in moves:
        life.do(move)
    events = life.finish()

    assert _ends(events) == life.asked
    assert all(pair.closed for pair in life.pairs)
    assert all(sampler.closed for pair in life.pairs for sampler in pair.samplers)
    for event in events:
        if isinstance(event, Finished):
            steps = [each for each in events if isinstance(each, Step) and each.request == event.request]
            said = "".join(part.text for step in steps for part in step.segments)
            assert event.text.strip() == said.strip()
            assert event.reason is not FinishReason.CANCELLED or event.request <= life.stopped_through
