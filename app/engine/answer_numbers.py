"""The numbers of one answer: one value for every view, for `--json` and for the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from app.engine.drafting_report import accepted, drafted_by, rate, speedup_of
from app.engine.sources import Source, drafter_of
from app.engine.stats import GenerationStats, Speedup
from app.engine.types import DraftingStatus

_TOO_MUCH = 1e15


@dataclass(frozen=True, slots=True)
class AnswerNumbers:
    """Measurements of a running, finished or stored answer, by their stored names; None if not measured.

    Attributes:
        draft_length: Drafted tokens per step with a draft.
        model_share: Share of the drafted tokens that the drafter proposed.
        drafter: Sources of drafts, as in "model+ngram".
        mode: "auto", "fixed" or "off".
    """

    prompt_n: float | None = None
    cache_n: float | None = None
    predicted_n: float | None = None
    predicted_per_second: float | None = None
    tokens_per_second: float | None = None
    reading_per_second: float | None = None
    draft_n: float | None = None
    draft_n_accepted: float | None = None
    mean_accepted_length: float | None = None
    first_token_ms: float | None = None
    predicted_ms: float | None = None
    acceptance: float | None = None
    draft_length: float | None = None
    model_share: float | None = None
    drafter: str | None = None
    mode: str | None = None
    speedup: Speedup | None = None

    @classmethod
    def of(
        cls,
        stats: GenerationStats,
        drafting: DraftingStatus | None,
        drafter: str | None = None,
        mode: str | None = None,
    ) -> AnswerNumbers:
        """Return the numbers of a running or finished answer; `drafter` defaults to the one that drafts now."""
        return cls(
            **{name: getattr(stats, name) for name in _MEASURED if hasattr(stats, name)},
            first_token_ms=stats.first_token_ns / 1e6,
            predicted_ms=stats.predicted_ns / 1e6,
            acceptance=stats.acceptance_rate,
            draft_length=stats.draft_n / stats.drafted_steps if stats.drafted_steps else None,
            model_share=stats.draft_n_model / stats.draft_n if stats.draft_n else None,
            drafter=drafter or (drafting.drafter if drafting is not None else None),
            mode=mode,
            speedup=speedup_of(stats, drafting),
        )

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> AnswerNumbers:
        """Return stored numbers, also those of older versions; leave out values that are no numbers."""
        found = {
            name: value
            for name, value in document.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _TOO_MUCH
        }
        texts = {name: value for name, value in document.items() if isinstance(value, str)}
        ratio = found.get("speedup")
        if "first_token_ms" in found:
            # Answers of older versions began with a measurement.
            found["first_token_ms"] += found.get("measuring_ms", 0)
        # An older document without `speedup_measured` has a predicted speedup.
        gain = Speedup(ratio or 0, document.get("speedup_measured") is True, texts.get("verdict", ""))
        return cls(
            **{name: found[name] for name in _MEASURED & found.keys()},
            drafter=texts.get("drafter"),
            mode=texts.get("mode"),
            speedup=gain if ratio and found.get("draft_n") else None,
        )

    def after(self, before: AnswerNumbers) -> AnswerNumbers:
        """Return the numbers of a whole answer that was continued, after a beginning whose tokens were counted."""
        if not before.predicted_n:
            return self
        parts = before, self
        sums: dict[str, Any] = {name: sum(getattr(part, name) or 0 for part in parts) for name in _COUNT_FIELDS}
        means: dict[str, Any] = {name: _mean(parts, name, weight) for name, weight in _WEIGHTS.items()}
        # The prompt was read before the beginning.
        first: dict[str, Any] = {name: getattr(before, name) for name in _PROMPT_FIELDS}
        return replace(self, **sums, **means, **first)

    @property
    def document(self) -> dict[str, Any]:
        """The measured numbers as JSON values, for `read`."""
        gain = self.speedup
        speedup = (gain.ratio, gain.measured, gain.verdict or None) if gain is not None else (None,) * 3
        found = asdict(self) | dict(zip(("speedup", "speedup_measured", "verdict"), speedup, strict=True))
        return {name: value for name, value in found.items() if value is not None}

    @property
    def speed(self) -> float | None:
        """Tokens per second after the first token."""
        return self.tokens_per_second or self.predicted_per_second or None

    @property
    def context_n(self) -> int | None:
        """Tokens of the context at the end of the answer, if known."""
        parts = [n for n in (self.cache_n, self.prompt_n, self.predicted_n) if n is not None]
        return int(sum(parts)) if len(parts) == 3 else None

    @property
    def undrafted_speed(self) -> float | None:
        """Tokens per second without drafts; None unless measured."""
        gain = self.speedup
        return self.speed / gain.ratio if self.speed is not None and gain is not None and gain.measured else None

    @property
    def per_step(self) -> float | None:
        """Tokens per verify step; None if nothing was drafted."""
        return self.mean_accepted_length if self.draft_n else None

    @property
    def source(self) -> Source:
        """The source of drafts other than n-grams."""
        return drafter_of(self.drafter or "")

    # As text

    @property
    def pace(self) -> str:
        """Token count and speed, as far as measured: "101 tokens, 50 tok/s"."""
        n = self.predicted_n
        length = f"{n:,.0f} token{'s' * (n != 1)}" if n is not None else ""
        return ", ".join(filter(None, (length, rate(self.speed) if self.speed is not None else "")))

    @property
    def accepted(self) -> str:
        """Acceptance as shown, "78% accepted"; empty if nothing was drafted."""
        share, n = self.acceptance, self.draft_n
        return accepted(share * n, n) if share is not None and n else ""

    @property
    def drafted_by(self) -> str:
        """Sources of the drafts; empty if unknown."""
        return drafted_by(self.source, self.model_share) if self.model_share is not None and self.draft_n else ""

    def __str__(self) -> str:
        """Return the most important numbers in one line."""
        parts = (
            self.pace if self.predicted_n else "",
            str(self.speedup) if self.speedup is not None else "",
            self.drafted_by,
            self.accepted,
            f"{self.per_step:.1f} tokens per step" if self.per_step is not None else "",
        )
        return ", ".join(filter(None, parts)) or "No numbers were stored."


_COUNT_FIELDS = ("predicted_n", "predicted_ms", "draft_n", "draft_n_accepted")
_PROMPT_FIELDS = ("prompt_n", "cache_n", "first_token_ms", "reading_per_second")
_RATES = ("tokens_per_second", "predicted_per_second", "mean_accepted_length", "draft_length")
_WEIGHTS = {
    **dict.fromkeys(_RATES[:3], "predicted_n"),
    **dict.fromkeys(("draft_length", "acceptance", "model_share"), "draft_n"),
}
"""The count that weighs each ratio; that of a rate is its numerator."""


def _mean(parts: Sequence[AnswerNumbers], name: str, weight: str) -> float | None:
    """Return the mean of a ratio, weighted by a count; rates are averaged by their denominators."""
    known = [(getattr(part, name), getattr(part, weight)) for part in parts]
    known = [(ratio, n) for ratio, n in known if ratio is not None and n and (ratio or name not in _RATES)]
    total = sum(n for _, n in known)
    if name in _RATES:
        return total / sum(n / ratio for ratio, n in known) if known else None
    return sum(ratio * n for ratio, n in known) / total if known else None


_MEASURED = {field.name for field in fields(AnswerNumbers)} - {"drafter", "mode", "speedup"}
