"""Answers that take turns, one step each, so that a slow moment of the machine affects all of them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from app.conversations.message import Message, Role
from app.engine.drafting_report import Speedup
from app.engine.events import PromptProgress, Step
from app.engine.stats import GenerationStats
from app.engine.types import Drafting, SamplingParams
from app.hardware.cpu import default_threads, others_seconds
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.worker.events import Event, Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.bench.peer import LlamaServer
from tests.bench.steady import StepTime
from tests.llama.params import pair_params

_REST_S = 0.004
"""Seconds for which the idle threads of the last process still spin."""


def load(
    target: Path, draft: Path | None, n_ctx: int = 4096, others: Callable[[], float] = others_seconds
) -> NativePair:
    """Load a pair as the chat does."""
    params = pair_params(target, draft, n_threads=default_threads(), n_ctx=n_ctx)
    with patch("app.llama.cpu_threads.others_seconds", others):
        return NativePair(params, CancelFlag(), lambda share: True)


def greedy(prompt: str, drafting: Drafting, n_tokens: int) -> AnswerRequest:
    messages = (Message(Role.USER, prompt),)
    return AnswerRequest(messages, SamplingParams(temperature=0), drafting, max_tokens=n_tokens)


def draft_prompt_ns(pair: NativePair, prompt: Sequence[int]) -> int:
    """Measure how long the draft model takes to read a prompt, in nanoseconds."""
    cache = pair.drafter.cache if pair.drafter is not None else None
    assert cache is not None
    cache.rollback(0)
    started = time.perf_counter_ns()
    for _ in cache.process(prompt, lambda: False):
        pass
    spent = time.perf_counter_ns() - started
    cache.rollback(0)
    return spent


class Lane(Protocol):
    """One running answer."""

    ns: int
    draft_prompt_ns: int
    n_tokens: int
    done: bool

    def step(self) -> None:
        """Run until the next event."""
        ...


def race(lanes: Mapping[str, Lane], order: Random) -> None:
    """Run all lanes to their ends; the lane with the fewest tokens runs the next step.

    Ties are broken at random: the order decides the contents of the CPU caches, which matters by several percent.
    """
    while left := [lane for lane in lanes.values() if not lane.done]:
        behind = min(lane.n_tokens for lane in left)
        time.sleep(_REST_S)
        order.choice([lane for lane in left if lane.n_tokens == behind]).step()


class OwnLane:
    """An answer of this process, greedy and from an empty cache.

    Attributes:
        steps: The time of every step after the first token.
        claim: The speedup that Tandem shows for this answer; None if it shows none.
    """

    def __init__(self, pair: NativePair, prompt: str, drafting: Drafting, n_tokens: int) -> None:
        self.ns = self.draft_prompt_ns = self.n_tokens = 0
        self.done = False
        self.claim: Speedup | None = None
        self.steps: list[StepTime] = []
        self._pair = pair
        self._last_stats = GenerationStats()
        self._spent_ns = self._began_ns = self._computed_ns = self._cpu_began_ns = 0
        pair.target.rollback(0)
        request = greedy(prompt, drafting, n_tokens)
        self._events: Iterator[Event] = answer(pair, 0, request, clock=self._clock, cpu_clock=self._cpu_clock)

    def _clock(self) -> int:
        """Return the nanoseconds that this lane has run."""
        return self._spent_ns + time.perf_counter_ns() - self._began_ns

    def _cpu_clock(self) -> int:
        """Return the nanoseconds of CPU time of this lane."""
        return self._computed_ns + time.process_time_ns() - self._cpu_began_ns

    def step(self) -> None:
        # Other programs may have started or ended since the last step of this lane.
        self._pair.threads.yield_cpu()
        self._began_ns, self._cpu_began_ns = time.perf_counter_ns(), time.process_time_ns()
        event = next(self._events)
        spent = time.perf_counter_ns() - self._began_ns
        self._spent_ns += spent
        self._computed_ns += time.process_time_ns() - self._cpu_began_ns
        match event:
            case Step(stats=stats):
                self.ns += spent if self.n_tokens else 0
                # The text held back to the end comes without a verify step.
                if stats.verify_steps > self._last_stats.verify_steps:
                    n_tokens, rows = stats.predicted_n - self.n_tokens, stats.draft_n - self._last_stats.draft_n + 1
                    draft_ns = stats.draft_ns - self._last_stats.draft_ns
                    self.steps.append(StepTime(n_tokens, rows, spent - draft_ns, draft_ns))
                self.n_tokens, self._last_stats = stats.predicted_n, stats
            case PromptProgress(drafting=True):
                self.draft_prompt_ns += spent
            case Finished(stats=stats):
                self.claim = stats.speedup
                self.done = True


class ServerLane:
    """An answer of a llama-server, whose process is stopped while other lanes run.

    All of its running time after the first token counts, including the part of the next step before it is stopped.
    Its draft model reads the prompt before the first token.
    """

    def __init__(self, server: LlamaServer, prompt: Sequence[int], n_tokens: int, *, draft_prompt_ns: int) -> None:
        self.draft_prompt_ns = draft_prompt_ns
        self.ns = self.n_tokens = 0
        self.done = False
        self._server = server
        server.resume()
        host, port = server.address
        self._connection = http.client.HTTPConnection(host, port, timeout=600)
        body = {**server.greedy(prompt, n_tokens), "stream": True}
        self._connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        self._response = self._connection.getresponse()
        server.pause()

    def step(self) -> None:
        started = time.perf_counter_ns()
        self._server.resume()
        chunk = self._chunk()
        # Data that has already arrived belongs to the same step.
        self._server.pause()
        spent = time.perf_counter_ns() - started
        self.ns += spent if self.n_tokens else 0
        self.n_tokens += len(chunk["tokens"])
        if chunk.get("stop"):
            self.done = True
            self._server.resume()
            self._connection.close()

    def _chunk(self) -> dict[str, Any]:
        while line := self._response.readline():
            if line.startswith(b"data: "):
                chunk: dict[str, Any] = json.loads(line[len(b"data: ") :])
                return chunk
        raise RuntimeError("llama-server closed the connection before the end of the answer")
