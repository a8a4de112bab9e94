"""An answer whose process does not respond to the stop, as it would have ended."""

from __future__ import annotations

from app.engine.stats import GenerationStats
from app.engine.types import AutoDraft, DraftingStatus, DraftParams, FinishReason
from app.events import AnswerPlan, Event, Finished, StepCompleted
from app.request import AnswerRequest


class PartialAnswer:
    """Gathers what has come of an answer.

    Args:
        request: What was asked.
    """

    def __init__(self, request: AnswerRequest) -> None:
        self._request = request
        self._text = [request.begun.text] if request.begun is not None else []
        self._reasoning = [request.begun.reasoning] if request.begun is not None else []
        self._stats = GenerationStats()
        self._status: DraftingStatus | None = None

    def follow(self, event: Event) -> None:
        """Take an event of the answer."""
        if isinstance(event, StepCompleted):
            for segment in event.segments:
                (self._reasoning if segment.reasoning else self._text).append(segment.text)
            self._stats, self._status = event.stats, event.drafting

    def finished(self, number: int) -> Finished:
        """Its end, as that of an answer which was stopped.

        Args:
            number: Of the request.
        """
        return Finished(
            request=number,
            reason=FinishReason.CANCELLED,
            text="".join(self._text).lstrip(),
            reasoning="".join(self._reasoning).strip(),
            stats=self._stats,
            plan=self._plan(),
            drafting=self._status,
        )

    def _plan(self) -> AnswerPlan:
        drafting, sampling, stats = self._request.drafting, self._request.sampling, self._stats
        mode = "auto" if isinstance(drafting, AutoDraft) else "fixed" if drafting is not None else "off"
        sources = {"model": stats.draft_n_model, "look-up": stats.draft_n - stats.draft_n_model}
        return AnswerPlan(
            mode=mode,
            drafter="+".join(name for name, drafted in sources.items() if drafted) or "none",
            draft_params=drafting if isinstance(drafting, DraftParams) else None,
            seed=None if sampling.is_greedy else sampling.seed,
        )
