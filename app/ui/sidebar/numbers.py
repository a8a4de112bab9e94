"""Numbers of one answer as text, from its counters or from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.drafting_report import Speedup, accepted, brief_reason, drafted_by, rate, speedup_of
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus

_TOO_MUCH = 1e15


@dataclass(frozen=True, slots=True)
class Numbers:
    """Measurements of one answer; None if not measured.

    Attributes:
        tokens: Generated tokens.
        speed: Tokens per second after the first one.
        speedup: Speedup against no draft.
        reason: Draft source and reason, briefly.
        acceptance: Accepted over drafted tokens.
        drafted: Drafted tokens.
        per_step: Tokens per verify step.
        draft_length: Mean draft length in tokens.
        model_share: Share of the drafted tokens that a draft model proposed.
        first_s: Seconds to the first token, including the benchmark of a new pair.
        prompt_speed: Prefill speed of the target in tokens per second.
    """

    tokens: int | None = None
    speed: float | None = None
    speedup: Speedup | None = None
    reason: str = ""
    acceptance: float | None = None
    drafted: float = 0.0
    per_step: float | None = None
    draft_length: float | None = None
    model_share: float | None = None
    first_s: float | None = None
    prompt_speed: float | None = None

    @property
    def length(self) -> str:
        """Token count as shown, "1 token"; "" if unknown."""
        return f"{self.tokens:,} token{'s' * (self.tokens != 1)}" if self.tokens is not None else ""

    @property
    def pace(self) -> str:
        """Speed as shown; the token count before a speed is known."""
        return rate(self.speed) if self.speed is not None else self.length

    @property
    def accepted(self) -> str:
        """Acceptance as shown, "78% accepted"; "" if nothing was drafted."""
        return accepted(self.acceptance * self.drafted, self.drafted) if self.acceptance is not None else ""

    @property
    def drafted_by(self) -> str:
        """Sources of the drafts; "" if unknown."""
        return drafted_by(self.model_share) if self.model_share is not None else ""

    @property
    def undrafted_speed(self) -> float | None:
        """Tokens per second without drafts; None unless measured."""
        gain = self.speedup
        return self.speed / gain.ratio if self.speed is not None and gain is not None and gain.measured else None


def of_counters(stats: GenerationStats, drafting: DraftingStatus | None) -> Numbers:
    """Return the numbers of a running or finished answer."""
    drafted = stats.draft_n
    return Numbers(
        tokens=stats.predicted_n,
        speed=stats.tokens_per_second,
        speedup=speedup_of(stats, drafting),
        reason=brief_reason(drafting) if drafting is not None else "",
        acceptance=stats.acceptance_rate,
        drafted=drafted,
        per_step=stats.mean_accepted_length if drafted else None,
        draft_length=drafted / stats.drafted_steps if stats.drafted_steps else None,
        model_share=stats.draft_n_model / drafted if drafted else None,
        first_s=(stats.measuring_ns + stats.first_token_ns) / 1e9 if stats.first_token_ns else None,
        prompt_speed=stats.reading_per_second,
    )


def of_document(document: Mapping[str, Any]) -> Numbers:
    """Return the stored numbers of an answer; values that are no numbers are left out."""

    def number(name: str) -> float | None:
        value = document.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 < value < _TOO_MUCH else None

    def share(name: str) -> float | None:
        # An acceptance of 0 is a measurement.
        value = document.get(name)
        return 0.0 if drafted and value == 0 and not isinstance(value, bool) else number(name)

    tokens, first_ms, ratio = number("predicted_n"), number("first_token_ms"), number("speedup")
    drafted = number("draft_n")
    # An older document without `speedup_measured` has a predicted speedup.
    measured = document.get("speedup_measured") is True
    return Numbers(
        tokens=int(tokens) if tokens is not None else None,
        speed=number("tokens_per_second") or number("predicted_per_second"),
        speedup=Speedup(ratio, measured) if ratio is not None and drafted else None,
        acceptance=share("acceptance") if drafted else None,
        drafted=drafted or 0.0,
        per_step=number("mean_accepted_length") if drafted else None,
        draft_length=number("draft_length"),
        model_share=share("model_share"),
        first_s=(first_ms + (number("measuring_ms") or 0.0)) / 1e3 if first_ms is not None else None,
        prompt_speed=number("reading_per_second"),
    )


def in_a_line(numbers: Numbers) -> str:
    """Return the numbers of an answer in one line."""
    parts = (
        numbers.length,
        numbers.pace if numbers.speed is not None else "",
        str(numbers.speedup) if numbers.speedup is not None else "",
        numbers.drafted_by,
        numbers.accepted,
        f"{numbers.per_step:.1f} tokens per step" if numbers.per_step is not None else "",
    )
    return ", ".join(part for part in parts if part) or "No numbers were stored."
