"""The values that the engine takes and gives. Token ids are plain ints throughout."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, fields
from enum import Enum
from typing import Literal

from app.core.errors import UsageError
from app.engine.stats import GenerationStats

MAX_DRAFT = 64
"""Longest draft of one round; every verify batch is prepared for it."""
MIN_MATCH = 2
"""Tokens that must agree before a look-up says anything; one agrees by chance all the time."""


class Origin(Enum):
    """Who wrote a token first."""

    DRAFT = "draft"
    """Drafted by the draft model, and accepted because the target chose the same."""
    NGRAM = "ngram"
    """Drafted from an n-gram match, and accepted for the same reason."""
    TARGET = "target"
    """The target's own: at a mismatch, after a fully accepted draft, or without one."""


class FinishReason(Enum):
    """Why an answer ended."""

    STOP = "stop"
    """An end token or a stop string."""
    LENGTH = "length"
    """The requested number of tokens."""
    CONTEXT = "context"
    """No room left in the context."""
    CANCELLED = "cancelled"
    """The user stopped it."""
    REPETITION = "repetition"
    """It repeated itself; see `app.engine.repetition`."""


@dataclass(frozen=True, slots=True)
class DraftParams:
    """Fixed drafting parameters, in llama.cpp's terms.

    Attributes:
        n_max: Most tokens drafted in one round; 0 drafts nothing.
        n_min: A draft shorter than this is not submitted.
        p_min: A candidate less probable than this is not drafted. What the probability is taken over
            is defined in `app.engine.probability`.
    """

    n_max: int = 7
    n_min: int = 0
    p_min: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.n_max <= MAX_DRAFT:
            raise UsageError(f"n_max is {self.n_max}; it must lie between 0 and {MAX_DRAFT}.")
        if not 0 <= self.n_min <= self.n_max:
            raise UsageError(f"n_min is {self.n_min}; it must lie between 0 and n_max ({self.n_max}).")
        if not 0.0 <= self.p_min <= 1.0:
            raise UsageError(f"p_min is {self.p_min}; it must lie between 0 and 1.")


@dataclass(frozen=True, slots=True)
class AutoDraft:
    """Drafting that tunes itself, and stays off where it cannot gain.

    Attributes:
        model: Whether a draft model may draft.
        lookup: Whether what was already said may.
        min_match: Tokens that must agree before a look-up says how they went on.
    """

    model: bool = True
    lookup: bool = True
    min_match: int = MIN_MATCH


Drafting = AutoDraft | DraftParams | None
"""Automatic, fixed, or none."""
SWITCHED_OFF = "you switched it off"
"""Why nothing is drafted in an answer that was drafted before."""
MODEL_OFF = "draft model off: "
"""The beginning of a reason that keeps only the draft model from drafting, not the look-up."""
MODEL_FAILED = "the draft model failed"
"""Why nothing is drafted by it in an answer where it did."""
Source = Literal["model", "ngram"]
"""Where drafts come from."""


def taking_part(*, model: bool, ngram: bool) -> tuple[Source, ...]:
    """The sources that do, the draft model first."""
    do: dict[Source, bool] = {"model": model, "ngram": ngram}
    return tuple(source for source, does in do.items() if does)


@dataclass(frozen=True, slots=True)
class DraftingStatus:
    """What drafting is doing, and whether it pays.

    Attributes:
        source: Who drafts, or that nobody does.
        reason: Why, as one sentence; "" where there is nothing to explain.
        verdict: "winning", "break-even" or "losing" against no draft; "" unless `measured`.
        speedup: Time without drafts over time spent on this answer, the draft's reading of the prompt included; None
            with no drafts or too few.
        measured: Whether single-token steps of this answer, seconds ago, gave the speed without drafts behind
            `speedup`; False where the cost curve predicted it.
    """

    source: Source | Literal["off"]
    reason: str
    verdict: str = ""
    speedup: float | None = None
    measured: bool = False

    @property
    def switched_off(self) -> DraftingStatus:
        """The same while nothing may be drafted: what was measured of the answer stays true."""
        return dataclasses.replace(self, source="off", reason=SWITCHED_OFF)

    @property
    def without_speedup(self) -> DraftingStatus:
        """Drop the speedup and its verdict: a loop is easy to draft and says nothing about other text."""
        return dataclasses.replace(self, verdict="", speedup=None)


_WHOLE = ("top_k", "repeat_last_n", "seed")
SAMPLING_BOUNDS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_k": (0, 1_000_000),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "typical_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 100.0),
    "frequency_penalty": (-100.0, 100.0),
    "presence_penalty": (-100.0, 100.0),
    "repeat_last_n": (0, 65_536),
    "seed": (0, 0xFFFFFFFE),
}
"""Smallest and largest value of each field of `SamplingParams`."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The target's sampler chain, with llama.cpp's names, order and defaults.

    The order of the chain is llama.cpp's: penalties, top-k, typical, top-p, min-p, temperature, draw.

    Attributes:
        temperature: 0 always takes the most probable token.
        top_k: Keep the k most probable; 0 keeps all.
        top_p: Keep the smallest set with this much probability; 1 keeps all.
        min_p: Keep what has at least this share of the top token's probability; 0 keeps all.
        typical_p: Locally typical sampling; 1 keeps all.
        repeat_penalty: Divides the logit of a token seen in the last `repeat_last_n`; 1 does nothing.
        frequency_penalty: Subtracted once per occurrence; 0 does nothing.
        presence_penalty: Subtracted once if it occurred; 0 does nothing.
        repeat_last_n: Tokens the penalties look back over.
        seed: Of the random draw; None takes a fresh one for every answer.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = 64
    seed: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = SAMPLING_BOUNDS[field.name]
            if value is not None and not (low <= value <= high and math.isfinite(value)):
                raise UsageError(f"{field.name} is {value}; it must lie between {low:g} and {high:g}.")
            if field.name in _WHOLE and value is not None and value != int(value):
                raise UsageError(f"{field.name} is {value}; it must be a whole number.")

    @property
    def is_greedy(self) -> bool:
        """Whether the choice is the largest logit, with nothing that changes logits before it."""
        return self.temperature == 0 and not self.has_penalties

    @property
    def has_penalties(self) -> bool:
        """Whether what was said before changes the logits."""
        changed = self.repeat_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0
        return changed and self.repeat_last_n > 0


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes for the positions after the last token.

    Attributes:
        tokens: The proposal, first position first.
        probabilities: The confidence in each, same length, each in (0, 1].
        n_model: How many come from a draft model; the others, behind them, from a look-up.
        confidences: What each source itself made of its tokens, where `probabilities` is more than that; empty
            where it is not.
    """

    tokens: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    n_model: int = 0
    confidences: tuple[float, ...] = dataclasses.field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def origin(self, row: int) -> Origin:
        """Return the origin of a drafted token that was accepted."""
        return Origin.DRAFT if row < self.n_model else Origin.NGRAM

    @property
    def by_model(self) -> tuple[float | None, ...]:
        """The draft model's own probability of each token; None for one that was looked up."""
        known = self.confidences or self.probabilities
        return tuple(p if n < self.n_model else None for n, p in enumerate(known))


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class StepResult:
    """A finished round of draft and verify, as a strategy learns from it.

    Attributes:
        n_past: Tokens that the target's cache held before.
        draft: What was submitted.
        tokens: What was emitted, the accepted tokens first.
        n_accepted: How many of the drafted tokens were kept.
        total_ns: Nanoseconds from the end of the round before to the end of this one, by the work clock.
        draft_ns: The part of them that proposing took.
    """

    n_past: int
    draft: Draft
    tokens: tuple[int, ...]
    n_accepted: int
    total_ns: int
    draft_ns: int


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prompt tokens evaluated so far by one of the two models.

    Attributes:
        drafting: True for the draft model, False for the target.
        done: Tokens evaluated or reused so far.
        total: Tokens of the prompt.
    """

    drafting: bool
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the target thought in one round. Probabilities are those of `app.engine.probability`.

    Attributes:
        chosen: The target's probability of each emitted token.
        declined: The target's probability of the drafted token that it did not choose; None if there was none.
    """

    chosen: tuple[float, ...]
    declined: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One verify round: what was drafted and what the target made of it.

    Attributes:
        tokens: The tokens emitted, the accepted ones first.
        n_accepted: How many of them are accepted draft tokens.
        draft: What was submitted.
        stats: The counters after this round.
        status: What drafting makes of it; None without.
        inspection: Only if it was asked for, and never for the first token.
        total_ns: Nanoseconds of the round, without a look at it; 0 for the first token, which is none.
        work_ns: The same by the work clock, without the time of other programs.
    """

    tokens: tuple[int, ...]
    n_accepted: int
    draft: Draft
    stats: GenerationStats
    status: DraftingStatus | None = None
    inspection: Inspection | None = None
    total_ns: int = 0
    work_ns: int = 0


@dataclass(frozen=True, slots=True)
class DraftLost:
    """The draft model failed and the answer goes on without it."""

    reason: str


GenerationEvent = PromptProgress | Step | DraftLost
