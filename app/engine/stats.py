"""Numbers of an answer: counters, rates derived from them, and their stored form.

Times are nanoseconds of a monotonic clock. Names follow llama-server's `timings` where possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat, zip_longest
from typing import Any

from app.core.units import counted
from app.engine.drafting_report import FEWEST_DRAFTED, Speedup, acceptance, rate
from app.engine.sources import Source, drafter_of

FEWEST_READ = 16
"""Fewest prompt tokens that give a rate; a shorter prompt takes about as long as a single token."""
_TOO_MUCH = 1e15
_PROMPT_FIELDS = ("prompt_n", "cache_n", "prompt_ns", "first_token_ns")
_SUMMED_FIELDS = (
    *_PROMPT_FIELDS, "predicted_n", "draft_n", "draft_n_accepted", "draft_n_model", "verify_steps", "drafted_steps",
    "draft_prompt_ns", "predicted_ns", "draft_ns", "verify_ns", "native_ns",
)  # fmt: skip
_STORED_PROPERTIES = (
    "prompt_n", "cache_n", "predicted_n", "predicted_per_second", "tokens_per_second", "reading_per_second", "draft_n",
    "draft_n_accepted", "mean_accepted_length", "first_token_ms", "predicted_ms", "acceptance", "draft_length",
    "model_share", "drafter", "mode",
)  # fmt: skip
"""Stored properties, except the speedup."""


def _rate(count: float, nanoseconds: int) -> float | None:
    return count * 1e9 / nanoseconds if count > 0 and nanoseconds > 0 else None


@dataclass
class GenerationStats:
    """Counters of a running, finished or stored answer, and rates derived from them.

    Prompt time is the prefill of both models. Generation time is everything after the first token, except the draft
    model's prefill. llama-server counts in the same way. A rate is None if there was nothing to measure.
    """

    cache_n: int = 0
    """Prompt tokens that the target's cache already held."""
    prompt_n: int = 0
    predicted_n: int = 0
    """Generated tokens, including an end token."""
    draft_n: int = 0
    """Submitted drafted tokens."""
    draft_n_accepted: int = 0
    draft_n_model: int = 0
    """Submitted tokens from models; the others are from free sources."""
    verify_steps: int = 0
    """Steps of the target after the first token, with or without a draft."""
    drafted_steps: int = 0
    """Steps with at least one drafted token."""
    accepted_by_position: tuple[int, ...] = ()
    """Accepted drafted tokens by depth."""
    prompt_ns: int = 0
    draft_prompt_ns: int = 0
    first_token_ns: int = 0
    """Time to first token, from the start of the answer."""
    predicted_ns: int = 0
    draft_ns: int = 0
    verify_ns: int = 0
    native_ns: int = 0
    """Generation time inside native calls."""
    drafter: str | None = None
    """Sources that may draft, as in "model+ngram", or "none"."""
    mode: str | None = None
    """ "auto", "fixed" or "off"."""
    speedup: Speedup | None = None

    def observe_step(self, drafted: Sequence[Source], n_accepted: int) -> None:
        """Count a step, given the source of each drafted token."""
        self.verify_steps += 1
        if drafted:
            self.drafted_steps += 1
            self.draft_n += len(drafted)
            self.draft_n_model += sum(not source.is_free for source in drafted)
            self.draft_n_accepted += n_accepted
            counts = zip_longest(self.accepted_by_position, repeat(1, n_accepted), fillvalue=0)
            self.accepted_by_position = tuple(before + new for before, new in counts)

    def observe_speedup(self, speedup: Speedup | None) -> None:
        """Set the speedup so far: none without drafts, and no verdict on few drafted tokens."""
        self.speedup = speedup if self.draft_n else None
        if self.speedup is not None and (self.draft_n < FEWEST_DRAFTED or self.speedup.is_none):
            self.speedup = replace(self.speedup, verdict="")

    def snapshot(self) -> GenerationStats:
        return GenerationStats(**vars(self))

    @property
    def prompt_per_second(self) -> float | None:
        """Return the target's prompt tokens over the prompt time of both models, as llama-server counts it."""
        return _rate(self.prompt_n, self.prompt_ns + self.draft_prompt_ns)

    @property
    def reading_per_second(self) -> float | None:
        """Return the target's own prompt tokens per second; None if it read too few.

        The draft model may have to read tokens that the target had cached.
        """
        return _rate(self.prompt_n, self.prompt_ns) if self.prompt_n >= FEWEST_READ else None

    @property
    def tokens_per_second(self) -> float | None:
        """Return tokens per second after the first token, including the draft's prefill; the basis of speedups."""
        return _rate(self.predicted_n - 1, self.predicted_ns + self.draft_prompt_ns)

    @property
    def predicted_per_second(self) -> float | None:
        """Return tokens per second after the first token, as llama-server counts it."""
        return _rate(self.predicted_n - 1, self.predicted_ns)

    @property
    def acceptance(self) -> float | None:
        """Return accepted over drafted tokens, if any were drafted."""
        return self.draft_n_accepted / self.draft_n if self.draft_n else None

    @property
    def mean_accepted_length(self) -> float | None:
        """Return tokens per step, including the target's own token."""
        return (self.predicted_n - 1) / self.verify_steps if self.verify_steps else None

    @property
    def draft_length(self) -> float | None:
        """Return drafted tokens per step with a draft."""
        return self.draft_n / self.drafted_steps if self.drafted_steps else None

    @property
    def model_share(self) -> float | None:
        """Return the drafter's share of the drafted tokens; unknown for old answers."""
        return self.draft_n_model / self.draft_n if self.drafted_steps or self.draft_n_model else None

    @property
    def first_token_ms(self) -> float:
        return self.first_token_ns / 1e6

    @property
    def predicted_ms(self) -> float:
        return self.predicted_ns / 1e6

    @property
    def context_n(self) -> int | None:
        """Return the tokens of the context at the end of the answer, if known."""
        return self.cache_n + self.prompt_n + self.predicted_n if self.prompt_n and self.predicted_n else None

    @property
    def undrafted_speed(self) -> float | None:
        """Return tokens per second without drafts, if measured."""
        speed, gain = self.tokens_per_second, self.speedup
        return speed / gain.ratio if speed is not None and gain is not None and gain.measured else None

    @property
    def per_step(self) -> float | None:
        """Return tokens per verify step, if any were drafted."""
        return self.mean_accepted_length if self.draft_n else None

    @property
    def source(self) -> Source:
        """Return the source of drafts other than n-grams."""
        return drafter_of(self.drafter or "")

    @property
    def timings(self) -> dict[str, Any]:
        """Return the numbers that llama-server reports, under its names."""
        prompt_ms = (self.prompt_ns + self.draft_prompt_ns) / 1e6
        return {
            "cache_n": self.cache_n,
            "prompt_n": self.prompt_n,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / max(1, self.prompt_n),
            "prompt_per_second": self.prompt_per_second,
            "predicted_n": self.predicted_n,
            "predicted_ms": self.predicted_ms,
            "predicted_per_token_ms": self.predicted_ms / max(1, self.predicted_n),
            "predicted_per_second": self.predicted_per_second,
            "draft_n": self.draft_n,
            "draft_n_accepted": self.draft_n_accepted,
            "draft_prompt_ms": self.draft_prompt_ns / 1e6,
        }

    @property
    def overhead_ns(self) -> int:
        """Return the generation time outside native calls."""
        return max(0, self.predicted_ns - self.native_ns)

    def plus(self, other: GenerationStats) -> GenerationStats:
        """Return the counters and times of two answers together."""
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED_FIELDS}
        return replace(self, **sums)

    def after(self, before: GenerationStats) -> GenerationStats:
        """Return the numbers of a continued answer, including its beginning."""
        if not before.predicted_n:
            return self
        # The prompt was read before the beginning.
        first: dict[str, Any] = {name: getattr(before, name) for name in _PROMPT_FIELDS}
        return replace(self.plus(before), **first)

    # Stored form

    @property
    def document(self) -> dict[str, Any]:
        """Return the measured numbers as JSON values, for `read`."""
        gain = self.speedup
        found = {name: getattr(self, name) for name in _STORED_PROPERTIES}
        if gain is not None:
            found |= {"speedup": gain.ratio, "speedup_measured": gain.measured, "verdict": gain.verdict or None}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> GenerationStats:
        """Read stored numbers, also from older versions; skip values that are no numbers."""
        found = {
            name: value
            for name, value in document.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _TOO_MUCH
        }
        texts = {name: value for name, value in document.items() if isinstance(value, str)}

        def over(count: float, rate_name: str) -> int:
            rate = found.get(rate_name, 0)
            # The ratio to a tiny rate may be infinite.
            return round(count / rate) if rate > 1 / _TOO_MUCH else 0

        names = ("cache_n", "prompt_n", "predicted_n", "draft_n")
        cache_n, prompt_n, predicted_n, draft_n = (round(found.get(name, 0)) for name in names)
        later_n = max(0, predicted_n - 1)
        spent_ns = over(1e9 * later_n, "predicted_per_second") or round(1e6 * found.get("predicted_ms", 0))
        # An older document without `speedup_measured` has a predicted speedup.
        gain = Speedup(found.get("speedup", 0), document.get("speedup_measured") is True, texts.get("verdict", ""))
        return cls(
            cache_n=cache_n,
            prompt_n=prompt_n,
            predicted_n=predicted_n,
            draft_n=draft_n,
            draft_n_accepted=round(found.get("draft_n_accepted", found.get("acceptance", 0) * draft_n)),
            draft_n_model=round(found.get("model_share", 0) * draft_n),
            verify_steps=over(later_n, "mean_accepted_length"),
            drafted_steps=over(draft_n, "draft_length"),
            prompt_ns=over(1e9 * prompt_n, "reading_per_second"),
            draft_prompt_ns=max(0, over(1e9 * later_n, "tokens_per_second") - spent_ns),
            # Answers of older versions began with a measurement.
            first_token_ns=round(1e6 * (found.get("first_token_ms", 0) + found.get("measuring_ms", 0))),
            predicted_ns=spent_ns,
            drafter=texts.get("drafter"),
            mode=texts.get("mode"),
            speedup=gain if gain.ratio and draft_n else None,
        )

    # Text form

    @property
    def pace(self) -> str:
        """Return the token count, and the speed if measured: "101 tokens, 50 tok/s"."""
        length, speed = counted(self.predicted_n, "token"), self.tokens_per_second
        return f"{length}, {rate(speed)}" if speed is not None else length

    @property
    def accepted(self) -> str | None:
        """Return the acceptance as shown, "78% accepted", if anything was drafted."""
        return f"{acceptance(self.draft_n_accepted, self.draft_n)} accepted" if self.draft_n else None

    @property
    def drafted_by(self) -> str | None:
        """Return the sources of the drafts, if known."""
        share = self.model_share
        names = [self.source.label] * bool(share) + [Source.NGRAM.label] * (share is not None and share < 1)
        return " and ".join(names) or None

    def __str__(self) -> str:
        """Return the most important numbers in one line."""
        parts = (
            self.pace if self.predicted_n else None,
            str(self.speedup) if self.speedup is not None else None,
            self.drafted_by,
            self.accepted,
            f"{self.per_step:.1f} tokens per step" if self.per_step is not None else None,
        )
        return ", ".join(filter(None, parts)) or "No numbers were stored."
