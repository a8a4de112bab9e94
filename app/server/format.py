"""The interface of the API formats, and server-sent events."""

from __future__ import annotations

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.server.answer import Answer, End, Part, PrefillProgress
from app.server.fields import Fields
from app.worker.events import Finished
from app.worker.request import AnswerRequest

Report: TypeAlias = Callable[[Finished], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Names:
    """Id, model and time of an answer; the prefix of the id is that in the API's documentation.

    `report` returns more about an answer, for chat completions that ask for it.
    """

    prefix: str
    model: str
    report: Report | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    token: str = field(default_factory=lambda: secrets.token_hex(12))

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.token}"


class Format(ABC):
    """Write one answer as a stream of events, or whole.

    Attributes:
        waits: Whether the first event waits for the number of prompt tokens.

    Args:
        names: Id, model and time.
        fields: Of the request.
        index: Number of the answer in the request.
        asked: The request of the engine.
    """

    waits = False

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        self._names, self._fields, self._index, self._asked = names, fields, index, asked
        self._tools = {tool["function"]["name"]: tool for tool in asked.tools}

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        """Return the events before the answer; the prompt is unknown while the request is queued."""
        return []

    def progress(self, prompt: PrefillProgress) -> list[str]:
        """Return the events of the progress of the prompt."""
        return []

    def keep_alive(self) -> str:
        """Return what a stream sends while there is nothing new, such as while a prompt is read."""
        return ": keep-alive\n\n"

    @abstractmethod
    def part(self, part: Part) -> list[str]:
        """Return the events of a part; the last part is `End`."""

    @abstractmethod
    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return the whole answer as one JSON value."""

    def closing(self, ends: Sequence[End]) -> list[str]:
        """Return the events after the last answer of a request."""
        return []

    def joined(self, values: list[dict[str, Any]], ends: Sequence[End]) -> object:
        """Return all answers of a request as one JSON value."""
        return values[0]


def sse(value: object, event: str = "") -> str:
    """Return a server-sent event."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n"
