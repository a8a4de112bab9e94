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
    """A text and the action of a click on it; one that `stays` is left out last."""

    text: Content
    clicked: Callable[[], object]
    stays: bool = False

    @property
    def cells(self) -> int:
        """Cells with the gap after it."""
        return self.text.cell_length + _GAP


class Words(Widget, can_focus=False):
    """Words on the left, as many as fit, and on the right, of which the last always stays."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._left: Sequence[Word] = ()
        self._right: Sequence[Word] = ()
        self._places: list[tuple[int, Word]] = []

    def say(self, left: Sequence[Word], right: Sequence[Word] = ()) -> None:
        """Show these words, the most important first."""
        self._left, self._right = left, right
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        right = list(self._right)
        while len(right) > 1 and _cells(right) > width + _GAP:
            right.pop(0)
        end = width + _GAP - _cells(right)
        left: list[Word] = []
        for at, word in enumerate(self._left):
            staying = [] if word.stays else [each for each in self._left[at:] if each.stays]
            if _cells([*left, word, *staying]) <= end:
                left.append(word)
        self._places = []
        line = self._joined(left, 0)
        line = line.pad_right(max(0, end - line.cell_length))
        line += self._joined(right, line.cell_length)
        return line.rstrip().truncate(width)

    def _joined(self, words: Sequence[Word], x: int) -> Content:
        line = Content("")
        for word in words:
            self._places.append((x + line.cell_length, word))
            line += word.text + " " * _GAP
        return line

    def on_click(self, event: events.Click) -> None:
        for x, word in self._places:
            if x <= event.x - self.gutter.left < x + word.cells - _GAP:
                event.stop()
                word.clicked()
                return


def _cells(words: Sequence[Word]) -> int:
    return sum(word.cells for word in words)
