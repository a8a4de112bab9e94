"""The clocks of an answer: its steps by the wall clock and by the work clock, their drafts, and native calls."""

from __future__ import annotations

from collections.abc import Callable

from app.engine.interfaces import Clock
from app.engine.stats import GenerationStats


class StepTimer:
    """Times the steps of an answer; time between `pause` and `resume` belongs to no step.

    Args:
        work_clock: Clock that leaves out the time of other programs.
        native_ns: Returns the nanoseconds inside native calls so far.

    Attributes:
        work_ns: Nanoseconds of the last step by the work clock.
        draft_work_ns: Part of `work_ns` spent on its draft.
    """

    def __init__(self, clock: Clock, work_clock: Clock, native_ns: Callable[[], int]) -> None:
        self._clock, self._work_clock, self._native_ns = clock, work_clock, native_ns
        self._answer_began, self._native_began = clock(), native_ns()
        self._step_began, self._work_began = self._answer_began, work_clock()
        self._paused = (0, 0, 0)
        self._draft_began = (0, 0)
        self._draft_ns = 0
        self.wall_ns = self.work_ns = self.draft_work_ns = 0

    def pause(self) -> None:
        self._paused = self._clock(), self._work_clock(), self._native_ns()

    def resume(self, left_out_ns: int | None = None) -> None:
        """Continue; the answer leaves out the pause, or only `left_out_ns` of it."""
        wall_ns, work_ns, native_ns = self._paused
        paused_ns = self._clock() - wall_ns
        self._answer_began += paused_ns if left_out_ns is None else left_out_ns
        self._step_began += paused_ns
        self._work_began += self._work_clock() - work_ns
        self._native_began += self._native_ns() - native_ns

    def begin_draft(self) -> None:
        self._draft_began = self._clock(), self._work_clock()

    def end_draft(self) -> None:
        wall_ns, work_ns = self._draft_began
        self._draft_ns, self.draft_work_ns = self._clock() - wall_ns, self._work_clock() - work_ns

    def end_step(self) -> None:
        """Set the times of the step and begin the next one."""
        now, worked = self._clock(), self._work_clock()
        self.wall_ns, self._step_began = now - self._step_began, now
        self.work_ns, self._work_began = worked - self._work_began, worked

    @property
    def stretch(self) -> float:
        """Return the wall time of the step over its time by the work clock."""
        return self.wall_ns / max(self.work_ns, 1)

    def count(self, stats: GenerationStats) -> None:
        """Write the times of the answer into its counters, once per step."""
        stats.draft_ns += self._draft_ns
        stats.predicted_ns = self._clock() - self._answer_began
        stats.native_ns = self._native_ns() - self._native_began
