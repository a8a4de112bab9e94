"""A try at an answer, on the screen: what was put there for it, and what gave way to it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from app.conversations.ending import Ending
from app.engine.types import FinishReason
from app.ui.transcript.column import Entry
from app.ui.transcript.message import AnswerMessage


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is shown in the end is what the store keeps, so that it is shown again by another start.

    Attributes:
        fresh: What was put there for it.
        replaced: What is hidden meanwhile.
        is_another: Whether it is another answer to a prompt; an earlier one outlives an attempt that comes to nothing.
        continues: Whether it is more of an answer that was there.
    """

    fresh: tuple[Entry, ...] = ()
    replaced: tuple[Entry, ...] = ()
    is_another: bool = False
    continues: bool = False

    def gives_way(self, answer: AnswerMessage, ending: Ending, *, counts: bool) -> bool:
        """Whether what was there before is to be there again.

        Args:
            answer: What has come.
            ending: How it ended.
            counts: Whether the conversation goes on from it.
        """
        if self.continues:
            is_more = answer.has_grown or ending.reason is FinishReason.STOP
            return ending.failure is not None or not is_more
        return self.is_another and not counts and any(entry.is_said for entry in self.replaced)
