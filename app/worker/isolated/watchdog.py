"""Watches over a child whose native calls wait for other machines: llama.cpp waits there for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.worker.events import Event
from app.worker.isolated.timeouts import AdaptiveTimeout

_PROOFS = 3
"""Looks in a row that find nobody there: a network may be away for a moment, and connections outlive that."""


class Probe(Protocol):
    """Looks after a server while it is silent; `app.hardware.liveness` provides it."""

    def trouble(self) -> str:
        """What proves that the server is gone, with its name, as the begin of a sentence; "" if nothing does."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing came for so long that somebody should know. Told once in a silence."""

    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing will come any more; `why` is a clause with the name of the server."""

    why: str


Finding = Quiet | Lost


class Watchdog:
    """Counts the silence of a child that was asked for something.

    Args:
        servers: Their names, for sentences.
        probes: Makes a probe of each.
        timeout: What silence is too long.
        tick_s: Seconds between two looks.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        servers: Sequence[str],
        probes: Callable[[], Sequence[Probe]],
        timeout: AdaptiveTimeout | None = None,
        tick_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._who = f"{' and '.join(servers)} {'has' if len(servers) == 1 else 'have'}"
        self._make_probes = probes
        self._probes: Sequence[Probe] = ()
        self._timeout = timeout or AdaptiveTimeout()
        self.tick_s = tick_s
        self._clock = clock
        self._lock = threading.Lock()
        self._waits = self._loading = self._stopped = self._told = False
        self._silence = 0
        """Its number: another one begins with every event."""
        self._since = 0.0
        self._ticks = self._troubles = 0

    # Told by whoever asks the child and hears it

    def begin(self, *, loading: bool) -> None:
        """The child begins with something, or has come to the next."""
        with self._lock:
            self._timeout.begin(loading=loading)
            self._waits, self._loading, self._stopped = True, loading, False
            self._break()

    def heard(self, event: Event) -> None:
        """The child said something."""
        with self._lock:
            self._timeout.heard(event, self._silence_s(self._ticks + 1))
            self._stopped = False
            self._break()

    def stopped(self) -> None:
        """A stop was asked for: from now on less is waited for."""
        with self._lock:
            self._stopped = True
            self._break()

    def idle(self) -> None:
        """Nothing is asked for any more, or the child is gone."""
        with self._lock:
            self._waits = False
            self._break()

    def _break(self) -> None:
        self._silence += 1
        self._since = self._clock()
        self._ticks = self._troubles = 0
        self._told = False

    def _silence_s(self, ticks: int) -> float:
        # No more than the ticks: while this very process is suspended, the clock goes on and nobody is heard.
        return min(self._clock() - self._since, ticks * self.tick_s)

    # The watch

    def run(self, is_over: Callable[[], bool], report: Callable[[Finding], None]) -> None:
        """Look once a tick until it is over, on a thread of its own."""
        while not is_over():
            time.sleep(self.tick_s)
            finding = self.tick() if not is_over() else None
            if finding is not None:
                report(finding)
        self._let_go()

    def tick(self) -> Finding | None:
        """One look; it takes seconds where a server is away."""
        with self._lock:
            self._ticks += 1
            silence, seconds, limit = self._silence, self._silence_s(self._ticks), self._limit_s
            if self._waits and seconds >= limit:
                return self._lost(f"{self._who} not answered for {_long(seconds)}")
            loading = self._loading
            looks = self._waits and seconds >= min(limit, self._timeout.notice_s)
        if not looks:
            self._let_go()
            return None
        # Before a pair is loaded the child may not be connected, and a server would serve the probe in its place.
        trouble = "" if loading else self._look()
        with self._lock:
            if silence != self._silence:
                return None
            self._troubles = self._troubles + 1 if trouble else 0
            if self._troubles >= _PROOFS:
                return self._lost(trouble)
            if self._told or trouble:
                return None
            self._told = True
        return Quiet(
            f"{self._who} not answered for {_long(seconds)}. That may be work: it is waited for up to {_long(limit)}, "
            "and can be stopped at any time."
        )

    @property
    def _limit_s(self) -> float:
        limit = self._timeout.limit_s
        return min(limit, self._timeout.stopped_limit_s) if self._stopped else limit

    def _lost(self, why: str) -> Lost:
        self._waits = False
        return Lost(why)

    def _look(self) -> str:
        self._probes = self._probes or self._make_probes()
        return next(filter(None, (probe.trouble() for probe in self._probes)), "")

    def _let_go(self) -> None:
        probes, self._probes = self._probes, ()
        for probe in probes:
            probe.close()


def _long(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
