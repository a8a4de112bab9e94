"""Count the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.engine.interfaces import Cancelled
from app.worker.events import Event, JobEnded
from app.worker.request import AnswerRequest, LoadedPair, prompt_of


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Count the tokens that the prompt of a request has; the result is a number.

    Attributes:
        request: The request, which is not answered.
    """

    request: AnswerRequest
    loads = True

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        yield JobEnded(number, len(prompt_of(pair, self.request).tokens))
