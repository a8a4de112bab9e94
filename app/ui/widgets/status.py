"""The line that says what is going on, and how fast."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import monotonic

from textual.content import Content
from textual.widget import Widget

from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.events import LoadProgress, Measuring, PromptProgressed, StepCompleted
from app.ui.bridge import Paced
from app.ui.text import percent, sparkline, tokens

_BARS = 8
_GAP = "  "
_SHORTEST_S = 0.1
"""A rate over less time says more about when the events were fetched than about the models."""

_SOURCE_STYLES = ("$draft", "$quiet")
"""While drafting, and while not."""


class StatusLine(Widget):
    """Live numbers of the running answer; they stay when it has ended. Only what was measured is shown."""

    def __init__(self) -> None:
        super().__init__()
        self._doing = ""
        self._stats: GenerationStats | None = None
        self._drafting: DraftingStatus | None = None
        self._source = Content("")
        self._n_ctx = 0
        self._used = 0
        self._rates: deque[float] = deque(maxlen=_BARS)
        self.counted = 0
        """Tokens of the answer when the last bar was drawn."""
        self._counted_at = 0.0

    def follow(self, event: Paced) -> None:
        """Show the latest of what comes many times a second."""
        match event:
            case LoadProgress():
                self.reading_models(event)
            case PromptProgressed():
                self.reading(event)
            case Measuring(share=share):
                self.measuring(share)
            case StepCompleted(stats=stats, drafting=drafting):
                self.measured(stats, drafting, live=True)

    def reading_models(self, progress: LoadProgress | None = None) -> None:
        """The models are being loaded."""
        self._do(f"loading {progress.what} {percent(progress.share)}" if progress else "loading")

    def ready(self, n_ctx: int) -> None:
        """The models are loaded, or the conversation begins anew."""
        self._n_ctx, self._used = n_ctx, 0
        self._do("ready")

    def unloaded(self) -> None:
        """There are no models."""
        self._n_ctx = 0
        self._do("no model loaded")

    def source(self, name: str, *, drafting: bool) -> None:
        """Where the next answer's drafts come from."""
        self._source = Content.styled(name, _SOURCE_STYLES[not drafting])
        self.refresh()

    def begin(self) -> None:
        """An answer was asked for."""
        self._rates.clear()
        self.counted, self._counted_at = 0, 0.0
        self._do("reading prompt")

    def measuring(self, share: float) -> None:
        """Automatic drafting learns what the pair costs, before its first answer."""
        self._do(f"measuring this pair, once {percent(share)}")

    def reading(self, progress: PromptProgressed) -> None:
        """The prompt is being evaluated."""
        reader = ", draft" if progress.drafting else ""
        self._do(f"reading prompt {progress.done:,} / {progress.total:,}{reader}")

    def stopping(self) -> None:
        """A stop was asked for."""
        self._do("stopping")

    def measured(self, stats: GenerationStats, drafting: DraftingStatus | None, *, live: bool) -> None:
        """Show the counters of an answer.

        Args:
            stats: The counters after the last round.
            drafting: What automatic drafting makes of it; None without.
            live: Whether the answer goes on; the sparkline grows only then.
        """
        if live:
            self._observe(stats.predicted_n)
        self._stats, self._drafting = stats, drafting
        self._used = stats.cache_n + stats.prompt_n + stats.predicted_n
        self._do("")

    def render(self) -> Content:
        # What can be spared goes first where the line is short.
        for bars, rounds in ((_BARS, True), (_BARS // 2, True), (0, True), (0, False)):
            line = Content(_GAP).join(self._parts(bars, rounds=rounds))
            if line.cell_length <= self.size.width:
                break
        return line

    def _parts(self, bars: int, *, rounds: bool) -> Iterator[Content]:
        if self._doing:
            yield Content.styled(self._doing, "$quiet")
        elif self._stats is not None:
            yield from self._numbers(self._stats, bars, rounds=rounds)
        if self._drafting is not None and not self._doing:
            source = self._drafting.source
            yield Content.styled("drafting off" if source == "off" else source, _SOURCE_STYLES[source == "off"])
        elif self._source:
            yield self._source
        if self._n_ctx:
            yield Content.styled(f"ctx {tokens(self._used)}/{tokens(self._n_ctx)}", "$quiet")

    def _numbers(self, stats: GenerationStats, bars: int, *, rounds: bool) -> Iterator[Content]:
        speed = Content(f"{stats.predicted_per_second:.1f} t/s")
        line = sparkline(list(self._rates)[-bars:]) if bars else ""
        yield Content.assemble(speed, (f" {line}", "$quiet")) if line else speed
        if self._drafting is not None and self._drafting.speedup is not None:
            yield Content(f"{self._drafting.speedup:.1f}x {self._drafting.verdict}".rstrip())
        if stats.acceptance_rate is not None:
            yield Content.styled(f"accepted {percent(stats.acceptance_rate)}", "$draft")
        if rounds and stats.mean_accepted_length is not None and stats.draft_n:
            yield Content(f"{stats.mean_accepted_length:.1f} per check")

    def _observe(self, predicted_n: int) -> None:
        """Add the rate since the last look."""
        elapsed = (now := monotonic()) - self._counted_at
        if elapsed < _SHORTEST_S:
            return
        if self._counted_at:
            self._rates.append((predicted_n - self.counted) / elapsed)
        self.counted, self._counted_at = predicted_n, now

    def _do(self, doing: str) -> None:
        self._doing = doing
        self.refresh()
