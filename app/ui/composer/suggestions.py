"""The list of suggestions above the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.core.printable import printable
from app.ui.text import MARK, cut

ROWS = 8
_GAP = 2
CHOSEN = f"{MARK} "
"""Stands before the chosen suggestion."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line of the list.

    Attributes:
        label: Its name.
        value: The text that replaces what was typed.
        note: Its description, beside it.
        whole: Whether nothing more needs to be typed.
    """

    label: str
    value: str
    note: str = ""
    whole: bool = True


class Suggestions(Static, can_focus=False):
    """Show the list; the prompt handles the keys."""

    @dataclass
    class Clicked(Message):
        """A suggestion was clicked."""

        suggestion: Suggestion

    def __init__(self) -> None:
        super().__init__()
        self._all: Sequence[Suggestion] = ()
        self._nothing = ""
        self._at = 0
        self._first = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._all)

    @property
    def chosen(self) -> Suggestion | None:
        return self._all[self._at] if self._all else None

    def offer(self, suggestions: Sequence[Suggestion], nothing: str = "") -> None:
        """Show suggestions, the first one chosen; without any, close the list or show `nothing`."""
        if suggestions or self._all or nothing != self._nothing:
            self._all, self._at, self._first = suggestions, 0, 0
            self._nothing = "" if suggestions else nothing
            self.display = bool(suggestions or nothing)
            self._draw()

    def move(self, by: int) -> None:
        """Choose the next (1) or previous (-1) suggestion, around the ends."""
        if self._all:
            self._at = (self._at + by) % len(self._all)
            self._first = min(max(self._first, self._at - self._rows + 1), self._at)
            self._draw()

    def on_click(self, event: events.Click) -> None:
        index = self._first + event.y
        if event.y < self._rows and index < len(self._all):
            self.post_message(self.Clicked(self._all[index]))

    def on_resize(self) -> None:
        self._draw()

    @property
    def _rows(self) -> int:
        # The conversation keeps some rows of a low terminal.
        return max(1, min(ROWS, self.app.size.height // 3))

    def _draw(self) -> None:
        shown = self._all[self._first : self._first + self._rows]
        labels = [printable(each.label).replace("\n", " ") for each in shown]
        wide = max((Content(label).cell_length for label in labels), default=0)
        lines = []
        for index, (label, each) in enumerate(zip(labels, shown, strict=True), self._first):
            gap = " " * (wide - Content(label).cell_length + _GAP) if each.note else ""
            line = Content.assemble(
                CHOSEN if index == self._at else "  ",
                (label, "bold" if index == self._at else ""),
                (gap + printable(each.note), "$quiet"),
            )
            lines.append(cut(line, max(1, self.size.width - 2)) if self.size.width else line)
        if len(self._all) > len(shown):
            lines.append(Content.styled(f"  {self._at + 1} of {len(self._all)}", "$quiet"))
        if self._nothing:
            lines.append(Content.styled(f"  {self._nothing}", "$quiet"))
        self.update(Content("\n").join(lines))
