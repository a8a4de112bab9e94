"""The list of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from app.conversations.search import Excerpt
from app.core.printable import printable
from app.ui.reading.wrapping import wrapped
from app.ui.text import MARK, age, cut

_MARGIN = 3
_GAP = 2
_BEFORE = 4
"""Characters before a hit in a narrow list."""
_UNTITLED = "Untitled"
_OPEN, _PINNED = "●", "▴"
_NARROW = 48
"""Below so many cells the title stands alone, with signs for the words beside it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation.

    Attributes:
        conversation: Its id.
        title: Its title.
        updated: Time of the last message, in seconds since 1970.
        pinned: Whether it is at the top.
        is_open: Whether it is open in the chat.
        excerpt: The hit of a search; None without a search.
        in_title: Whether the hit is in the title.
        message: Id of the message with the hit.
    """

    conversation: int
    title: str
    updated: float
    pinned: bool = False
    is_open: bool = False
    excerpt: Excerpt | None = None
    in_title: bool = False
    message: int | None = None


class ConversationList(Widget):
    """Show a line for each conversation, and its hit in a search; draw only visible lines.

    Args:
        at_once: Whether the first click takes a line.
    """

    class Taken(Message):
        """The chosen line was clicked."""

    class Changed(Message):
        """Another line was chosen."""

    def __init__(self, *, at_once: bool = False) -> None:
        super().__init__()
        self._at_once = at_once
        self._rows: Sequence[Row] = ()
        self._empty = ""
        self._at = 0
        self._top = 0

    @property
    def row(self) -> Row | None:
        """The chosen one."""
        return self._rows[self._at] if self._rows else None

    def show(self, rows: Sequence[Row], empty: str, chosen: int | None = None) -> None:
        """Show rows.

        Args:
            rows: From top to bottom.
            empty: Text without rows.
            chosen: Id of the chosen conversation; None keeps the place.
        """
        self._rows, self._empty = rows, empty
        ids = [row.conversation for row in rows]
        self._choose(ids.index(chosen) if chosen in ids else self._at)

    def move(self, by: int) -> None:
        """Choose the row so many lines below."""
        self._choose(self._at + by)

    @property
    def page(self) -> int:
        """Number of visible rows."""
        return max(1, len(self._in_sight()))

    def on_resize(self) -> None:
        self._choose(self._at)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        lines = [at for at in self._in_sight() for _ in range(self._lines(at))]
        if event.y >= len(lines):
            return
        at = lines[event.y]
        taken = self._at_once or at == self._at
        self._choose(at)
        if taken:
            self.post_message(self.Taken())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-1)

    def render(self) -> Content:
        if not self._rows:
            empty = Content.styled(self._empty, "$quiet").wrap(max(1, self.size.width - _MARGIN - 1))
            return Content("\n").join(Content.assemble(" " * _MARGIN, line) for line in empty)
        now, width = time(), self.size.width
        lines: list[Content] = []
        for at in self._in_sight():
            row, is_chosen = self._rows[at], at == self._at
            if width < _NARROW:
                lines += _narrow_title(row, width, chosen=is_chosen and self._is_searched)
            else:
                lines.append(_title(row, width, age(now - row.updated), chosen=is_chosen))
            if row.excerpt is not None:
                lines += [*_found(row, width), Content("")]
        return Content("\n").join(lines)

    @property
    def _is_searched(self) -> bool:
        """Return whether the search line has the focus."""
        return isinstance(self.parent, Widget) and self.parent.has_focus_within

    def _lines(self, at: int) -> int:
        """Return the lines of a row."""
        row, width = self._rows[at], self.size.width
        if row.excerpt is not None:
            return 2 + len(_found(row, width))
        return len(_narrow_title(row, width)) if width < _NARROW else 1

    def _in_sight(self) -> range:
        """Return the visible rows, the last one perhaps in part."""
        end, left = self._top, self.size.height
        while end < len(self._rows) and left > 0:
            left -= self._lines(end)
            end += 1
        return range(self._top, end)

    def _first_above(self, last: int) -> int:
        """Return the first visible row if another one is the last whole row."""
        first, left = last, self.size.height - self._lines(last)
        while first and (left := left - self._lines(first - 1)) >= 0:
            first -= 1
        return first

    def _choose(self, at: int) -> None:
        self._at = max(0, min(len(self._rows) - 1, at))
        if self._rows:
            top = min(self._top, self._at, self._first_above(len(self._rows) - 1))
            self._top = max(top, self._first_above(self._at))
        self.refresh()
        self.post_message(self.Changed())


def _title(row: Row, width: int, ago: str, *, chosen: bool) -> Content:
    room = _title_room(row, width)
    title = cut(_name(row).stylize("bold" if chosen else ""), room)
    mark = f" {MARK} " if chosen else " " * _MARGIN
    right = (_beside(row, width, ago), "$quiet")
    return Content.assemble(mark, title.pad_right(max(0, room - title.cell_length)), " " * _GAP, right)


def _beside(row: Row, width: int, ago: str = "") -> str:
    """Return the text to the right of a title, equally wide for any age."""
    if width < _NARROW:
        return f" {_PINNED} " if row.pinned else " "
    words = [word for word, is_so in (("open", row.is_open), ("pinned", row.pinned)) if is_so]
    return f"{'  '.join([*words, f'{ago:>6}'])} "


def _title_room(row: Row, width: int) -> int:
    """Cells of a title in one line."""
    gap = _GAP if width >= _NARROW else 0
    return max(1, width - _MARGIN - gap - len(_beside(row, width)))


def _narrow_title(row: Row, width: int, *, chosen: bool = False) -> list[Content]:
    """Return the title, in two lines if no hit stands below it."""
    mark = MARK if chosen else _OPEN if row.is_open else " "
    room = _title_room(row, width)
    title = _name(row).stylize("bold" if chosen or row.is_open else "")
    if title.cell_length <= room or row.excerpt is not None:
        first, rest = cut(title, room), Content("")
    else:
        first = wrapped(title, room)[0]
        rest = title[len(first) + (title.plain[len(first) : len(first) + 1] == " ") :]
    gap = " " * max(0, room - first.cell_length)
    lines = [Content.assemble(f" {mark} ", first, gap, (_beside(row, width), "$quiet"))]
    if rest.plain:
        lines.append(Content.assemble(" " * _MARGIN, cut(Content.styled(rest.plain, "$quiet"), width - _MARGIN - 1)))
    return lines


def _name(row: Row) -> Content:
    """Return the title with marked hits."""
    if row.excerpt is not None and row.excerpt.text == row.title:
        return _marked(row.excerpt)
    return Content(printable(row.title) or _UNTITLED)


def _found(row: Row, width: int) -> list[Content]:
    """Return the line of a hit, unless the title shows it."""
    if row.excerpt is None or row.in_title:
        return []
    if row.excerpt.text == row.title and cell_len(row.title) <= _title_room(row, width):
        return []
    found = _marked(row.excerpt).stylize_before("$quiet")
    start, end = row.excerpt.marks[0] if row.excerpt.marks else (0, 0)
    if found[:end].cell_length > width - _MARGIN - _GAP:
        # The hit must be visible.
        found = Content.assemble(("…", "$quiet"), found[max(0, start - _BEFORE) :])
    return [Content.assemble(" " * _MARGIN, cut(found, max(0, width - _MARGIN - 1)))]


def _marked(excerpt: Excerpt) -> Content:
    """Return an excerpt with marked hits."""
    line = Content(_still(excerpt.text))
    for start, end in excerpt.marks:
        line = line.stylize("bold $foreground underline", start, end)
    return line


def _still(text: str) -> str:
    """Replace unprintable characters by spaces, to keep positions."""
    return "".join(character if printable(character) == character else " " for character in text)
