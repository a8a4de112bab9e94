"""Reasons: the source of a step's draft, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.engine.auto.acceptance import RunLength
from app.engine.auto.backlog import Backlog
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.proposal import NgramSource, Proposal
from app.engine.types import MODEL_FAILED, MODEL_OFF, Source

Reason = tuple[Source | Literal["off"], str]
"""Source of a step's draft, or "off", and why."""

STALLED: Reason = ("off", "paused: system is busy")
CHECKING: Reason = ("off", "one token without a draft, to measure the speedup")


@dataclass(slots=True)
class Attempt:
    """One step of automatic drafting.

    Attributes:
        proposal: The draft, and what was drafted but not submitted.
        used_model: Whether the draft model took part.
        n_drafted: Tokens that it drafted.
        catch_up_ns: Nanoseconds that it spent on text it had missed.
        expected: Expected gain of the step over a single token, in tokens.
        n_rows: Size of the batch, once it has run.
        has_failed: Whether the draft model failed.
    """

    proposal: Proposal
    used_model: bool = False
    n_drafted: int = 0
    catch_up_ns: int = 0
    expected: float = 0.0
    n_rows: int = 1
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Reasons:
    """Everything that can be a reason.

    Attributes:
        statistics: What is known about the pair.
        run_length: How far drafts were right in this answer.
        ngram: The source without a model.
        backlog: What the draft model has not read.
        has_model: Whether there is a draft model.
        has_failed: Whether it failed in this answer.
    """

    statistics: PairStatistics
    run_length: RunLength
    ngram: NgramSource
    backlog: Backlog
    has_model: bool
    has_failed: bool = False

    def of(self, attempt: Attempt, impossible: str) -> Reason:
        """Return source and reason of a step.

        Args:
            attempt: The step.
            impossible: Why the draft model cannot gain here; "" if it can.
        """
        if attempt.used_model:
            return "model", self._about_model(attempt.n_rows)
        if attempt.proposal.tokens and attempt.n_rows > 1:
            return "ngram", f"the last {self.ngram.match_length} tokens occurred before"
        if self.has_failed:
            return self._model_off(MODEL_FAILED)
        if not self.statistics.ledger.allows_model:
            lost = "recent drafts cost more than they gained"
            return self._model_off(lost) if self.statistics.ledger.allows_any else ("off", lost)
        if not self.has_model:
            return "off", "no n-gram match" if self.ngram.is_there else "no draft model, and n-gram is off"
        if impossible:
            return self._model_off(impossible)
        if not self.backlog.is_worth_reading:
            return self._model_off("reading this text would cost more than drafts gain")
        if not self.statistics.trial.on:
            return self._model_off("no recent speedup; Tandem retries occasionally")
        if self.backlog.unread:
            return self._model_off("it is still reading the text")
        return "off", "single tokens are faster here"

    def _about_model(self, n_rows: int) -> str:
        if n_rows == 1:
            return "not confident enough"
        if not self.run_length.is_known:
            return "the draft model proposes tokens"
        return f"{self.run_length.survival:.0%} of drafted tokens accepted"

    def _model_off(self, why: str) -> Reason:
        """Return a reason that turns off the draft model only, if n-gram drafting goes on."""
        return "off", f"{MODEL_OFF}{why}" if self.has_model and self.ngram.is_there else why
