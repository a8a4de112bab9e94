"""What automatic drafting says of itself: who drafts, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.engine.auto.attempt import Attempt
from app.engine.auto.backlog import Backlog
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.proposal import NgramSource
from app.engine.auto.run_length import RunLength
from app.engine.types import MODEL_FAILED, MODEL_OFF, Source

Reason = tuple[Source | Literal["off"], str]
"""The source of a round's draft, or that there is none, and why."""

HELD_UP: Reason = (
    "off",
    "the last draft took far longer than it should; one token at a time until the machine is itself again",
)
LOOKING: Reason = ("off", "one plain step, to know what drafting gains")


@dataclass(frozen=True, slots=True)
class Reasons:
    """Everything that a reason may lie in.

    Attributes:
        memory: What is known about the pair.
        holding: What the draft model's drafts were like.
        lookup: The source without a model.
        backlog: What the draft model has not read.
        has_model: Whether there is a draft model.
        has_failed: Whether it failed in this answer.
    """

    memory: PairStatistics
    holding: RunLength
    lookup: NgramSource
    backlog: Backlog
    has_model: bool
    has_failed: bool = False

    def of(self, attempt: Attempt, impossible: str) -> Reason:
        """What a round was, and why.

        Args:
            attempt: The round.
            impossible: Why no draft of the model can pay on this machine; empty where one could.
        """
        if attempt.used_model:
            return "model", self._about_model(attempt.n_rows)
        if attempt.proposal.tokens and attempt.n_rows > 1:
            return "look-up", f"the last {self.lookup.match_length} tokens were said before"
        if self.has_failed:
            return self._model_off(MODEL_FAILED)
        if not self.memory.ledger.allows_model:
            lost = "drafts cost more than they brought lately"
            return self._model_off(lost) if self.memory.ledger.allows_any else ("off", lost)
        if not self.has_model:
            # There may be one that was left out.
            alone = "only look-up drafts, and it finds nothing worth checking"
            return "off", alone if self.lookup.is_there else "there is no draft model, and look-up was left out"
        if impossible:
            return self._model_off(impossible)
        if not self.backlog.is_worth_reading:
            dear = "reading what was said so far with the draft model would cost more than it is likely to bring"
            return self._model_off(dear)
        if not self.memory.trial.on:
            return self._model_off("drafts cost more than they brought; tried again from time to time")
        if self.backlog.unread:
            # Of the prompt, or of an answer that went on without it.
            behind = "the draft model has not read all of the text yet"
            slowly = ", and reads on only where look-up finds nothing" if self.lookup.is_there else ""
            return self._model_off(behind + slowly)
        return "off", "one token at a time is faster here"

    def _about_model(self, n_rows: int) -> str:
        """What the draft model's round was like. Its odds are told when most of them are this answer's own."""
        if n_rows == 1:
            return "the draft model was not sure enough for its draft to be worth checking"
        if not self.holding.is_known:
            return "the draft model runs ahead"
        return f"once right, the draft model stays right {self.holding.survival:.0%} of the time"

    def _model_off(self, why: str) -> Reason:
        """What keeps the draft model from drafting leaves the look-up as it is, if there are both."""
        both = self.has_model and self.lookup.is_there
        return "off", f"{MODEL_OFF}{why}; look-up still runs" if both else why
