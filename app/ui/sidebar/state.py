"""What is going on and how fast: the one state behind the status line and the readout panel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from app.engine.stats import GenerationStats
from app.engine.types import SWITCHED_OFF, DraftingStatus
from app.ui.listening.bridge import Paced
from app.ui.sidebar.numbers import Numbers, of_counters
from app.ui.sidebar.recent import Recent
from app.ui.sidebar.steady import Steady
from app.ui.text import percent, tokens
from app.worker.events import LoadProgress, Measuring, PromptProgress, Step

_SWITCHED_OFF = f"off: {SWITCHED_OFF}"
_UNKNOWN = "\N{EN DASH}"
_UNSAID_S = 1.0
"""A look that every pair gets now and then is worth a word only where the user is kept waiting for it."""
TOLD_S = 0.5
"""Between two looks at the numbers of a running answer: nobody reads them faster, and drawing them costs."""


class Readouts:
    """Live numbers of the running answer; they stay when it has ended. Only what was measured is here.

    Attributes:
        doing: What is going on; "" while an answer is written, or was.
        share: How far that is, where it is known.
        stats: The counters of the answer; None before the first.
        drafting: What drafting makes of it, slow enough to be read while it changes; None without.
        source_name: Where the next answer's drafts come from.
        is_drafting: Whether there will be any.
        n_max: Most tokens of a draft where that is fixed, else 0.
        n_ctx: Context in tokens; 0 without a model.
        used: Tokens of it that are taken; None where something was said of which nobody has counted them.
        live: Whether an answer is being written; also while its draft reads the prompt, or a stop is on its way.
        unmeasured: Whether an answer was asked for that has no counters yet; these are the last one's.
        recent: Its last rounds.
        reading_line: Progress of reading the prompt; "" if none is read, or only briefly.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told, self._waits = 0.0, False
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
        self.recent = Recent()
        self._steady = Steady()
        self._drafted = False
        """Whether the answer was drafted at some time."""
        self._switched_off = False
        self._measured_with = ("", False, 0)
        """Where drafts came from when the counters were taken."""
        self._began = 0.0
        self._reading: PromptProgress | None = None
        self._read_at = self._reading_began = 0.0
        self.reading_line = ""
        self._watchers: list[Callable[[], object]] = []

    def watch(self, changed: Callable[[], object]) -> None:
        """Call something whenever there is something else to show."""
        self._watchers.append(changed)

    @property
    def numbers(self) -> Numbers | None:
        """The numbers of the answer; None before the first."""
        if self.stats is None:
            return None
        numbers = of_counters(self.stats, self.drafting)
        if not self.live and self._measured_with != self._source:
            return replace(numbers, reason=self._from_now_on)
        return replace(numbers, reason=_SWITCHED_OFF) if self._switched_off else numbers

    @property
    def used_tokens(self) -> str:
        """How much of the context is taken, in a word."""
        return _UNKNOWN if self.used is None else tokens(self.used)

    @property
    def _source(self) -> tuple[str, bool, int]:
        return self.source_name, self.is_drafting, self.n_max

    @property
    def _from_now_on(self) -> str:
        """Change of the draft source since the answer, briefly."""
        off = self._measured_with[1] and not self.is_drafting
        return _SWITCHED_OFF if off else f"{self.source_name} from next answer"

    def follow(self, event: Paced) -> None:
        """Take the latest of what comes many times a second."""
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
        """The models are being loaded."""
        if progress is None:
            self._forget()
            self._rest("loading")
        else:
            self._do(f"loading models {percent(progress.share)}", progress.share)

    def ready(self, n_ctx: int, *, is_empty: bool = True) -> None:
        """The models are loaded, or the conversation begins anew or goes on from another place.

        Args:
            n_ctx: Context in tokens.
            is_empty: Whether nothing was said until there.
        """
        self.n_ctx = n_ctx
        self._forget()
        self.used = 0 if is_empty else None
        self._rest("ready")

    def holds(self, n_ctx: int) -> None:
        """The models that answer have a context of so many tokens now; the numbers stay."""
        self.n_ctx = n_ctx
        self._tell()

    def in_vain(self) -> None:
        """Nothing came of what was asked, or no more; the numbers stay those of the tokens that there were."""
        self._rest("ready")

    def unloaded(self) -> None:
        """There are no models."""
        self.n_ctx = 0
        self._rest("no model loaded")

    def source(self, name: str, *, drafting: bool, n_max: int = 0) -> None:
        """Where the next answer's drafts come from, and how long they may be if that is fixed."""
        self.source_name, self.is_drafting, self.n_max = name, drafting, n_max
        if self.live:
            self._switched_off = self._drafted and not drafting
        self._tell()

    def begin(self) -> None:
        """An answer was asked for."""
        self._began = self._clock()
        self.recent.begin()
        self._steady.begin()
        self._drafted = self._switched_off = False
        self.unmeasured = True
        self._rest("reading prompt")

    def measuring(self, progress: Measuring) -> None:
        """Automatic drafting learns what the pair costs, before an answer."""
        if self.keeps_waiting(progress):
            self._do(f"{progress.what}: {percent(progress.share)}", None if progress.again else progress.share)

    def keeps_waiting(self, progress: Measuring) -> bool:
        """Whether measuring is worth a word: a second look mostly ends before anybody could read one."""
        return not progress.again or self._clock() - self._began >= _UNSAID_S

    def reading(self, progress: PromptProgress) -> None:
        """The prompt is being evaluated: by the target before the answer, by its draft when that has begun."""
        now, before = self._clock(), self._reading
        if before is None or before.drafting is not progress.drafting:
            self._reading_began, self.reading_line = now, ""
        self._reading, self._read_at = progress, now
        self._count_down()

    def _count_down(self) -> None:
        """Update the progress and the time left of reading the prompt; show nothing for a short one."""
        progress, now = self._reading, self._clock()
        if progress is None:
            return
        is_long = progress.left_s is not None and progress.left_s >= _UNSAID_S
        if is_long or self.reading_line or now - self._reading_began >= _UNSAID_S:
            line = progress.line(now - self._read_at)
            if line != self.reading_line:
                share = progress.done / progress.total if progress.total else None
                self._do(line, share)
                self._reading, self.reading_line = progress, line

    def stopping(self) -> None:
        """A stop was asked for."""
        self._do("stopping")

    def measured(self, stats: GenerationStats, drafting: DraftingStatus | None, *, live: bool) -> None:
        """Take the counters of an answer.

        Args:
            stats: The counters after the last round.
            drafting: What drafting makes of it; None without.
            live: Whether the answer goes on.
        """
        self.recent.observe(stats)
        steady = self._steady.take(drafting, stats.predicted_ns) if live else drafting
        self.stats, self.drafting, self.live, self._measured_with = stats, steady, live, self._source
        self.unmeasured = False
        self._drafted = self._drafted or drafting is not None or stats.draft_n > 0
        if drafting is None or self._switched_off:
            self._switched_off = self._drafted and not self.is_drafting
        used = stats.cache_n + stats.prompt_n + stats.predicted_n
        # Where the context is full, the last token was chosen but has no place in it.
        self.used = min(used, self.n_ctx) if self.n_ctx else used
        self._waits = live and not self.doing
        self.doing, self.share = "", None
        self._reading, self.reading_line = None, ""
        if self._waits:
            self.catch_up()
        else:
            self._tell()

    def catch_up(self) -> None:
        """Show what has waited long enough."""
        self._count_down()
        if self._waits and self._clock() - self._told >= TOLD_S:
            self._tell()

    def _forget(self) -> None:
        """The last answer is another pair's, or no longer the last."""
        self.stats, self.drafting, self.used = None, None, 0
        self._drafted = self._switched_off = self.unmeasured = False
        self.recent.begin()

    def _rest(self, doing: str) -> None:
        """No answer is being written."""
        self.live = False
        self._do(doing)

    def _do(self, doing: str, share: float | None = None) -> None:
        self.doing, self.share = doing, share
        self._reading, self.reading_line = None, ""
        self._tell()

    def _tell(self) -> None:
        self._told, self._waits = self._clock(), False
        for changed in self._watchers:
            changed()
