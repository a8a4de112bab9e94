"""The verify rounds of the last answer, one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget

from app.events import RoundDetails
from app.ui.reading.rounds import round_lines

_MOST_ROUNDS = 2_000
_NOTHING = (
    "Rounds are kept of the last answer that was given here, and not on disk. The next answer shows them, and left and "
    "right step through them."
)
_LEAVES = "chat.tokens"
_WHOLE = 6
"""Rows of a whole round."""


class Inspector(Widget):
    """Shows the newest round until the user steps back."""

    DEFAULT_CSS = "Inspector { display: none; border-title-align: right; border-title-color: $quiet; }"

    def __init__(self) -> None:
        super().__init__()
        self._rounds: deque[RoundDetails] = deque(maxlen=_MOST_ROUNDS)
        self._shown: int | None = None

    def on_show(self) -> None:
        keys = {one.binding.id: self.app.get_key_display(one.binding) for one in self.screen.active_bindings.values()}
        if _LEAVES in keys:
            self.border_title = Content(f" {keys[_LEAVES]} leaves ")

    def begin(self) -> None:
        """Another answer was asked for."""
        self._rounds.clear()
        self._shown = None
        self.refresh()

    def add(self, rounds: Iterable[RoundDetails]) -> None:
        """Take the rounds that have come."""
        self._rounds.extend(rounds)
        if self.display:
            self.refresh()

    def step(self, by: int) -> None:
        """Go to later rounds, or to earlier ones if negative; at the newest, stay with it."""
        if self._rounds:
            at = min(max(0, self._index + by), len(self._rounds) - 1)
            self._shown = None if at == len(self._rounds) - 1 else self._rounds[at].number
            self.refresh()

    @property
    def details(self) -> RoundDetails | None:
        """The round that is shown."""
        return self._rounds[self._index] if self._rounds else None

    @property
    def _index(self) -> int:
        # Only the last rounds are kept; for one that is gone stands the oldest of them.
        if self._shown is None:
            return len(self._rounds) - 1
        return next((at for at, details in enumerate(self._rounds) if details.number >= self._shown), 0)

    def render(self) -> Content:
        details = self.details
        if details is None:
            return Content.styled(_NOTHING, "$quiet")
        lines = round_lines(details, self._rounds[-1].number, self.size.width, brief=self.size.height < _WHOLE)
        return Content("\n").join(lines)
