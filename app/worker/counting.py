"""Job that counts the tokens of a text with the loaded target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.conversations.message import Message, Role
from app.engine.interfaces import Cancelled
from app.worker.events import Event, JobEnded
from app.worker.request import LoadedPair


@dataclass(frozen=True, slots=True)
class CountJob:
    """Count the tokens that a text adds in front of a prompt; see `app.worker.commands.Job`.

    Attributes:
        text: What is counted. It should be short: the next answer waits for it.
    """

    text: str
    loads = False

    def run(self, pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
        """Do it; the number is the result of the `JobEnded`, None after a stop, and where no pair is loaded."""
        if cancelled():
            yield JobEnded(number, None)
            return
        without, with_it = (
            len(pair.build_prompt((Message(Role.USER, prompt),)).tokens) for prompt in ("a", f"{self.text}a")
        )
        yield JobEnded(number, with_it - without)
