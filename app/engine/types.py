"""Values of the engine. Token ids are plain ints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Literal

from app.core.errors import UsageError
from app.engine.sources import Source

MAX_DRAFT = 62
"""Longest draft of a step, in tokens; each verify batch can hold it.

From batches of 64 tokens, llama.cpp's flash attention on the CPU uses another kernel (`GGML_FA_TILE_Q` in
ggml-cpu/common.h), so greedy text would differ from text without drafts. A verify batch has the draft and one token."""
MIN_MATCH = 2
"""Shortest n-gram match, in tokens; a single token matches by chance."""


class FinishReason(Enum):
    """Why an answer ended."""

    STOP = "stop"
    """The model wrote an end token or a stop string."""
    LENGTH = "length"
    """The requested number of tokens was reached."""
    CONTEXT = "context"
    """The context is full."""
    CANCELLED = "cancelled"
    """The user stopped the answer."""
    REPETITION = "repetition"
    """The answer repeated itself; see `app.engine.text.stream`."""


@dataclass(frozen=True, slots=True)
class DraftParams:
    """Fixed drafting parameters, in llama.cpp's terms.

    Attributes:
        n_max: Longest draft in tokens; 0 drafts nothing.
        n_min: Shortest draft that is submitted.
        p_min: Lowest probability of a drafted token; see `app.engine.probability`.
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
    """Automatic drafting: it tunes itself, and turns off a source that cannot gain.

    `model` and `lookup` allow the draft model and n-gram drafting; `min_match` is the shortest n-gram match, in tokens.
    """

    model: bool = True
    lookup: bool = True
    min_match: int = MIN_MATCH


Drafting = AutoDraft | DraftParams | None
"""Automatic, fixed, or no drafting."""


@dataclass(frozen=True, slots=True)
class DraftingStatus:
    """Source and reason of drafting in an answer.

    Attributes:
        source: Source of the last draft, or "off".
        reason: The reason as a clause, if there is anything to explain.
    """

    source: Source | Literal["off"]
    reason: str | None

    @property
    def switched_off(self) -> DraftingStatus:
        """Return the status with drafting switched off by the user."""
        return dataclasses.replace(self, source="off", reason="you switched it off")


def _within(low: float, high: float, default: float | None) -> Any:
    return dataclasses.field(default=default, metadata={"bounds": (low, high)})


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The target's sampler chain, with llama.cpp's names, order and defaults.

    The order of the chain is llama.cpp's: penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature,
    draw. Mirostat replaces everything between DRY and the draw except the temperature.

    `app.settings.table` explains each field; None as the seed means a new seed for every answer.
    """

    temperature: float = _within(0.0, 100.0, 0.8)
    top_k: int = _within(0, 1_000_000, 40)
    top_p: float = _within(0.0, 1.0, 0.95)
    min_p: float = _within(0.0, 1.0, 0.05)
    typical_p: float = _within(0.0, 1.0, 1.0)
    repeat_penalty: float = _within(0.01, 100.0, 1.0)
    frequency_penalty: float = _within(-100.0, 100.0, 0.0)
    presence_penalty: float = _within(-100.0, 100.0, 0.0)
    repeat_last_n: int = _within(0, 65_536, 64)
    top_n_sigma: float = _within(0.0, 100.0, 0.0)
    xtc_probability: float = _within(0.0, 1.0, 0.0)
    xtc_threshold: float = _within(0.0, 1.0, 0.1)
    dry_multiplier: float = _within(0.0, 100.0, 0.0)
    dry_base: float = _within(1.0, 100.0, 1.75)
    dry_allowed_length: int = _within(1, 65_536, 2)
    dry_penalty_last_n: int = _within(0, 65_536, 64)
    dynatemp_range: float = _within(0.0, 100.0, 0.0)
    dynatemp_exponent: float = _within(0.0, 100.0, 1.0)
    mirostat: int = _within(0, 2, 0)
    mirostat_tau: float = _within(0.0, 100.0, 5.0)
    mirostat_eta: float = _within(0.0, 1.0, 0.1)
    seed: int | None = _within(0, 0xFFFFFFFE, None)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = field.metadata["bounds"]
            if value is not None and not (low <= value <= high and math.isfinite(value)):
                raise UsageError(f"{field.name} is {value}; it must lie between {low:g} and {high:g}.")
            if isinstance(high, int) and value is not None and value != int(value):
                raise UsageError(f"{field.name} is {value}; it must be a whole number.")

    @property
    def is_greedy(self) -> bool:
        """Return whether the token with the largest unchanged logit is chosen."""
        return self.temperature == 0 and not self.has_penalties and not self.has_dry

    @property
    def has_penalties(self) -> bool:
        """Return whether earlier tokens change the logits."""
        changed = self.repeat_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0
        return changed and self.repeat_last_n > 0

    @property
    def has_dry(self) -> bool:
        """Return whether repeated sequences change the logits."""
        return self.dry_multiplier > 0 and self.dry_penalty_last_n > 0


SAMPLING_BOUNDS: Mapping[str, tuple[float, float]] = {
    field.name: field.metadata["bounds"] for field in fields(SamplingParams)
}
"""Smallest and largest value of each field; whole bounds mean a whole number."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Numbers of CPU threads: for single tokens and batches as short as a draft, and for prompts."""

    generation: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Guidance:
    """Restrictions on the target's text.

    Attributes:
        grammar: Grammar in llama.cpp's GBNF, if any.
        schema: JSON schema of an answer without tool calls, instead of a grammar.
        strict: Whether an unsupported keyword of the schema is an error; otherwise it is ignored.
        must_call: Whether the answer must be calls; otherwise it is any text, optionally followed by calls.
        one_call: Whether it has at most one call.
        logit_bias: Added to the logits of tokens, given by their ids or as text.
        ignores_end: Whether tokens that end an answer are forbidden; a grammar may allow nothing else.
    """

    grammar: str | None = None
    schema: Mapping[str, Any] | None = None
    strict: bool = False
    must_call: bool = False
    one_call: bool = False
    logit_bias: tuple[tuple[int | str, float], ...] = ()
    ignores_end: bool = False

    @property
    def has_grammar(self) -> bool:
        """Return whether an answer is restricted from its first token on."""
        return bool(self.grammar) or self.schema is not None or self.must_call


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens proposed for the positions after the last token.

    Attributes:
        confidences: The source's value for each token: a probability in (0, 1], or the support of an n-gram.
    """

    tokens: tuple[int, ...] = ()
    confidences: tuple[float, ...] = ()
    sources: tuple[Source, ...] = ()

    @classmethod
    def of(cls, source: Source, tokens: Sequence[int], confidences: Sequence[float]) -> Draft:
        """Return the draft of one source."""
        return cls(tuple(tokens), tuple(confidences), (source,) * len(tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, n: int) -> Draft:
        return Draft(self.tokens[:n], self.confidences[:n], self.sources[:n])

    @property
    def probabilities(self) -> tuple[float | None, ...]:
        """Return the model's probability of each token; None for tokens of free sources."""
        known = zip(self.confidences, self.sources, strict=True)
        return tuple(None if source.is_free else confidence for confidence, source in known)


NO_DRAFT = Draft()


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Texts and token ids in order; texts of control tokens become these tokens."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Infill:
    """Code around a gap that the answer fills.

    Attributes:
        begun: Beginning of the text in the gap.
        files: Names and texts of other files, for context.
    """

    prefix: str
    suffix: str
    begun: str = ""
    files: tuple[tuple[str, str], ...] = ()


PlainPrompt = TextPrompt | Infill
"""A prompt that is not a conversation."""
