"""Requests in order of arrival, one at a time, and their events on the server's event loop.

The counters of the requests are for Prometheus and for the terminal.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app.engine.events import Step
from app.engine.stats import GenerationStats
from app.models.pair_info import PairInfo
from app.server.errors import RequestError
from app.worker.engine_worker import Engine
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, PairChanged
from app.worker.jobs import Job


@dataclass(slots=True)
class Metrics:
    """Counters since the start; rates describe the last answer.

    Attributes:
        pair: The loaded pair; set before the first request.
        total: Sums over all answers.
        current: Counters of the running answer, or of the last answer.
        longest: Largest number of tokens of a prompt and its answer.
    """

    pair: PairInfo = field(init=False)
    n_running: int = 0
    n_waiting: int = 0
    n_answered: int = 0
    n_failed: int = 0
    total: GenerationStats = field(default_factory=GenerationStats)
    tokens_per_second: float | None = None
    current: GenerationStats | None = None
    longest: int = 0
    last_error: str = ""

    def observe(self, event: Event) -> None:
        """Count an event of a request."""
        if isinstance(event, Failed):
            self.n_failed += 1
            self.last_error = event.error.sentences
        if isinstance(event, Finished):
            stats = event.stats
            self.n_answered += 1
            self.total = self.total.plus(stats)
            self.longest = max(self.longest, stats.cache_n + stats.prompt_n + stats.predicted_n)
        if isinstance(event, Step | Finished):
            self.current = event.stats
            self.tokens_per_second = event.stats.tokens_per_second or self.tokens_per_second

    def as_prometheus(self) -> str:
        """Return the counters in Prometheus' text format, with llama-server's names where they exist."""
        total = self.total
        prompt_seconds, predicted_seconds = (total.prompt_ns + total.draft_prompt_ns) / 1e9, total.predicted_ns / 1e9
        # The prompt of an answer takes a step too.
        n_steps = self.n_answered + total.verify_steps
        values = (
            ("llamacpp:prompt_tokens_total", "counter", "Prompt tokens evaluated", total.prompt_n),
            ("llamacpp:prompt_tokens_cached_total", "counter", "Prompt tokens from the cache", total.cache_n),
            ("llamacpp:prompt_seconds_total", "counter", "Seconds of prompt processing", prompt_seconds),
            ("llamacpp:tokens_predicted_total", "counter", "Generated tokens", total.predicted_n),
            ("llamacpp:tokens_predicted_seconds_total", "counter", "Seconds of generation", predicted_seconds),
            ("llamacpp:n_decode_total", "counter", "Steps of the target", n_steps),
            ("llamacpp:n_tokens_max", "counter", "Most tokens of a prompt and its answer", self.longest),
            ("llamacpp:spec_decode_num_drafts_total", "counter", "Steps with a draft", total.drafted_steps),
            ("llamacpp:spec_decode_num_draft_tokens_total", "counter", "Drafted tokens", total.draft_n),
            ("llamacpp:spec_decode_num_accepted_tokens_total", "counter", "Accepted tokens", total.draft_n_accepted),
            ("llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens per second", total.prompt_per_second or 0.0),
            ("llamacpp:predicted_tokens_seconds", "gauge", "Generated tokens per second", self.tokens_per_second or 0),
            ("llamacpp:requests_processing", "gauge", "Requests being answered", self.n_running),
            ("llamacpp:requests_deferred", "gauge", "Requests waiting", self.n_waiting),
            ("llamacpp:n_busy_slots_per_decode", "gauge", "Busy slots in a step", int(n_steps > 0)),
            ("tandem:requests_answered_total", "counter", "Requests answered", self.n_answered),
            ("tandem:requests_failed_total", "counter", "Requests failed", self.n_failed),
        )
        return "".join(
            f"# HELP {name} {text}.\n# TYPE {name} {kind}\n{name} {value}\n" for name, kind, text, value in values
        )


MOST_WAITING = 64
_LEAST_RETRY_S, _MOST_RETRY_S = 1, 60


class Ticket:
    """A request in the queue."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.number: int | None = None
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def put(self, event: Event) -> None:
        self._events.put_nowait(event)

    async def next(self, timeout_s: float) -> Event | None:
        """Return the next event; None if nothing arrived within the timeout."""
        try:
            return await asyncio.wait_for(self._events.get(), timeout_s)
        except TimeoutError:
            return None

    async def last(self) -> Event:
        """Return the event that ends the request."""
        while not _is_last(event := await self._events.get()):
            pass
        return event


class EngineQueue:
    """Owns the engine; gives it one request at a time. All methods run on the event loop.

    Args:
        make_engine: Creates the engine; its events arrive on another thread.
        idle: Runs while no request is waiting, if given; it must yield to requests.
    """

    def __init__(self, make_engine: Callable[[Callable[[Event], None]], Engine], idle: Job | None = None) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: Callable[[Event], None] = lambda event: None
        self.metrics = Metrics()
        self._idle = idle
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._began = 0.0
        self._seconds = 0.0
        # A running engine emits at once.
        self.engine: Engine = make_engine(self._emit)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Give every event to a listener: on the engine's thread until `start`, then on the event loop."""
        self._listener = listener

    def start(self) -> None:
        """Accept requests on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._start_next()

    def submit(self, job: Job) -> Ticket:
        """Queue a job.

        Raises:
            RequestError: Too many requests are waiting.
        """
        if len(self._waiting) >= MOST_WAITING:
            seconds = math.ceil(max(_LEAST_RETRY_S, min(_MOST_RETRY_S, self._seconds * len(self._waiting))))
            message = f"The queue is full: {len(self._waiting)} requests are waiting."
            raise RequestError(message, f"Try again in {seconds} s.", status=503, retry_after_s=seconds)
        ticket = Ticket(job)
        self._waiting.append(ticket)
        self._start_next()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Stop a request, unless it has ended."""
        if ticket is self._running:
            self.engine.cancel(ticket.number)
        elif ticket in self._waiting:
            self._waiting.remove(ticket)
            # Create a new error each time: a reraised error keeps all its tracebacks and their requests in memory.
            ticket.put(Failed(None, RequestError("The request was stopped before its turn.", status=503)))
            self._count()

    def cancel_all(self) -> None:
        """Stop every request."""
        for ticket in list(self._waiting):
            self.cancel(ticket)
        if self._running is not None:
            self.engine.cancel(self._running.number)

    def _emit(self, event: Event) -> None:
        loop = self._loop
        if loop is None:
            self._receive(event)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._receive, event)

    def _receive(self, event: Event) -> None:
        if isinstance(event, (Loaded, PairChanged)):
            self.metrics.pair = event.pair
        self._listener(event)
        ticket = self._running
        if ticket is None or getattr(event, "request", None) != ticket.number:
            return
        ticket.put(event)
        self.metrics.observe(event)
        if _is_last(event):
            self._running = None
            self._seconds += 0.5 * (time.monotonic() - self._began - self._seconds)
            self._start_next()

    def _start_next(self) -> None:
        if self._running is None and self._waiting:
            ticket = self._running = self._waiting.popleft()
            self._began = time.monotonic()
            ticket.number = self.engine.run(ticket.job)
        elif self._running is None and self._idle is not None:
            self.engine.run(self._idle)
        self._count()

    def _count(self) -> None:
        self.metrics.n_running, self.metrics.n_waiting = int(self._running is not None), len(self._waiting)


def _is_last(event: Event) -> bool:
    return isinstance(event, (Finished, Failed, JobEnded))
