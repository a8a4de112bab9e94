"""Track the text that the draft model has not read, and decide when to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.auto.pair_statistics import PairStatistics
from app.engine.cache import common_prefix
from app.engine.draft_source import DraftSource
from app.engine.interfaces import AnswerStart, Cancelled, Clock, StepResult

_USUAL_ANSWER = 256
"""Expected length of an answer in tokens; a longer answer is expected to double."""
_READING_SHARE = 0.47
"""Reading may take this share of the time that drafts are likely to save."""
_SAME_TEXT = 0.75
"""A prompt that shares at least this much with the previous prompt continues the same conversation or document."""
_ALWAYS_READ_TOKENS = 2.0
"""Text is always read if that takes at most this many single tokens."""
_CHUNK_STEPS = 4.0
"""Time to read one piece of text during an answer, in single tokens."""
_SMALLEST_CHUNK = 32


class Backlog:
    """The draft model's unread text in one answer.

    Attributes:
        unread: Tokens of a long text that is read in pieces; 0 if drafting can begin immediately.
    """

    def __init__(self, statistics: PairStatistics, drafter: DraftSource | None, clock: Clock) -> None:
        self._statistics = statistics
        self._drafter = drafter
        self._clock = clock
        self.unread = 0
        self._n_tokens = 0
        self._max_tokens = self._n_past = 0
        self._n_missed = 0
        self._gain = 0.0

    def begin(self, start: AnswerStart) -> None:
        """Count the unread tokens of a prompt."""
        if self._drafter is None:
            return
        sequence = start.sequence
        statistics = self._statistics
        # Estimating the gain takes longer than the rest of a step.
        self._max_tokens, self._n_past, self._gain = start.max_tokens, len(sequence) - 1, statistics.likely_gain
        self.unread = self._drafter.unread(sequence)
        if common_prefix(statistics.last_prompt, sequence) < _SAME_TEXT * len(sequence):
            statistics.n_undrafted = 0
        statistics.last_prompt = sequence[:-1]

    @property
    def is_worth_reading(self) -> bool:
        """Return whether drafts are likely to save more than reading costs, or reading costs almost nothing."""
        remaining = min(self._max_tokens - self._n_tokens, max(_USUAL_ANSWER, self._n_tokens))
        # Documents usually get several questions: expect as many tokens as were answered without drafts so far.
        likely = _READING_SHARE * self._gain * max(remaining, self._statistics.n_undrafted)
        return self.unread / self._tokens_per_step(self._n_past) <= max(_ALWAYS_READ_TOKENS, likely)

    def read_all(self, sequence: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read the prompt before the answer continues; yield the tokens read after each chunk."""
        if self._drafter is not None:
            unread, self.unread = self.unread, 0
            self._statistics.n_undrafted = 0
            started = self._clock()
            yield from self._drafter.begin(sequence, cancelled)
            self._statistics.costs.observe_reading(unread, self._clock() - started)

    def read_piece(self, sequence: Sequence[int]) -> None:
        """Read a piece of the text between two steps of the answer."""
        if self._drafter is not None:
            piece = max(_SMALLEST_CHUNK, round(_CHUNK_STEPS * self._tokens_per_step(len(sequence) - 1)))
            unread = self._drafter.unread(sequence)
            started = self._clock()
            self._drafter.read(sequence, piece)
            spent = self._clock() - started
            # Draft layers read everything at once, together with the target.
            self.unread = self._drafter.unread(sequence)
            self._statistics.costs.observe_reading(unread - self.unread, spent)
            if not self.unread:
                self._statistics.n_undrafted = 0
            self._n_missed = 0

    def catch_up(self, sequence: Sequence[int]) -> None:
        """Read the last missing tokens before a draft."""
        if self._drafter is not None:
            started = self._clock()
            self._drafter.catch_up(sequence)
            self._statistics.costs.observe_reading(self._n_missed, self._clock() - started)
            self._n_missed = 0

    def observe(self, result: StepResult, *, used_model: bool) -> None:
        """Count the tokens of a step; the draft model must read them later if it was not used."""
        n = len(result.tokens)
        self._n_tokens += n
        self._n_past = result.n_past + n
        if used_model or self._drafter is None or self._drafter.follows:
            return
        if self.unread:
            self._statistics.n_undrafted += n
        self._n_missed += n
        if (
            self._n_missed > max(_SMALLEST_CHUNK, _ALWAYS_READ_TOKENS * self._tokens_per_step(self._n_past))
            and not self.unread
        ):
            self.unread, self._n_missed = self._n_missed, 0

    def _tokens_per_step(self, n_past: int) -> float:
        costs = self._statistics.costs
        return costs.target_ns(1, n_past) / max(costs.scale * costs.profile.draft_prompt_ns, 1.0)
