"""State behind the side panel and the status line: current activity, speed and drafting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.ui.event_queue import FrequentEvent
from app.ui.sidebar.numbers import Numbers, of_counters
from app.ui.sidebar.recent_rates import RecentRates
from app.ui.text import percent, tokens
from app.worker.events import LoadProgress, Measuring, PromptProgress, Step

SHORT_WAIT_S = 1.0
"""Shorter waits are not shown."""
REDRAW_S = 0.5
"""Interval between updates of a running answer."""
_HOLD_NS = 1_000_000_000
"""Generation time for which a draft source and its reason stay readable."""


class Readouts:
    """Live numbers of the running answer; they stay when it has ended.

    Attributes:
        doing: Current activity; "" while an answer is written and after it.
        share: Progress of that activity, if known.
        stats: Counters of the answer; None before the first.
        drafting: Status of its drafting; None without.
        source_name: Draft source of the next answer.
        is_drafting: Whether the next answer is drafted.
        n_max: Fixed draft length, or 0.
        n_ctx: Context in tokens; 0 without a model.
        used: Used tokens of the context; None if unknown.
        live: Whether an answer is being written.
        unmeasured: Whether the running answer has no counters yet; the numbers are the last answer's.
        recent: Rates of its last steps.
        reading_line: Progress of a long prompt; "" for a short one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._drawn, self._dirty = 0.0, False
        self.doing = ""
        self.share: float | None = None
        self.stats: GenerationStats | None = None
        self.drafting: DraftingStatus | None = None
        self.source_name = ""
        self.is_drafting = False
        self.n_max = 0
        self.n_ctx = 0
        self.used: int | None = 0
        self.live = False
        self.unmeasured = False
        self.recent = RecentRates()
        self._source_since_ns = 0
        self._began = 0.0
        self._reading: PromptProgress | None = None
        self._read_at = self._reading_began = 0.0
        self.reading_line = ""
        self._watchers: list[Callable[[], object]] = []

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` after every change."""
        self._watchers.append(changed)

    @property
    def numbers(self) -> Numbers | None:
        """Numbers of the answer; None before the first."""
        return of_counters(self.stats, self.drafting) if self.stats is not None else None

    @property
    def used_tokens(self) -> str:
        """Used tokens of the context, as text."""
        return "\N{EN DASH}" if self.used is None else tokens(self.used)

    def follow(self, event: FrequentEvent) -> None:
        """Take the latest of the frequent events."""
        match event:
            case LoadProgress():
                self.reading_models(event)
            case PromptProgress():
                self.reading(event)
            case Measuring():
                self.measuring(event)
            case Step(stats=stats, drafting=drafting):
                self.measured(stats, drafting, live=True)

    def reading_models(self, progress: LoadProgress | None = None) -> None:
        """Show that models are loading."""
        if progress is None:
            self._forget()
            self._rest("loading")
        else:
            self._do(f"loading models {percent(progress.share)}", progress.share)

    def ready(self, n_ctx: int, *, is_empty: bool = True) -> None:
        """Show that a prompt can be sent, in a new conversation if `is_empty`."""
        self.n_ctx = n_ctx
        self._forget()
        self.used = 0 if is_empty else None
        self._rest("ready")

    def holds(self, n_ctx: int) -> None:
        """Set the context length; the numbers stay."""
        self.n_ctx = n_ctx
        self._changed()

    def in_vain(self) -> None:
        """Show that the answer failed or stopped; the numbers stay."""
        self._rest("ready")

    def unloaded(self) -> None:
        """Show that no model is loaded."""
        self.n_ctx = 0
        self._rest("no model loaded")

    def source(self, name: str, *, drafting: bool, n_max: int = 0) -> None:
        """Set the draft source of the next answer, and the draft length if it is fixed."""
        self.source_name, self.is_drafting, self.n_max = name, drafting, n_max
        self._changed()

    def begin(self) -> None:
        """Show that an answer was requested."""
        self._began = self._clock()
        self.recent.reset()
        self._source_since_ns = 0
        self.unmeasured = True
        self._rest("reading prompt")

    def measuring(self, progress: Measuring) -> None:
        """Show the benchmark of a pair before an answer."""
        if self.keeps_waiting(progress):
            self._do(f"{progress.what}: {percent(progress.share)}", None if progress.again else progress.share)

    def keeps_waiting(self, progress: Measuring) -> bool:
        """Return whether a benchmark takes long enough to be shown."""
        return not progress.again or self._clock() - self._began >= SHORT_WAIT_S

    def reading(self, progress: PromptProgress) -> None:
        """Show how much of the prompt the target, or then the draft model, has read."""
        now, before = self._clock(), self._reading
        if before is None or before.drafting is not progress.drafting:
            self._reading_began, self.reading_line = now, ""
        self._reading, self._read_at = progress, now
        self._count_down()

    def _count_down(self) -> None:
        progress, now = self._reading, self._clock()
        if progress is None:
            return
        is_long = progress.left_s is not None and progress.left_s >= SHORT_WAIT_S
        if is_long or self.reading_line or now - self._reading_began >= SHORT_WAIT_S:
            line = progress.line(now - self._read_at)
            if line != self.reading_line:
                self._do(line, progress.done / progress.total if progress.total else None)
                self._reading, self.reading_line = progress, line

    def stopping(self) -> None:
        """Show that a stop was requested."""
        self._do("stopping")

    def measured(self, stats: GenerationStats, drafting: DraftingStatus | None, *, live: bool) -> None:
        """Take the counters after a step; `live` while the answer goes on."""
        self.recent.observe(stats)
        self.stats, self.live = stats, live
        self.drafting = self._held(drafting, stats.predicted_ns) if live else drafting
        self.unmeasured = False
        used = stats.cache_n + stats.prompt_n + stats.predicted_n
        # In a full context the last token has no place.
        self.used = min(used, self.n_ctx) if self.n_ctx else used
        self._dirty = live and not self.doing
        self.doing, self.share = "", None
        self._reading, self.reading_line = None, ""
        if self._dirty:
            self.catch_up()
        else:
            self._changed()

    def catch_up(self) -> None:
        """Show changes that have waited long enough."""
        self._count_down()
        if self._dirty and self._clock() - self._drawn >= REDRAW_S:
            self._changed()

    def _held(self, status: DraftingStatus | None, now_ns: int) -> DraftingStatus | None:
        """Return the status with a source and a reason that stay for a second."""
        shown = self.drafting
        if status is not None and shown is not None and 0 < self._source_since_ns < now_ns:
            if now_ns < self._source_since_ns + _HOLD_NS:
                return replace(status, source=shown.source, reason=shown.reason)
            if (status.source, status.reason) == (shown.source, shown.reason):
                return status
        self._source_since_ns = now_ns
        return status

    def _forget(self) -> None:
        self.stats, self.drafting, self.used = None, None, 0
        self.unmeasured = False
        self.recent.reset()

    def _rest(self, doing: str) -> None:
        self.live = False
        self._do(doing)

    def _do(self, doing: str, share: float | None = None) -> None:
        self.doing, self.share = doing, share
        self._reading, self.reading_line = None, ""
        self._changed()

    def _changed(self) -> None:
        self._drawn, self._dirty = self._clock(), False
        for changed in self._watchers:
            changed()
