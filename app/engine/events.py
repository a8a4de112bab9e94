"""Events of an answer, from the engine to the screen. `request` is the number of the answer or job."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import NO_DRAFT, Draft, DraftingStatus

_MANY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Reports prompt tokens evaluated or reused so far.

    Attributes:
        drafting: True for the draft model, False for the target.
        left_s: Estimated seconds for the rest, once the speed is known.
        picture: Number of the current picture, from 1, and of all pictures; None for text.
    """

    request: int
    drafting: bool
    done: int
    total: int
    left_s: float | None = None
    picture: tuple[int, int] | None = None

    def line(self) -> str:
        """Return the progress as text."""
        if self.picture is not None:
            return "reading picture {} of {}".format(*self.picture)
        reader = "draft reading" if self.drafting else "reading"
        text = f"{reader} prompt: {self.done:,} of {self.total:,} tokens"
        left = math.ceil(self.left_s) if self.left_s is not None else 0
        if left < 1:
            return text
        return f"{text}, {left} s left" if left < _MANY_SECONDS else f"{text}, {round(left / 60)} min left"


@dataclass(frozen=True, slots=True)
class Inspection:
    """The target's probabilities in one step; see `app.engine.probability`.

    Attributes:
        declined: Probability of the rejected drafted token, if any.
        top: The most probable tokens at each position with their probabilities, if requested.
    """

    chosen: tuple[float, ...]
    declined: float | None
    top: tuple[tuple[tuple[int, float], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StepDetails:
    """Describes the draft of a verify step and its outcome.

    Attributes:
        number: Number of the step in its answer, from 1.
        drafted: Bytes of each drafted token; empty for a control token.
        confidences: The draft model's probability of each drafted token; None for tokens of free sources.
        written: Bytes of each emitted token, accepted tokens first.
        chosen: The target's probability of each emitted token; empty unless inspected.
        declined: The target's probability of the rejected drafted token, if any.
        plain_ns: Measured nanoseconds of a single-token step at this position, if known.
    """

    number: int
    drafted: tuple[bytes, ...]
    sources: tuple[Source, ...]
    confidences: tuple[float | None, ...]
    written: tuple[bytes, ...]
    n_accepted: int
    chosen: tuple[float, ...]
    declined: float | None
    total_ns: int
    plain_ns: float | None


@dataclass(frozen=True, slots=True)
class TokenProbability:
    """The target's probability of an emitted token, as id and bytes, and the most probable tokens there."""

    token: int
    piece: bytes
    probability: float
    top: tuple[TokenProbability, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Reports a verify step. The engine fills in its tokens, and the worker the text that they make.

    Attributes:
        segments: The text that became complete.
        details: None for the first token, or if not requested.
        tokens: Ids of the emitted tokens, accepted tokens first.
        probabilities: One per emitted token, if `AnswerRequest.n_top` requests them.
        inspection: Probabilities, if requested; for the first token only with `Request.n_top`.
        total_ns: Nanoseconds of the step without inspection; 0 for the first token.
        work_ns: Nanoseconds by the work clock, without the time of other programs.
    """

    request: int
    segments: tuple[Segment, ...] = ()
    stats: GenerationStats = field(default_factory=GenerationStats)
    drafting: DraftingStatus | None = None
    details: StepDetails | None = None
    tokens: tuple[int, ...] = ()
    probabilities: tuple[TokenProbability, ...] = ()
    n_accepted: int = 0
    draft: Draft = NO_DRAFT
    inspection: Inspection | None = None
    total_ns: int = 0
    work_ns: int = 0


@dataclass(frozen=True, slots=True)
class DraftLost:
    """Reports that the draft model failed; the answer continues without it."""

    reason: str


GenerationEvent = PromptProgress | Step | DraftLost
