"""A line of words that can be clicked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.widget import Widget

_GAP = 2


@dataclass(frozen=True, slots=True)
class Word:
    """Something to click.

    Attributes:
        text: What it says.
        clicked: What a click does; None if nothing.
    """

    text: Content
    clicked: Callable[[], object] | None


class Words(Widget, can_focus=False):
    """Words side by side: on the left as many as fit, each whole; on the right those that are never left out.

    Those that a click does nothing to are there only where all others fit.
    """

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._left: Sequence[Word] = ()
        self._right: Sequence[Word] = ()
        self._at: list[tuple[int, Word]] = []

    def say(self, left: Sequence[Word], right: Sequence[Word] = ()) -> None:
        """Show these words, the most wanted first."""
        self._left, self._right = left, right
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        right = list(self._right)
        while len(right) > 1 and _length(right) > width + _GAP:
            right.pop(0)
        end = width + _GAP - _length(right)
        left: list[Word] = []
        live = [word for word in self._left if word.clicked is not None]
        all_fit = _length(live) <= end
        for word in [*live, *(word for word in self._left if all_fit and word.clicked is None)]:
            if _length([*left, word]) <= end:
                left.append(word)
        left.sort(key=self._left.index)
        self._at = []
        line = self._side_by_side(left, 0)
        line = line.pad_right(max(0, end - line.cell_length))
        line += self._side_by_side(right, line.cell_length)
        return line.rstrip().truncate(width)

    def _side_by_side(self, words: Sequence[Word], x: int) -> Content:
        """The words with gaps behind them, and in mind where they stand."""
        line = Content("")
        for word in words:
            self._at.append((x + line.cell_length, word))
            line += word.text + " " * _GAP
        return line

    def on_click(self, event: events.Click) -> None:
        for x, word in self._at:
            if word.clicked is not None and x <= event.x - self.gutter.left < x + word.text.cell_length:
                event.stop()
                word.clicked()
                return


def _length(words: Sequence[Word]) -> int:
    """Cells of words side by side, with the gap behind each."""
    return sum(word.text.cell_length + _GAP for word in words)
