"""Counters of one answer, with every rate derived from them, and its speedup.

Times are nanoseconds of a monotonic clock. Names follow llama-server's `timings` where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat, zip_longest
from typing import Any

from app.engine.sources import Source

FEWEST_READ = 16
"""Fewest prompt tokens that give a rate; fewer take about as long as one."""
NO_SPEEDUP = "no speedup"


def times(ratio: float) -> str:
    """Return a ratio such as "3.1×"."""
    return f"{ratio:.1f}×"


@dataclass(frozen=True, slots=True)
class Speedup:
    """Speedup of an answer, or of a pair.

    Attributes:
        ratio: Time without drafts over time spent.
        measured: Whether the time without drafts was measured in the same answer; otherwise it was predicted.
        verdict: "winning", "break-even" or "losing"; "" unless measured over enough drafted tokens.
    """

    ratio: float
    measured: bool = False
    verdict: str = ""

    @property
    def is_none(self) -> bool:
        """Return whether one decimal shows no difference."""
        return times(self.ratio) == times(1.0)

    @property
    def helps(self) -> bool:
        """Return whether one decimal shows a gain."""
        return self.ratio > 1 and not self.is_none

    def __str__(self) -> str:
        text = NO_SPEEDUP if self.is_none else times(self.ratio)
        return text if self.measured else f"{text} (estimate)"

    @property
    def labeled(self) -> str:
        """Return "speedup 3.1×" or "no speedup", with "(estimate)" behind it unless it was measured."""
        return str(self) if self.is_none else f"speedup {self}"


def _rate(count: int, nanoseconds: int) -> float | None:
    return count * 1e9 / nanoseconds if count > 0 and nanoseconds > 0 else None


@dataclass
class GenerationStats:
    """Counters of one answer.

    Prompt time is the prompt processing of both models. Generation time is everything after the first token, except the
    draft model's prompt processing. llama-server counts the same way. A rate is None if there was nothing to measure.
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
    """Submitted tokens of models; the others are from free sources."""
    verify_steps: int = 0
    """Steps of the target after the first token, with or without a draft."""
    drafted_steps: int = 0
    """Steps with at least one drafted token."""
    accepted_by_position: tuple[int, ...] = ()
    """Accepted drafted tokens at each depth."""
    prompt_ns: int = 0
    draft_prompt_ns: int = 0
    first_token_ns: int = 0
    """Time to first token, from the start of the answer."""
    predicted_ns: int = 0
    draft_ns: int = 0
    verify_ns: int = 0
    native_ns: int = 0
    """The part of the generation time inside native calls."""

    def observe_step(self, drafted: Sequence[Source], n_accepted: int) -> None:
        """Count one step, given the source of each drafted token."""
        self.verify_steps += 1
        if drafted:
            self.drafted_steps += 1
            self.draft_n += len(drafted)
            self.draft_n_model += sum(not source.is_free for source in drafted)
            self.draft_n_accepted += n_accepted
            counts = zip_longest(self.accepted_by_position, repeat(1, n_accepted), fillvalue=0)
            self.accepted_by_position = tuple(before + new for before, new in counts)

    def snapshot(self) -> GenerationStats:
        """Return a copy."""
        return GenerationStats(**vars(self))

    @property
    def prompt_per_second(self) -> float | None:
        """Return prompt tokens of the target over both models' prompt time, as llama-server counts it."""
        return _rate(self.prompt_n, self.prompt_ns + self.draft_prompt_ns)

    @property
    def reading_per_second(self) -> float | None:
        """Return prompt tokens per second of the target alone; None if it read too few.

        The draft model may have to read tokens that the target had cached.
        """
        return _rate(self.prompt_n, self.prompt_ns) if self.prompt_n >= FEWEST_READ else None

    @property
    def tokens_per_second(self) -> float | None:
        """Return tokens per second after the first one, including the draft's prompt time; the basis of speedups."""
        return _rate(self.predicted_n - 1, self.predicted_ns + self.draft_prompt_ns)

    @property
    def predicted_per_second(self) -> float | None:
        """Return tokens per second after the first one, as llama-server counts it."""
        return _rate(self.predicted_n - 1, self.predicted_ns)

    @property
    def acceptance_rate(self) -> float | None:
        """Return accepted over drafted tokens; None before anything was drafted."""
        return self.draft_n_accepted / self.draft_n if self.draft_n else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Return tokens per step, including the target's own; None before the first step."""
        return (self.predicted_n - 1) / self.verify_steps if self.verify_steps else None

    @property
    def timings(self) -> dict[str, Any]:
        """Return the numbers that llama-server reports, by its names."""
        prompt_ms, predicted_ms = (self.prompt_ns + self.draft_prompt_ns) / 1e6, self.predicted_ns / 1e6
        return {
            "cache_n": self.cache_n,
            "prompt_n": self.prompt_n,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / max(1, self.prompt_n),
            "prompt_per_second": self.prompt_per_second,
            "predicted_n": self.predicted_n,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": predicted_ms / max(1, self.predicted_n),
            "predicted_per_second": self.predicted_per_second,
            "draft_n": self.draft_n,
            "draft_n_accepted": self.draft_n_accepted,
            "draft_prompt_ms": self.draft_prompt_ns / 1e6,
        }

    @property
    def overhead_ns(self) -> int:
        """Return the generation time outside native calls."""
        return max(0, self.predicted_ns - self.native_ns)
