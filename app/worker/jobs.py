"""The jobs of a chat: answer a conversation, name it, and load a lost pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.conversations.titles import make_title
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.worker.events import Event, Finished, JobEnded
from app.worker.request import AnswerRequest, LoadedPair

if TYPE_CHECKING:
    from app.engine.interfaces import Controls


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """Answer a request; the last event is `Finished`."""

    request: AnswerRequest
    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        # Imported on the worker's thread, so that the first frame of the screen does not wait for it.
        from app.worker.responder import answer

        return answer(pair, number, self.request, controls)


@dataclass(frozen=True, slots=True)
class ReloadJob:
    """Load the pair of an engine process that was lost, before anyone asks for it."""

    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, None)


@dataclass(frozen=True, slots=True)
class TitleJob:
    """Ask the model for a title after a conversation; the result is "" if it was stopped, failed or is too long.

    The prefill of the request opens a quotation that the title ends.
    """

    request: AnswerRequest
    loads = False
    gives_way = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        title = ""
        try:
            for event in AnswerJob(self.request).run(pair, number, controls):
                if isinstance(event, Finished) and event.reason is FinishReason.STOP:
                    begun = self.request.prefill.text if self.request.prefill is not None else ""
                    title = make_title(event.text.removeprefix(begun)).strip(" \"'“”.")
        except AppError:
            # The title made from the first prompt stays.
            pass
        yield JobEnded(number, title)
