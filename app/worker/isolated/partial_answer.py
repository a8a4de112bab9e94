"""An answer whose process does not respond to the stop, as it would have ended."""

from __future__ import annotations

from app.engine.stats import GenerationStats
from app.engine.types import DraftingStatus, FinishReason, Source
from app.models.pair_info import PairInfo
from app.worker.events import AnswerPlan, Event, Finished, Step
from app.worker.request import AnswerRequest


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
        self._sources: tuple[Source, ...] = ()
        """Who may draft, once anybody was asked to."""

    def follow(self, event: Event, pair: PairInfo | None) -> None:
        """Take an event of the answer.

        Args:
            event: What has come.
            pair: Who answers.
        """
        if isinstance(event, Step):
            for segment in event.segments:
                (self._reasoning if segment.reasoning else self._text).append(segment.text)
            self._stats, self._status = event.stats, event.drafting
            if pair is not None and event.drafting is not None:
                self._sources = pair.sources(self._request.drafting)

    def finished(self, number: int) -> Finished:
        """Its end, as that of an answer which was stopped.

        Args:
            number: Of the request.
        """
        sampling = self._request.sampling
        return Finished(
            request=number,
            reason=FinishReason.CANCELLED,
            text="".join(self._text).lstrip(),
            reasoning="".join(self._reasoning).strip(),
            stats=self._stats,
            plan=AnswerPlan.of(self._request.drafting, self._sources, None if sampling.is_greedy else sampling.seed),
            drafting=self._status,
        )
