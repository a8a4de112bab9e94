"""CPU threads of a loaded pair: how many compute, and how long a step would take without other programs."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.engine.auto.threads import CpuYield, WorkClock
from app.engine.interfaces import Clock
from app.engine.types import Threads
from app.hardware.cpu import others_seconds, usable_processors
from app.llama.loading import devices_of
from app.llama.params import PairParams
from app.llama.stored_measurements import cpu_model


class CpuThreads:
    """Sets the CPU threads of a pair, and uses fewer while other programs need the CPU.

    Args:
        apply: Sets the threads.
    """

    def __init__(self, params: PairParams, apply: Callable[[Threads], None]) -> None:
        self._apply = apply
        self._follow(params)

    def use(self, params: PairParams) -> None:
        """Use the threads of these parameters."""
        self._follow(params)
        self._apply(params.threads)

    def _follow(self, params: PairParams) -> None:
        self._params = params
        self._cpu_yield: CpuYield | None = None
        if self.uses_cpu:
            most, n_cpus = max(params.threads.generation, params.threads.prompt), len(usable_processors())
            least = 1 if params.yields_cpu else most
            self._cpu_yield = CpuYield(self._compute_with, most, n_cpus, others_seconds, time.monotonic, least=least)

    def _compute_with(self, most: int) -> None:
        threads = self._params.threads
        self._apply(Threads(min(threads.generation, most), min(threads.prompt, most)))

    @property
    def uses_cpu(self) -> bool:
        """Return whether the CPU computes layers of either model."""
        return cpu_model(self._params) is not None

    @property
    def in_use(self) -> int:
        """Return the current threads for single tokens; 0 if the CPU computes no layers."""
        return min(self._params.threads.generation, self._cpu_yield.n_threads) if self._cpu_yield is not None else 0

    def yield_cpu(self) -> None:
        """Use fewer threads while other programs need the CPU; called before an answer and in every step."""
        if self._cpu_yield is not None:
            self._cpu_yield.update()

    def work_clock(self, wall: Clock, cpu: Clock) -> Clock:
        """Return a clock for the time that steps would take without other programs, from wall and CPU time."""
        models = [self._params.model, *[self._params.draft_model] * (self._params.draft is not None)]
        # While a GPU computes, CPU time says nothing about the time of a batch.
        if self._cpu_yield is None or any(map(devices_of, models)):
            return wall
        return WorkClock(wall, cpu, self._params.threads.generation, self._cpu_yield.is_contended)
