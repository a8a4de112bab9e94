"""Text that the draft model has not read, and when reading it is worth the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.auto.pair_statistics import PairStatistics
from app.engine.cache import common_prefix
from app.engine.interfaces import AnswerStart, Cancelled, Clock, ModelDrafting
from app.engine.types import StepResult

_USUAL_ANSWER = 256
"""Expected tokens of an answer; a longer one is expected to go on for as many again."""
_STAKE = 0.47
"""Share of the time that drafts are likely to save which reading may take."""
_SAME_TEXT = 0.75
"""Share of a prompt that it has in common with the one before if it continues the same conversation or document."""
_LITTLE = 2.0
"""Single tokens' time of text that is always read."""
_CHUNK_STEPS = 4.0
"""Single tokens' time of one piece of reading beside an answer."""
_SMALLEST_CHUNK = 32


class Backlog:
    """The unread text of the draft model in one answer.

    Args:
        statistics: What reading costs, and what drafts have saved.
        drafter: The draft model, or None.
        clock: Monotonic nanoseconds.

    Attributes:
        unread: Tokens of a long text that are read in pieces; 0 if drafting can begin at once.
    """

    def __init__(self, statistics: PairStatistics, drafter: ModelDrafting | None, clock: Clock) -> None:
        self._statistics = statistics
        self._drafter = drafter
        self._clock = clock
        self.unread = 0
        self._n_tokens = 0
        self._most_tokens = self._n_past = 0
        self._behind = 0
        self._gain = 0.0

    def begin(self, start: AnswerStart) -> None:
        """Count the unread tokens of a prompt."""
        if self._drafter is None:
            return
        sequence = start.sequence
        statistics = self._statistics
        # Estimating it takes longer than the rest of a step.
        self._most_tokens, self._n_past, self._gain = start.most_tokens, len(sequence) - 1, statistics.likely_gain
        self.unread = self._drafter.unread(sequence)
        if common_prefix(statistics.last_prompt, sequence) < _SAME_TEXT * len(sequence):
            statistics.n_without = 0
        statistics.last_prompt = sequence[:-1]

    @property
    def is_worth_reading(self) -> bool:
        """Return whether drafts are likely to save more than reading costs, or reading costs next to nothing."""
        ahead = min(self._most_tokens - self._n_tokens, max(_USUAL_ANSWER, self._n_tokens))
        # As many tokens as were answered without drafts are likely to come: a document is asked about several times.
        likely = _STAKE * self._gain * max(ahead, self._statistics.n_without)
        return self.unread / self._tokens_per_step(self._n_past) <= max(_LITTLE, likely)

    def read_all(self, sequence: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read the prompt before the answer goes on. Yields the tokens that are done after each chunk."""
        if self._drafter is not None:
            unread, self.unread = self.unread, 0
            self._statistics.n_without = 0
            started = self._clock()
            yield from self._drafter.begin(sequence, cancelled)
            self._statistics.costs.observe_reading(unread, self._clock() - started)

    def read_on(self, sequence: Sequence[int]) -> None:
        """Read a piece of the text while the answer goes on."""
        if self._drafter is not None:
            piece = max(_SMALLEST_CHUNK, round(_CHUNK_STEPS * self._tokens_per_step(len(sequence) - 1)))
            unread = self._drafter.unread(sequence)
            started = self._clock()
            self._drafter.read(sequence, piece)
            self._statistics.costs.observe_reading(min(piece, unread), self._clock() - started)
            self.unread = max(0, unread - piece)
            if not self.unread:
                self._statistics.n_without = 0
            self._behind = 0

    def catch_up(self, sequence: Sequence[int]) -> None:
        """Read the few missing tokens before a draft."""
        if self._drafter is not None:
            started = self._clock()
            self._drafter.catch_up(sequence)
            self._statistics.costs.observe_reading(self._behind, self._clock() - started)
            self._behind = 0

    def observe(self, result: StepResult, *, used_model: bool) -> None:
        """Count the tokens of a step; without the draft model they add to what it must read."""
        n = len(result.tokens)
        self._n_tokens += n
        self._n_past = result.n_past + n
        if used_model:
            return
        if self.unread:
            self._statistics.n_without += n
        self._behind += n
        if self._behind > max(_SMALLEST_CHUNK, _LITTLE * self._tokens_per_step(self._n_past)) and not self.unread:
            self.unread, self._behind = self._behind, 0

    def _tokens_per_step(self, n_past: int) -> float:
        """Prompt tokens that the draft model reads in the time of a single token."""
        costs = self._statistics.costs
        return costs.target_ns(1, n_past) / max(costs.scale * costs.profile.draft_prompt_ns, 1.0)
