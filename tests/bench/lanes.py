"""Answers that take turns, a step each, so that whatever slows the machine for a second slows all of them alike."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from app.conversations.message import Message, Role
from app.engine.stats import GenerationStats
from app.engine.types import Drafting, SamplingParams
from app.worker.events import Event, Finished, PromptProgress, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.bench.fixed import Ours
from tests.bench.peer import LlamaServer
from tests.bench.steady import StepTime

_REST_S = 0.004
"""Threads of the process that had the last turn go on waiting for work, at full speed, for about this long."""


class Lane(Protocol):
    """One contender's answer on its way.

    Attributes:
        ns: Nanoseconds that it has had since its first token.
        draft_prompt_ns: What a draft model's reading of the prompt took besides.
        n_tokens: Tokens so far.
        done: Whether the answer has ended.
    """

    ns: int
    draft_prompt_ns: int
    n_tokens: int
    done: bool

    def step(self) -> None:
        """Go on, until something has happened."""
        ...


def race(lanes: Mapping[str, Lane], order: Random) -> None:
    """Let all go on to their ends, anyone who is behind first.

    Whom a turn comes after matters by several percent, to what the processor's caches and threads are about, so that
    is left to chance.
    """
    while left := [lane for lane in lanes.values() if not lane.done]:
        behind = min(lane.n_tokens for lane in left)
        time.sleep(_REST_S)
        order.choice([lane for lane in left if lane.n_tokens == behind]).step()


class OwnLane:
    """An answer of this process.

    Args:
        ours: Models with caches of their own.
        prompt: What is asked, greedily and from an empty cache.
        drafting: How.
        n_tokens: Most tokens.

    Attributes:
        steps: What every round after the first token took.
    """

    def __init__(self, ours: Ours, prompt: str, drafting: Drafting, n_tokens: int) -> None:
        self.ns = self.draft_prompt_ns = self.n_tokens = 0
        self.done = False
        self.steps: list[StepTime] = []
        self._pair = ours.pair
        self._told = GenerationStats()
        self._spent_ns = self._began_ns = self._computed_ns = self._cpu_began_ns = 0
        ours.pair.target.rollback(0)
        request = AnswerRequest(
            (Message(Role.USER, prompt),), SamplingParams(temperature=0), drafting, max_tokens=n_tokens
        )
        self._events: Iterator[Event] = answer(ours.pair, 0, request, clock=self._clock, cpu_clock=self._cpu_clock)

    def _clock(self) -> int:
        """Time that this lane has had; it stands still while others run."""
        return self._spent_ns + time.perf_counter_ns() - self._began_ns

    def _cpu_clock(self) -> int:
        """Nanoseconds of CPU time of this lane."""
        return self._computed_ns + time.process_time_ns() - self._cpu_began_ns

    def step(self) -> None:
        # Other programs may have started or ended since the last step of this lane.
        self._pair.yield_cpu()
        self._began_ns, self._cpu_began_ns = time.perf_counter_ns(), time.process_time_ns()
        event = next(self._events)
        spent = time.perf_counter_ns() - self._began_ns
        self._spent_ns += spent
        self._computed_ns += time.process_time_ns() - self._cpu_began_ns
        match event:
            case Step(stats=stats):
                self.ns += spent if self.n_tokens else 0
                # Text that was held back to the end comes without a round.
                if stats.verify_steps > self._told.verify_steps:
                    n_tokens, rows = stats.predicted_n - self.n_tokens, stats.draft_n - self._told.draft_n + 1
                    draft_ns = stats.draft_ns - self._told.draft_ns
                    self.steps.append(StepTime(n_tokens, rows, spent - draft_ns, draft_ns))
                self.n_tokens, self._told = stats.predicted_n, stats
            case PromptProgress(drafting=True):
                self.draft_prompt_ns += spent
            case Finished():
                self.done = True


class ServerLane:
    """An answer of a llama-server, which is stopped as a process while it is not its turn.

    All of its running time after the first token counts, also what it does of the next step before it is stopped.
    Its draft model reads every batch of the prompt right after the target, before there is a token.

    Args:
        server: Running; it serves no one else.
        prompt: Token ids.
        n_tokens: Most tokens.
        draft_prompt_ns: What its draft model takes to read the prompt.
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
        # What is there already belongs to the same step.
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
        raise RuntimeError("llama-server ended the answer without saying so")
