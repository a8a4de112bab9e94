"""Background load for a benchmark: programs that use the CPU, always or at times.

    with Load("bursts"): ...

Kinds:
    quiet: nothing.
    one-core: one core is busy all the time.
    bursts: both of two cores (every core) are busy for 2 s of every 5 s.
    changing: a load on every core begins or ends after 3 to 12 s, so in the middle of answers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import cycle
from random import Random
from types import TracebackType

LOADS = ("quiet", "one-core", "bursts", "changing")
_BUSY_PROGRAM = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(10_000))"
"""A program that ends with the benchmark, also if the benchmark is killed."""


class Load:
    """Run the load in separate sessions, as from another terminal, while the context is open."""

    def __init__(self, kind: str, seed: int = 0) -> None:
        self._kind = kind
        self._random = Random(seed)
        self._stopped = threading.Event()
        self._programs: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._alternate, daemon=True)

    def __enter__(self) -> Load:
        n = {"quiet": 0, "one-core": 1}.get(self._kind, os.cpu_count() or 1)
        for _ in range(n):
            self._programs.append(subprocess.Popen([sys.executable, "-c", _BUSY_PROGRAM], start_new_session=True))
        if self._kind in ("bursts", "changing"):
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        for program in self._programs:
            program.kill()
            program.wait()

    def _periods(self) -> Iterator[float]:
        """Yield the seconds of load and of rest, in turn."""
        if self._kind == "bursts":
            yield from cycle((2.0, 3.0))
        while True:
            yield self._random.uniform(3.0, 12.0)

    def _alternate(self) -> None:
        for seconds, signal_number in zip(self._periods(), cycle((signal.SIGCONT, signal.SIGSTOP)), strict=False):
            for program in self._programs:
                program.send_signal(signal_number)
            if self._stopped.wait(seconds):
                return
