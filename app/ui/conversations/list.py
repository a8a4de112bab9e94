"""The list of conversations."""

from __future__ import annotations

from dataclasses import dataclass
from time import time

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from app.conversations.search import Excerpt, Hit
from app.conversations.tree import Summary
from app.core.printable import printable
from app.session.active_conversations import Mark
from app.ui.reading.rows import wrapped
from app.ui.text import MARK, cell, cut, day, when
from app.ui.widgets.choice_list import ChoiceList

_MARGIN_CELLS = 3
_GAP_CELLS = 2
_CHARACTERS_BEFORE_HIT = 4
"""Characters before a hit in a narrow list."""
_UNTITLED_TITLE = "Untitled"
_OPEN_SIGN, _PINNED_SIGN = "●", "▴"
_MARK_SIGNS = {Mark.ANSWERING: "…", Mark.ASKING: "?", Mark.WAITING: "·", Mark.ANSWERED: "✓"}
"""Signs of a narrow list; conversations without a mark have a blank."""
_MIN_WIDTH_FOR_WORDS = 48
"""Width below which only titles are shown, and signs replace words."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation, whether it is open in the chat, its hit in a search, and its mark."""

    summary: Summary
    is_open: bool
    hit: Hit | None = None
    mark: Mark | None = None


class ConversationList(ChoiceList[ConversationRow]):
    """A line for each conversation, and its hit in a search."""

    def lines(self, at: int, width: int) -> list[Content]:
        row, is_narrow = self.rows[at], width < _MIN_WIDTH_FOR_WORDS
        has_focus = isinstance(self.parent, Widget) and self.parent.has_focus_within
        is_chosen = at == self.index and (has_focus or not is_narrow)
        is_open = is_narrow and row.is_open
        room = _title_room(row, width)
        title, rest = _name(row).stylize("bold" if is_chosen or is_open else ""), Content()
        if is_narrow and row.hit is None and title.cell_length > room:
            first = wrapped(title, room)[0]
            title, rest = first, title[len(first) :]
        sign = _MARK_SIGNS[row.mark] if is_narrow and row.mark is not None else " "
        mark = MARK if is_chosen else _OPEN_SIGN if is_open else sign
        right = (_beside(row, width), "$quiet")
        line = Content.assemble(f" {mark} ", cell(cut(title, room), room), " " * _gap(width), right)
        lines = [*(self.above(at) if is_narrow else ()), line]
        if rest.plain:
            rest = Content.styled(rest.plain.lstrip(), "$quiet")
            lines.append(Content.assemble(" " * _MARGIN_CELLS, cut(rest, width - _MARGIN_CELLS - 1)))
        return lines if row.hit is None else [*lines, *_found(row, row.hit, width), Content()]

    def height(self, at: int, width: int) -> int:
        row = self.rows[at]
        if row.hit is not None:
            return len(self.lines(at, width))
        # There may be a thousand conversations.
        if width >= _MIN_WIDTH_FOR_WORDS:
            return 1
        return len(self.above(at)) + 1 + (_name(row).cell_length > _title_room(row, width))

    def above(self, at: int) -> list[Content]:
        """Return the day of the conversation if the row above has another day."""
        heading = _heading(self.rows[at])
        if self.rows[at].hit is not None or (at and heading == _heading(self.rows[at - 1])):
            return []
        return [*[Content()] * (at > 0), Content.styled(f"   {heading}", "$quiet")]


def _heading(row: ConversationRow) -> str:
    return "Pinned" if row.summary.pinned else day(row.summary.updated, time())


def _beside(row: ConversationRow, width: int) -> str:
    pinned = row.summary.pinned
    if width < _MIN_WIDTH_FOR_WORDS:
        return f" {_PINNED_SIGN} " if pinned else " "
    words = [row.mark.value] if row.mark is not None else []
    words += [word for word, is_so in (("open", row.is_open), ("pinned", pinned)) if is_so]
    return f"{'  '.join([*words, f'{when(row.summary.updated, time()):>8}'])} "


def _gap(width: int) -> int:
    return _GAP_CELLS if width >= _MIN_WIDTH_FOR_WORDS else 0


def _title_room(row: ConversationRow, width: int) -> int:
    return max(1, width - _MARGIN_CELLS - _gap(width) - len(_beside(row, width)))


def _name(row: ConversationRow) -> Content:
    title, hit = row.summary.title, row.hit
    is_found = hit is not None and hit.excerpt.text == title
    name = _marked(hit.excerpt) if hit is not None and is_found else Content(printable(title) or _UNTITLED_TITLE)
    return Content.assemble(name, *((f" #{tag}", "$quiet") for tag in row.summary.tags))


def _found(row: ConversationRow, hit: Hit, width: int) -> list[Content]:
    excerpt, title = hit.excerpt, row.summary.title
    if hit.message is None or (excerpt.text == title and cell_len(title) <= _title_room(row, width)):
        return []
    found = _marked(excerpt).stylize_before("$quiet")
    start, end = excerpt.marks[0] if excerpt.marks else (0, 0)
    if found[:end].cell_length > width - _MARGIN_CELLS - _GAP_CELLS:
        # The hit must be visible.
        found = Content.assemble(("…", "$quiet"), found[max(0, start - _CHARACTERS_BEFORE_HIT) :])
    return [Content.assemble(" " * _MARGIN_CELLS, cut(found, max(0, width - _MARGIN_CELLS - 1)))]


def _marked(excerpt: Excerpt) -> Content:
    # Spaces replace unprintable characters, to keep positions.
    line = Content("".join(each if printable(each) == each else " " for each in excerpt.text))
    for start, end in excerpt.marks:
        line = line.stylize("bold $foreground underline", start, end)
    return line
