"""What a draft model has not read yet, and when it is worth its time to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.auto.pair_statistics import PairStatistics
from app.engine.cache import common_prefix
from app.engine.interfaces import AnswerStart, Cancelled, Clock, ModelDrafting
from app.engine.types import StepResult

_USUAL_ANSWER = 256
"""Tokens that an answer is taken to go on for when a text must be read for it; one that is longer already goes on for
as many again, as long things do."""
_STAKE = 0.5
"""What reading may take of the time that drafts are likely to save: no text on which they save nothing loses more."""
_SAME_TEXT = 0.75
"""Of a prompt: as much in common with the one before, and it goes on with the same conversation or document."""
_LITTLE = 2.0
"""Plain steps' worth of text that is read without asking what it brings: that much is lost in no answer."""
_WAIT_SHARE = 0.1
"""A long prompt is read by the draft model after plain tokens that took this share of what reading takes: text that a
look-up finishes never needs it, and most other text does, so it waits but a little."""
_CHUNK_STEPS = 4.0
"""Plain steps that the answer may be held up by one piece of that reading."""
_SMALLEST_CHUNK = 32
_CATCH_UP_SHARE = 0.02
_CATCH_UP_START = 2.0
"""Of the time of all answers, and in plain steps at the start of each, that a draft model which is off may take to
read what it has missed, only to be tried again; `PairStatistics.MOST_SAVED` at most."""


class Backlog:
    """The text that a draft model has not read, in one answer.

    Args:
        memory: What reading costs, and what drafts have brought.
        drafter: Who reads, or None where nobody does.
        clock: Monotonic nanoseconds.

    Attributes:
        unread: Tokens of a long text that wait to be read piece by piece; 0 if a draft can begin at once.
    """

    def __init__(self, memory: PairStatistics, drafter: ModelDrafting | None, clock: Clock) -> None:
        self._memory = memory
        self._drafter = drafter
        self._clock = clock
        self.unread = 0
        self._wait = 0.0
        self._plain_tokens = 0
        self._n_tokens = 0
        self._most_tokens = self._n_past = 0
        self._behind = 0
        self._gain = 0.0
        self._was_used = False
        self._earned_here = _CATCH_UP_START
        """Plain steps of this answer alone; `PairStatistics.may_catch_up` is that of all."""

    def begin(self, start: AnswerStart, *, patient: bool) -> None:
        """Look at a prompt, which waits if it is long and `patient`, because something else can draft meanwhile."""
        if self._drafter is None:
            return
        sequence = start.sequence
        memory = self._memory
        memory.may_catch_up = min(max(memory.may_catch_up, _CATCH_UP_START), memory.MOST_SAVED)
        # To guess it takes longer than all the rest of a round.
        self._most_tokens, self._n_past, self._gain = start.most_tokens, len(sequence) - 1, memory.likely_gain
        self.unread = self._drafter.unread(sequence)
        if common_prefix(memory.prompt_before, sequence) < _SAME_TEXT * len(sequence):
            memory.n_without = 0
        memory.prompt_before = sequence[:-1]
        if not self.is_worth_reading:
            memory.leave_out()
        self._wait = _WAIT_SHARE * self.unread / self._tokens_a_step(self._n_past) if patient else 0.0

    @property
    def is_worth_reading(self) -> bool:
        """Whether drafts are likely to bring what reading the text costs, or that is next to nothing."""
        return self.unread / self._tokens_a_step(self._n_past) <= max(_LITTLE, self._likely_steps)

    @property
    def _likely_steps(self) -> float:
        """Plain steps that reading may take, by what drafts are likely to save."""
        ahead = min(self._most_tokens - self._n_tokens, max(_USUAL_ANSWER, self._n_tokens))
        # What was answered without is likely to be answered again; a document is asked about for many answers.
        return _STAKE * self._gain * max(ahead, self._memory.n_without)

    @property
    def is_put_off(self) -> bool:
        """Whether the answer begins before the prompt is read."""
        return self._wait >= 1.0

    @property
    def is_due(self) -> bool:
        """Whether there were so many more plain tokens than looked up ones that reading goes on."""
        return self._plain_tokens >= self._wait

    def may_be_read_again(self, n_past: int) -> bool:
        """Whether a draft model that is off may read what it has missed, only to be tried again."""
        missed = max(self.unread, self._behind) / self._tokens_a_step(n_past)
        if self._was_used:
            # What is likely of texts is not so of the very text that it was turned off in.
            return missed <= min(self._earned_here, self._memory.may_catch_up)
        return missed <= max(self._memory.may_catch_up, self._likely_steps)

    def read_all(self, sequence: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read the prompt before the answer goes on. Yields how many of its tokens are done after each chunk."""
        if self._drafter is not None:
            unread, self.unread = self.unread, 0
            self._memory.n_without = 0
            started = self._clock()
            yield from self._drafter.begin(sequence, cancelled)
            self._has_read(unread, len(sequence), self._clock() - started)

    def read_on(self, sequence: Sequence[int]) -> None:
        """Read a piece of the prompt, beside the answer that goes on."""
        if self._drafter is not None:
            n_past = len(sequence) - 1
            piece = max(_SMALLEST_CHUNK, round(_CHUNK_STEPS * self._tokens_a_step(n_past)))
            unread = self._drafter.unread(sequence)
            started = self._clock()
            self._drafter.read(sequence, piece)
            self._has_read(min(piece, unread), n_past, self._clock() - started)
            self.unread = max(0, unread - piece)
            if not self.unread:
                self._memory.n_without = 0
            self._behind = 0

    def catch_up(self, sequence: Sequence[int]) -> None:
        """Read the little that is missing before a draft."""
        if self._drafter is not None:
            started = self._clock()
            self._drafter.catch_up(sequence)
            self._has_read(self._behind, len(sequence) - 1, self._clock() - started)
            self._behind = 0

    def _has_read(self, n_tokens: int, n_past: int, ns: int) -> None:
        """Learn what reading takes, and book it where the draft model is off."""
        memory = self._memory
        if not memory.trial.on:
            steps = n_tokens / self._tokens_a_step(n_past)
            memory.may_catch_up -= steps
            self._earned_here -= steps
        memory.costs.observe_reading(n_tokens, ns)

    def observe(self, result: StepResult, *, used_model: bool) -> None:
        """Count a finished round: without the draft model the answer has gone on without it.

        What it misses too much of is read like a long prompt.
        """
        n = len(result.tokens)
        self._n_tokens += n
        self._n_past = result.n_past + n
        memory = self._memory
        memory.may_catch_up = min(memory.MOST_SAVED, memory.may_catch_up + _CATCH_UP_SHARE * n)
        self._earned_here += _CATCH_UP_SHARE * n
        if used_model:
            self._was_used = True
            return
        if self.unread:
            self._go_on_without(n)
        hit = result.n_accepted
        # A long hit tells that a look-up may finish the text, short ones here and there do not.
        self._plain_tokens = max(0, self._plain_tokens - hit) if hit else self._plain_tokens + n
        self._behind += n
        if self._behind > max(_SMALLEST_CHUNK, _LITTLE * self._tokens_a_step(self._n_past)) and not self.unread:
            self.unread, self._behind = self._behind, 0
            self._wait = _WAIT_SHARE * self.unread / self._tokens_a_step(result.n_past)

    def _go_on_without(self, n_tokens: int) -> None:
        """Count an answer's tokens that come without the draft model; a long answer counts as often as short ones."""
        memory, before = self._memory, self._n_tokens - n_tokens
        memory.n_without += n_tokens
        if before // _USUAL_ANSWER < self._n_tokens // _USUAL_ANSWER and not self.is_worth_reading:
            memory.leave_out()
            self._gain = memory.likely_gain

    def _tokens_a_step(self, n_past: int) -> float:
        """Prompt tokens that the draft model reads in the time of a plain step."""
        costs = self._memory.costs
        return costs.target_ns(1, n_past) / max(costs.scale * costs.profile.draft_prompt_ns, 1.0)
