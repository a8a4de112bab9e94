"""What a draft model has not read yet, and when it is worth its time to read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.engine.interfaces import Cancelled, ModelDrafting
from app.engine.tuning.memory import Memory
from app.engine.types import Round

_USUAL_ANSWER = 256
"""Tokens that an answer is taken to have when a prompt must be read for it."""
_ALWAYS_READ = 64
_WAIT_SHARE = 0.1
"""A long prompt is read by the draft model after plain tokens that took this share of what reading takes: text that a
look-up finishes never needs it, and most other text does, so it waits but a little."""
_CHUNK_STEPS = 4.0
"""Plain steps that the answer may be held up by one piece of that reading."""
_SMALLEST_CHUNK = 32
_CATCH_UP_SHARE = 0.02
_CATCH_UP_START = 2.0
"""Of an answer's time, and in plain steps, that a draft model which is off may take to read what it has missed, only to
be tried again."""


class Backlog:
    """The text that a draft model has not read, in one answer.

    Args:
        memory: What reading costs, and what drafts have brought.
        drafter: Who reads, or None where nobody does.

    Attributes:
        unread: Tokens of a long text that wait to be read piece by piece; 0 if a draft can begin at once.
        worth_reading: Whether drafts are likely to bring what reading the prompt costs.
    """

    def __init__(self, memory: Memory, drafter: ModelDrafting | None) -> None:
        self._memory = memory
        self._drafter = drafter
        self.unread = 0
        self.worth_reading = True
        self._wait = 0.0
        self._plain_tokens = 0
        self._n_tokens = 0
        self._behind = 0
        self._caught_up = 0.0

    def begin(self, sequence: Sequence[int], expected_tokens: int, *, patient: bool) -> None:
        """Look at a prompt.

        Args:
            sequence: The prompt and the first token of the answer.
            expected_tokens: Most tokens that the answer may have.
            patient: Whether a long prompt waits, because something else can draft meanwhile.
        """
        if self._drafter is None:
            return
        self.unread = self._drafter.unread(sequence)
        reading = self.unread / self._tokens_a_step(len(sequence)) if self.unread > _ALWAYS_READ else 0.0
        earned = self._memory.gain * min(expected_tokens, _USUAL_ANSWER)
        self.worth_reading = self.unread <= _ALWAYS_READ or reading <= earned
        self._wait = _WAIT_SHARE * reading if patient else 0.0

    @property
    def is_put_off(self) -> bool:
        """Whether the answer begins before the prompt is read."""
        return self._wait >= 1.0

    @property
    def is_due(self) -> bool:
        """Whether there were enough plain tokens in a row for reading to go on."""
        return self._plain_tokens >= self._wait

    def is_within_budget(self, n_past: int) -> bool:
        """Whether a draft model that is off may read what it has missed, only to be tried again."""
        steps = self._caught_up + max(self.unread, self._behind) / self._tokens_a_step(n_past)
        return steps <= _CATCH_UP_START + _CATCH_UP_SHARE * self._n_tokens

    def read_all(self, sequence: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Read the prompt before the answer goes on. Yields how many of its tokens are done after each chunk."""
        if self._drafter is not None:
            self.unread = 0
            yield from self._drafter.begin(sequence, cancelled)

    def read_on(self, sequence: Sequence[int]) -> None:
        """Read a piece of the prompt, beside the answer that goes on."""
        if self._drafter is not None:
            tokens_a_step = self._tokens_a_step(len(sequence) - 1)
            piece = max(_SMALLEST_CHUNK, round(_CHUNK_STEPS * tokens_a_step))
            unread = self._drafter.unread(sequence)
            self._drafter.read(sequence, piece)
            self.unread = max(0, unread - piece)
            self._behind = 0
            self._caught_up += min(piece, unread) / tokens_a_step

    def catch_up(self, sequence: Sequence[int]) -> None:
        """Read the little that is missing before a draft."""
        if self._drafter is not None:
            self._drafter.catch_up(sequence)
            self._caught_up += self._behind / self._tokens_a_step(len(sequence) - 1)
            self._behind = 0

    def observe(self, round_: Round, *, used_model: bool) -> None:
        """Count a finished round: without the draft model the answer has gone on without it.

        What it misses too much of is read like a long prompt.
        """
        n = len(round_.tokens)
        self._n_tokens += n
        if used_model:
            return
        self._plain_tokens = 0 if round_.n_accepted else self._plain_tokens + n
        self._behind += n
        if self._behind > _ALWAYS_READ and not self.unread:
            self.unread, self._behind = self._behind, 0
            self._wait = _WAIT_SHARE * self.unread / self._tokens_a_step(round_.n_past)

    def _tokens_a_step(self, n_past: int) -> float:
        """Prompt tokens that the draft model reads in the time of a plain step."""
        costs = self._memory.costs
        return costs.target_ns(1, n_past) / max(costs.scale * costs.profile.draft_prompt_ns, 1.0)
