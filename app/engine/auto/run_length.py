"""Limit the draft length in this answer, and learn how often drafts stay right."""

from __future__ import annotations

from collections.abc import Sequence

from app.engine.types import MAX_DRAFT

_FIRST_LIMIT = 8
"""Longest draft at first. The tokens of a confident model that misread the task are wrong together, which odds per
token do not show; a draft that was all right doubles the limit, another one shortens it by a tenth."""
_SHORTER = 0.9
_PRIOR = (0.85, 6.0)
_FORGETTING = 0.98


class RunLength:
    """Learn from the drafts of one answer.

    Attributes:
        limit: Longest draft.
    """

    def __init__(self) -> None:
        self.limit = _FIRST_LIMIT
        self._survived = _PRIOR[0] * _PRIOR[1]
        self._judged = _PRIOR[1]

    @property
    def survival(self) -> float:
        """Mean probability that a token after an accepted one is accepted."""
        return self._survived / self._judged

    @property
    def is_known(self) -> bool:
        """Return whether most of `survival` was seen in this answer."""
        return self._judged >= 2 * _PRIOR[1]

    def observe_token(self, *, accepted: bool) -> None:
        """Learn from a token after an accepted one."""
        self._survived = _FORGETTING * self._survived + accepted
        self._judged = _FORGETTING * self._judged + 1.0

    def observe_draft(self, n_drafted: int, judged: Sequence[bool]) -> None:
        """Learn from a whole draft.

        Args:
            n_drafted: Its tokens.
            judged: Whether each of the first ones was right, as far as the target's tokens show.
        """
        if len(judged) == n_drafted and all(judged):
            self.limit = min(MAX_DRAFT, max(self.limit, 2 * n_drafted))
        elif not all(judged):
            self.limit = max(_FIRST_LIMIT, sum(judged), round(_SHORTER * self.limit))
