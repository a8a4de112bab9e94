"""Let the model name a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.conversations.titles import make_title
from app.core.errors import AppError
from app.engine.interfaces import Cancelled, Controls
from app.engine.types import FinishReason
from app.worker.events import Event, Finished, JobEnded
from app.worker.request import AnswerRequest, LoadedPair


@dataclass(frozen=True, slots=True)
class TitleJob:
    """Ask the model for a title; the result is "" if it was stopped or failed.

    Attributes:
        request: The conversation, ending with the question.
    """

    request: AnswerRequest
    loads = False

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        # Not needed for the first frame of the screen.
        from app.worker.responder import answer

        title = ""
        try:
            for event in answer(pair, number, self.request, Controls(cancelled)):
                if isinstance(event, Finished) and event.reason is not FinishReason.CANCELLED:
                    title = make_title(event.text).strip(" \"'“”.")
        except AppError:
            # The title made from the first prompt stays.
            pass
        yield JobEnded(number, title)
