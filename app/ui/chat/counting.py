"""Letting the loaded model count what a prompt includes, while nothing else is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.models.pair_info import PairInfo
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.session import Phase
from app.worker.counting import CountJob
from app.worker.events import Event, JobEnded

if TYPE_CHECKING:
    from app.session.engine import Engine


class Counting:
    """For the chat screen. One text at a time is counted; what is asked for meanwhile is asked for again with a key.

    Args:
        screen: The chat.
        engine: Has the vocabulary.
    """

    def __init__(self, screen: BareChatScreen, engine: Engine) -> None:
        self._screen = screen
        self._engine = engine
        self._number: int | None = None
        self._text = ""
        self._pair: PairInfo | None = None

    def ask(self, text: str) -> None:
        """Count a text, unless there is something else to do."""
        session = self._screen.session
        # What another pair was asked may never be heard of.
        if session.phase is Phase.READY and (self._number is None or self._pair is not session.pair):
            self._text, self._pair = text, session.pair
            self._number = self._engine.run(CountJob(text))

    def is_wanted(self, event: Event) -> bool:
        """Whether an event belongs to what is counted."""
        return self._number is not None and getattr(event, "request", None) == self._number

    def hear(self, event: Event) -> None:
        """It was counted, or could not be."""
        self._number = None
        if isinstance(event, JobEnded) and isinstance(event.result, int) and self._pair is not None:
            self._screen.included.counted(self._text, self._pair, event.result)
