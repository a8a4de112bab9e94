"""Counters of one answer, with every rate derived from them.

Times are nanoseconds of a monotonic clock. Names follow llama-server's `timings` where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FEWEST_READ = 16
"""Prompt tokens of which a rate tells how fast prompts are read; fewer take about as long as one."""


def _rate(count: int, nanoseconds: int) -> float | None:
    return count * 1e9 / nanoseconds if count > 0 and nanoseconds > 0 else None


@dataclass(slots=True)
class GenerationStats:
    """Counters of one answer.

    Prompt time is both models' prompt processing, up to the first token's logits for the target and up to the
    first draft for the draft model; generation time is everything after the first token, apart from the draft's
    prompt processing. llama-server counts the same way, so rates under the same names can be compared. A rate is None
    where there was nothing to measure it by, such as that of an answer of one token, which the prompt gave.
    """

    cache_n: int = 0
    """Prompt tokens that the target's cache already held."""
    prompt_n: int = 0
    """Prompt tokens that the target evaluated."""
    predicted_n: int = 0
    """Tokens generated, an end token included."""
    draft_n: int = 0
    """Submitted drafted tokens."""
    draft_n_accepted: int = 0
    draft_n_model: int = 0
    """Submitted tokens of a draft model; the others are n-gram tokens."""
    verify_steps: int = 0
    """Steps of the target after the first token, with or without a draft."""
    drafted_steps: int = 0
    """Steps with at least one drafted token."""
    accepted_by_position: list[int] = field(default_factory=list)
    """Accepted drafted tokens at each depth."""
    prompt_ns: int = 0
    draft_prompt_ns: int = 0
    first_token_ns: int = 0
    """From the start of the answer to its first token."""
    measuring_ns: int = 0
    """Calibration before that start."""
    predicted_ns: int = 0
    draft_ns: int = 0
    verify_ns: int = 0
    native_ns: int = 0
    """The part of the generation time that was spent inside native calls."""

    def observe_step(self, n_drafted: int, n_accepted: int, n_model: int = 0) -> None:
        """Count one step."""
        self.verify_steps += 1
        if n_drafted:
            self.drafted_steps += 1
            self.draft_n += n_drafted
            self.draft_n_model += n_model
            self.draft_n_accepted += n_accepted
            short = n_accepted - len(self.accepted_by_position)
            self.accepted_by_position.extend([0] * short)
            for position in range(n_accepted):
                self.accepted_by_position[position] += 1

    def snapshot(self) -> GenerationStats:
        """Return a copy."""
        return replace(self, accepted_by_position=list(self.accepted_by_position))

    @property
    def prompt_per_second(self) -> float | None:
        """Prompt tokens that the target evaluated over both models' prompt time, as llama-server counts it."""
        return _rate(self.prompt_n, self.prompt_ns + self.draft_prompt_ns)

    @property
    def reading_per_second(self) -> float | None:
        """Prompt tokens per second of the target alone; None where it read too few to tell.

        What its cache held already the draft model may have yet to read: the two do not read the same tokens.
        """
        return _rate(self.prompt_n, self.prompt_ns) if self.prompt_n >= FEWEST_READ else None

    @property
    def answer_ns(self) -> int:
        """Time of all tokens after the first, the draft model's reading of the prompt included."""
        return self.predicted_ns + self.draft_prompt_ns

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second after the first one, by that time; what drafting gains is told by it."""
        return _rate(self.predicted_n - 1, self.answer_ns)

    @property
    def predicted_per_second(self) -> float | None:
        """Tokens per second after the first one, which the prompt gave, as llama-server counts it."""
        return _rate(self.predicted_n - 1, self.predicted_ns)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted drafted tokens over drafted ones; None before anything was drafted."""
        return self.draft_n_accepted / self.draft_n if self.draft_n else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Tokens per step, the target's own included; None before the first step.

        The first token of an answer comes from the prompt, not from a step.
        """
        return (self.predicted_n - 1) / self.verify_steps if self.verify_steps else None

    @property
    def overhead_ns(self) -> int:
        """Generation time outside native calls."""
        return max(0, self.predicted_ns - self.native_ns)
