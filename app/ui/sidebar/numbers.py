"""Numbers of one answer as text, from its counters or from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.drafting_report import Speedup, accepted, drafted_by, rate
from app.engine.sources import Source, drafter_of
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus
from app.session.turn import counters

_TOO_MUCH = 1e15


@dataclass(frozen=True, slots=True)
class Numbers:
    """Measurements of one answer; None if not measured. Speeds are in tokens per second.

    Attributes:
        speed: Speed after the first token.
        per_step: Tokens per verify step.
        model_share: Share of the drafted tokens that the drafter proposed.
        drafter: Source of drafts other than n-grams.
        first_s: Seconds to the first token, including the measurement of a new pair.
        prompt_speed: Prefill speed of the target.
    """

    tokens: int | None = None
    speed: float | None = None
    speedup: Speedup | None = None
    acceptance: float | None = None
    drafted: float = 0.0
    per_step: float | None = None
    draft_length: float | None = None
    model_share: float | None = None
    drafter: Source = Source.MODEL
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
        return drafted_by(self.drafter, self.model_share) if self.model_share is not None else ""

    @property
    def undrafted_speed(self) -> float | None:
        """Tokens per second without drafts; None unless measured."""
        gain = self.speedup
        return self.speed / gain.ratio if self.speed is not None and gain is not None and gain.measured else None


def of_counters(stats: GenerationStats, drafting: DraftingStatus | None) -> Numbers:
    """Return the numbers of a running or finished answer."""
    return of_document(counters(stats, drafting))


def of_document(document: Mapping[str, Any]) -> Numbers:
    """Return the counters of an answer as numbers; values that are no numbers are left out."""
    stored = {
        name: float(value)
        for name, value in document.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _TOO_MUCH
    }
    drafted, first_ms, ratio = stored.get("draft_n", 0.0), stored.get("first_token_ms"), stored.get("speedup")
    # An older document without `speedup_measured` has a predicted speedup.
    measured = document.get("speedup_measured") is True
    return Numbers(
        tokens=int(stored.get("predicted_n", 0)) or None,
        speed=stored.get("tokens_per_second") or stored.get("predicted_per_second") or None,
        speedup=Speedup(ratio, measured) if ratio and drafted else None,
        acceptance=stored.get("acceptance") if drafted else None,
        drafted=drafted,
        per_step=stored.get("mean_accepted_length") if drafted else None,
        draft_length=stored.get("draft_length") or None,
        model_share=stored.get("model_share") if drafted else None,
        drafter=drafter_of(str(document.get("drafter"))),
        # Answers of older versions began with a measurement.
        first_s=(first_ms + stored.get("measuring_ms", 0.0)) / 1e3 if first_ms else None,
        prompt_speed=stored.get("reading_per_second") or None,
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
