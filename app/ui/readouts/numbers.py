"""The numbers of one answer as people read them, from its counters or from what the store has kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.drafted_by import gain
from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus

_TOO_MUCH = 1e15


@dataclass(frozen=True, slots=True)
class Numbers:
    """What was measured of one answer; None for what was not.

    Attributes:
        tokens: Generated.
        speed: Tokens per second after the first one, the draft's reading of the prompt included.
        speedup: Time of plain decoding over time spent.
        verdict: "winning", "break-even", "losing", or ""; of an answer that goes on also "so far".
        reason: What drafts now and why, as one sentence.
        acceptance: Accepted drafted tokens over drafted ones.
        per_check: Tokens per verify round.
        draft_length: Mean tokens of a draft.
        model_share: Drafted tokens that a draft model wrote over all drafted ones.
        first_s: Seconds from the prompt to the first token, the measuring of a new pair among them.
        prompt_speed: Prompt tokens per second of the target.
    """

    tokens: int | None = None
    speed: float | None = None
    speedup: float | None = None
    verdict: str = ""
    reason: str = ""
    acceptance: float | None = None
    per_check: float | None = None
    draft_length: float | None = None
    model_share: float | None = None
    first_s: float | None = None
    prompt_speed: float | None = None

    @property
    def length(self) -> str:
        """The tokens as they are shown, "1 token"; "" where they are not known."""
        return f"{self.tokens:,} token{'s' * (self.tokens != 1)}" if self.tokens is not None else ""

    @property
    def ratio(self) -> str:
        """The speed-up as it is shown, "1.7x"; "" where it was not measured."""
        return gain(self.speedup, self.verdict) if self.speedup is not None else ""

    @property
    def plain_speed(self) -> float | None:
        """Tokens per second of plain decoding, by the measured cost of its steps."""
        return self.speed / self.speedup if self.speed is not None and self.speedup else None


def of_counters(stats: GenerationStats, drafting: DraftingStatus | None) -> Numbers:
    """The numbers of an answer that runs or has just ended."""
    drafted = stats.draft_n
    return Numbers(
        tokens=stats.predicted_n,
        speed=stats.tokens_per_second,
        speedup=drafting.speedup if drafting is not None else None,
        verdict=drafting.verdict if drafting is not None else "",
        reason=drafting.sentence if drafting is not None else "",
        acceptance=stats.acceptance_rate,
        per_check=stats.mean_accepted_length if drafted else None,
        draft_length=drafted / stats.drafted_steps if stats.drafted_steps else None,
        model_share=stats.draft_n_model / drafted if drafted else None,
        first_s=(stats.measuring_ns + stats.first_token_ns) / 1e9 if stats.first_token_ns else None,
        prompt_speed=stats.reading_per_second,
    )


def of_document(document: Mapping[str, Any]) -> Numbers:
    """The numbers that the store has of an answer; it may come from a file, so what is no number is left out."""

    def number(name: str) -> float | None:
        value = document.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 < value < _TOO_MUCH else None

    def share(name: str) -> float | None:
        """None of the drafts is a measurement too, where there were any."""
        value = document.get(name)
        return 0.0 if drafted and value == 0 and not isinstance(value, bool) else number(name)

    tokens, first_ms, verdict = number("predicted_n"), number("first_token_ms"), document.get("verdict")
    drafted = number("draft_n")
    return Numbers(
        tokens=int(tokens) if tokens is not None else None,
        speed=number("tokens_per_second") or number("predicted_per_second"),
        speedup=number("speedup"),
        verdict=verdict if isinstance(verdict, str) else "",
        acceptance=share("acceptance") if drafted else None,
        per_check=number("mean_accepted_length") if drafted else None,
        draft_length=number("draft_length"),
        model_share=share("model_share"),
        first_s=(first_ms + (number("measuring_ms") or 0.0)) / 1e3 if first_ms is not None else None,
        prompt_speed=number("reading_per_second"),
    )
