"""The list of conversations."""

from __future__ import annotations

from dataclasses import dataclass
from time import time

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from app.conversations.search import Excerpt
from app.core.printable import printable
from app.ui.reading.rows import wrapped
from app.ui.text import MARK, age, cut
from app.ui.widgets.choice_list import ChoiceList

_MARGIN = 3
_GAP = 2
_BEFORE = 4
"""Characters before a hit in a narrow list."""
_UNTITLED = "Untitled"
_OPEN, _PINNED = "●", "▴"
_NARROW = 48
"""Below so many cells the title stands alone, with signs for the words beside it."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation.

    Attributes:
        conversation: Its id.
        updated: Time of the last message, in seconds since 1970.
        is_open: Whether it is open in the chat.
        excerpt: The hit of a search; None without a search.
        message: Id of the message with the hit; None for a hit in the title.
    """

    conversation: int
    title: str
    updated: float
    pinned: bool = False
    is_open: bool = False
    excerpt: Excerpt | None = None
    message: int | None = None


class ConversationList(ChoiceList[ConversationRow]):
    """A line for each conversation, and its hit in a search."""

    def lines(self, at: int, width: int) -> list[Content]:
        row, is_chosen = self.rows[at], self.is_chosen(at)
        if width < _NARROW:
            has_focus = isinstance(self.parent, Widget) and self.parent.has_focus_within
            lines = _narrow_title(row, width, chosen=is_chosen and has_focus)
        else:
            lines = [_title(row, width, age(time() - row.updated), chosen=is_chosen)]
        return lines if row.excerpt is None else [*lines, *_found(row, width), Content()]

    def height(self, at: int, width: int) -> int:
        row = self.rows[at]
        if row.excerpt is not None:
            return len(self.lines(at, width))
        # There may be a thousand.
        return 1 if width >= _NARROW else 1 + (_name(row).cell_length > _title_room(row, width))


def _title(row: ConversationRow, width: int, ago: str, *, chosen: bool) -> Content:
    room = _title_room(row, width)
    title = cut(_name(row).stylize("bold" if chosen else ""), room)
    mark = f" {MARK} " if chosen else " " * _MARGIN
    right = (_beside(row, width, ago), "$quiet")
    return Content.assemble(mark, title.pad_right(max(0, room - title.cell_length)), " " * _GAP, right)


def _beside(row: ConversationRow, width: int, ago: str = "") -> str:
    """Return the text to the right of a title, equally wide for any age."""
    if width < _NARROW:
        return f" {_PINNED} " if row.pinned else " "
    words = [word for word, is_so in (("open", row.is_open), ("pinned", row.pinned)) if is_so]
    return f"{'  '.join([*words, f'{ago:>6}'])} "


def _title_room(row: ConversationRow, width: int) -> int:
    """Cells of a title in one line."""
    gap = _GAP if width >= _NARROW else 0
    return max(1, width - _MARGIN - gap - len(_beside(row, width)))


def _narrow_title(row: ConversationRow, width: int, *, chosen: bool = False) -> list[Content]:
    """Return the title, in two lines if no hit stands below it."""
    mark = MARK if chosen else _OPEN if row.is_open else " "
    room = _title_room(row, width)
    title = _name(row).stylize("bold" if chosen or row.is_open else "")
    if title.cell_length <= room or row.excerpt is not None:
        first, rest = cut(title, room), Content("")
    else:
        first = wrapped(title, room)[0]
        rest = title[len(first) :]
    gap = " " * max(0, room - first.cell_length)
    lines = [Content.assemble(f" {mark} ", first, gap, (_beside(row, width), "$quiet"))]
    if rest.plain:
        rest = Content.styled(rest.plain.lstrip(), "$quiet")
        lines.append(Content.assemble(" " * _MARGIN, cut(rest, width - _MARGIN - 1)))
    return lines


def _name(row: ConversationRow) -> Content:
    """Return the title with marked hits."""
    if row.excerpt is not None and row.excerpt.text == row.title:
        return _marked(row.excerpt)
    return Content(printable(row.title) or _UNTITLED)


def _found(row: ConversationRow, width: int) -> list[Content]:
    """Return the line of a hit, unless the title shows it."""
    if row.excerpt is None or row.message is None:
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
