"""State behind the side panel and the status line, and their base class: current activity, speed and drafting."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from textual.content import Content
from textual.geometry import Region
from textual.selection import Selection
from textual.strip import Strip

from app.engine.events import PromptProgress, Step
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.session.state import DraftState
from app.ui.text import NONE, sparkline, tokens
from app.ui.widgets.row_canvas import RowCanvas, draw_soon
from app.worker.events import FrequentEvent, LoadProgress, Measuring

_WINDOW_NS = 2_000_000_000
_WINDOW_STEPS = 16
"""Steps of a rate. A step yields one token or ten, so a rate over fewer steps is noise."""
_BAR_NS = 500_000_000
_BAR_STEPS = 4
_BAR_COUNT = 24


class RecentRates:
    """Rates over the last seconds of generation time, independent of the screen's refresh."""

    def __init__(self) -> None:
        # The prompt yields the first token; its time does not count.
        first = GenerationStats(predicted_n=1)
        self._seen: deque[GenerationStats] = deque([first])
        self._bar_from = first
        self.rates: deque[float] = deque(maxlen=_BAR_COUNT)
        """Tokens per second of successive intervals, oldest first."""

    def observe(self, stats: GenerationStats) -> None:
        """Add the counters after a step."""
        if stats.predicted_ns <= self._seen[-1].predicted_ns:
            return
        self._seen.append(stats)
        while len(self._seen) > 2 and _spans(self._seen[1], stats, _WINDOW_NS, _WINDOW_STEPS):
            self._seen.popleft()
        if _spans(self._bar_from, stats, _BAR_NS, _BAR_STEPS):
            self.rates.append(_rate(self._bar_from, stats))
            self._bar_from = stats

    def bars(self, most: int) -> str:
        """Return a sparkline of at most `most` cells, once there are two bars."""
        return sparkline(list(self.rates)[-most:]) if len(self.rates) > 1 and most > 0 else ""

    @property
    def speed(self) -> float | None:
        """Return tokens per second, once there are enough steps."""
        since, now = self._seen[0], self._seen[-1]
        return _rate(since, now) if _spans(since, now, _BAR_NS, _BAR_STEPS) else None

    @property
    def acceptance(self) -> float | None:
        """Return accepted over drafted tokens, if any were drafted."""
        since, now = self._seen[0], self._seen[-1]
        drafted = now.draft_n - since.draft_n
        return (now.draft_n_accepted - since.draft_n_accepted) / drafted if drafted else None


def _spans(since: GenerationStats, now: GenerationStats, least_ns: int, least_steps: int) -> bool:
    long = now.predicted_ns - since.predicted_ns >= least_ns
    return long and now.verify_steps - since.verify_steps >= least_steps


def _rate(since: GenerationStats, now: GenerationStats) -> float:
    return (now.predicted_n - since.predicted_n) * 1e9 / (now.predicted_ns - since.predicted_ns)


SHORT_WAIT_S = 1.0
"""Shorter waits are not shown."""
_READING_TEXT, _QUEUED_TEXT = "reading prompt", "waiting: the server answers a request"
REDRAW_S = 0.5
"""Interval between updates of a running answer."""


class Readouts:
    """Live numbers of the running answer, which stay after its end.

    Attributes:
        doing: Current activity; None during and after an answer.
        long_activity: `doing`, if it delays an answer for more than a moment.
        stats: Counters of the answer, if there are any.
        n_ctx: Context in tokens; 0 without a model.
        unmeasured: Whether the running answer has no counters yet; then the numbers are the last answer's.
        tools: How many tools the model may call, as text.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._drawn = 0.0
        self._dirty = self._is_measuring = False
        self._watchers: list[Callable[[], object]] = []
        self.doing: str | None = None
        self.long_activity: str | None = None
        self.share: float | None = None
        self.stats: GenerationStats | None = None
        self._before = GenerationStats()
        self.drafting: DraftingStatus | None = None
        self.next_draft = DraftState(is_on=False, is_available=False, mode="")
        self.n_ctx = 0
        self.used: int | None = 0
        self.live = False
        self.unmeasured = False
        self.recent = RecentRates()
        self.tools = ""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed` after every change."""
        self._watchers.append(changed)

    @property
    def seconds(self) -> float:
        """Seconds since the answer was requested."""
        return self._clock() - self._began

    @property
    def numbers(self) -> GenerationStats | None:
        """Return the numbers of the answer, if there are any."""
        return self.stats.after(self._before) if self.stats is not None else None

    @property
    def used_tokens(self) -> str:
        """Return the used tokens of the context as text."""
        return NONE if self.used is None else tokens(self.used)

    # The models

    def reading_models(self) -> None:
        """Show that models are loading."""
        self._forget()
        self.rest("loading")

    def ready(self, n_ctx: int, used: int | None = 0) -> None:
        """Show that a prompt can be sent, and the used tokens of the context, if known."""
        self.n_ctx = n_ctx
        self._forget()
        self.used = used
        self.rest("ready")

    def holds(self, n_ctx: int) -> None:
        """Set the context length; keep the numbers."""
        self.n_ctx = n_ctx
        self._changed()

    def unloaded(self) -> None:
        """Show that no model is loaded."""
        self.n_ctx = 0
        self.rest("no model loaded")

    def will_draft(self, drafting: DraftState) -> None:
        """Set the drafting of the next answer."""
        if drafting != self.next_draft:
            self.next_draft = drafting
            self._changed()

    def offer(self, tools: str) -> None:
        """Set how many tools the model may call."""
        if tools != self.tools:
            self.tools = tools
            self._changed()

    # The answer

    def begin(self, before: GenerationStats | None = None) -> None:
        """Show that an answer was requested; `before` has the numbers of the answer that it continues."""
        self._before = before or GenerationStats()
        self._began = self._clock()
        self.recent = RecentRates()
        self.unmeasured = True
        self.rest(_READING_TEXT)

    def queue(self) -> None:
        """Show that another program's request is answered first, if that takes long."""
        if self.doing == _READING_TEXT and self.seconds >= SHORT_WAIT_S:
            self.do(_QUEUED_TEXT, is_long=True)

    def follow(self, event: FrequentEvent) -> None:
        """Follow the latest of the frequent events."""
        has_waited = self.seconds >= SHORT_WAIT_S
        match event:
            case LoadProgress(share=share):
                self.do(f"loading models {share:.0%}", share)
            case PromptProgress(left_s=left_s):
                if has_waited or self.long_activity or (left_s or 0.0) >= SHORT_WAIT_S:
                    self.do(event.line(), event.done / event.total if event.total else None, is_long=True)
            case Measuring(share=share):
                self.do(event.line(), share)
                self._is_measuring = True
            case Step(stats=stats, drafting=drafting):
                self.measured(stats, drafting, live=True)

    def end_measuring(self) -> None:
        """Show the last numbers again, unless something else is already shown."""
        if self._is_measuring:
            self.rest(None if self.stats is not None else "ready")

    def measured(self, stats: GenerationStats, drafting: DraftingStatus | None, *, live: bool) -> None:
        """Show the counters after a step; `live` while the answer continues."""
        self.recent.observe(stats)
        self.stats, self.drafting, self.live, self.unmeasured = stats, drafting, live, False
        used = stats.cache_n + stats.prompt_n + stats.predicted_n
        # In a full context the last token has no place.
        self.used = min(used, self.n_ctx) if self.n_ctx else used
        self._dirty = live and not self.doing
        self.doing = self.share = self.long_activity = None
        if self._dirty:
            self.catch_up()
        else:
            self._changed()

    def catch_up(self) -> None:
        """Show changes that have waited long enough."""
        if self._dirty and self._clock() - self._drawn >= REDRAW_S:
            self._changed()

    def _forget(self) -> None:
        self.stats, self.drafting, self.used = None, None, 0
        self.unmeasured = False
        self.recent = RecentRates()

    def rest(self, doing: str | None) -> None:
        """Show an activity outside an answer; keep the numbers."""
        self.live = False
        self.do(doing)

    def do(self, doing: str | None, share: float | None = None, *, is_long: bool = False) -> None:
        """Show an activity, and its progress if known; `is_long` if it delays an answer."""
        self._is_measuring = False
        self.doing, self.share, self.long_activity = doing, share, doing if is_long else None
        self._changed()

    def _changed(self) -> None:
        self._drawn, self._dirty = self._clock(), False
        for changed in self._watchers:
            changed()


class ReadoutView(RowCanvas):
    """Lines about the readouts; only changed lines are drawn."""

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts
        self.shown: Sequence[Content] = ()
        """The drawn lines."""

    def on_mount(self) -> None:
        self._readouts.watch(self.readouts_changed)

    def on_resize(self) -> None:
        self.show()

    def readouts_changed(self) -> None:
        """Draw again after a change of the readouts."""
        self.show()

    def show(self) -> None:
        """Draw the changed lines."""
        before, self.shown = self.shown, self.lines(*self.size) if self.size else ()
        for y, (old, new) in enumerate(zip_longest(before, self.shown)):
            if old is None or new is None or not old.is_same(new):
                draw_soon(self, Region(0, y, self.outer_size.width, 1))

    def strips(self, first: int, end: int) -> Iterator[Strip]:
        for y, line in enumerate(self.shown[first:end], first):
            segments = self.segments([(0, line)], y)
            yield Strip(segments) if self.styles.gutter else self.finished(segments, self.size.width)
        for _ in range(max(first, len(self.shown)), end):
            yield Strip.blank(self.size.width, self.visual_style.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text."""
        return selection.extract("\n".join(line.plain for line in self.shown)), "\n"

    def lines(self, width: int, height: int) -> Sequence[Content]:
        """Return the lines for a widget of this size, in cells."""
        raise NotImplementedError
