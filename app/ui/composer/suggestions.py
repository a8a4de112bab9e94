"""What the text at the cursor could become, in a short list above the prompt."""

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
"""Before the one that Enter takes."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line of the list.

    Attributes:
        label: What it is called.
        value: What is put in the place of what was typed.
        note: What it means, beside it.
        whole: Whether nothing more needs to be typed.
    """

    label: str
    value: str
    note: str = ""
    whole: bool = True


class Suggestions(Static, can_focus=False):
    """The list; the prompt has the keys and moves it."""

    @dataclass
    class Clicked(Message):
        """One was chosen with the mouse."""

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
        """The one that is marked."""
        return self._all[self._at] if self._all else None

    def offer(self, suggestions: Sequence[Suggestion], nothing: str = "") -> None:
        """Show these, the first one marked; none closes the list, or shows `nothing` in its place."""
        if suggestions or self._all or nothing != self._nothing:
            self._all, self._at, self._first = suggestions, 0, 0
            self._nothing = "" if suggestions else nothing
            self.display = bool(suggestions or nothing)
            self._draw()

    def move(self, by: int) -> None:
        """Mark the next (1) or the one before (-1), round the ends."""
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
