"""How well a draft model holds in one answer: how far it may run ahead, and how often it goes on being right."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.types import MAX_DRAFT

_FIRST_STRETCH = 8
"""Tokens that the draft model may run ahead at first. Those of a confident model that has misread the task fall
together, which odds per token do not know; a draft that held to its end lets the next one be twice as long, and one
that did not makes it shorter by a tenth."""
_SHORTER = 0.9
_PRIOR = (0.85, 6.0)
_FORGETTING = 0.98


class RunLength:
    """What the drafts of this answer were like.

    Attributes:
        stretch: Tokens that the draft model may run ahead.
    """

    def __init__(self) -> None:
        self.stretch = _FIRST_STRETCH
        self._survived = _PRIOR[0] * _PRIOR[1]
        self._judged = _PRIOR[1]

    @property
    def survival(self) -> float:
        """Mean probability that a token behind an accepted one is accepted."""
        return self._survived / self._judged

    @property
    def is_known(self) -> bool:
        """Whether most of what that probability rests on was seen in this answer."""
        return self._judged >= 2 * _PRIOR[1]

    def observe_token(self, *, accepted: bool) -> None:
        """Learn from a token behind an accepted one."""
        self._survived = _FORGETTING * self._survived + accepted
        self._judged = _FORGETTING * self._judged + 1.0

    def observe_draft(self, n_drafted: int, judged: Sequence[bool]) -> None:
        """Learn from a whole draft.

        Args:
            n_drafted: Its tokens.
            judged: Whether each of the first was right, as far as the target's own tokens tell.
        """
        if len(judged) == n_drafted and all(judged):
            self.stretch = min(MAX_DRAFT, max(self.stretch, 2 * n_drafted))
        elif not all(judged):
            self.stretch = max(_FIRST_STRETCH, sum(judged), round(_SHORTER * self.stretch))
