"""A list of rows with one chosen row; only visible lines are drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

RowT = TypeVar("RowT")
_INDENT = 3
_DETAILS_WIDTH = 115
"""Most cells of a line of details."""


class ChoiceList(ScrollView, Generic[RowT], can_focus=False):
    """Rows of one or more lines; the chosen row stays in view. Another widget has the focus.

    Args:
        select_at_once: Whether the first click takes a row; otherwise it chooses it, and a second one takes it.

    Attributes:
        rows: All rows; change them with `show_rows`.
        index: Index of the chosen row; change it with `choose`.
    """

    ALLOW_SELECT = False
    details_indent = _INDENT
    DEFAULT_CSS = """
    ChoiceList {
        width: 100%;
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        pointer: pointer;
    }
    """

    class Changed(Message):
        """Another row was chosen, or the rows changed."""

    class Selected(Message):
        """The chosen row was clicked."""

    def __init__(self, *, select_at_once: bool = False) -> None:
        super().__init__()
        self._select_at_once = select_at_once
        self.rows: Sequence[RowT] = ()
        self.index = 0
        self._ends: list[int] = []
        """The line below each row."""
        self._drawn: dict[int, list[Content]] = {}
        self._empty = ""

    def lines(self, at: int, width: int) -> list[Content]:
        """Return the lines of a row, each of at most `width` cells: those above it, its own, and its details."""
        lines = [*self.above(at), self.line(at, width).truncate(width, ellipsis=True)]
        if at == self.index:
            room = max(1, min(width, _DETAILS_WIDTH) - self.details_indent - 1)
            for paragraph in self.details(at, room):
                lines += [Content(" " * self.details_indent) + line for line in paragraph.wrap(room)]
            if at + 1 < len(self.rows) and not self.above(at + 1):
                lines.append(Content())
        return lines

    def above(self, at: int) -> Sequence[Content]:
        """Return the lines above a row, such as the title of its section."""
        return ()

    def line(self, at: int, width: int) -> Content:
        """Return a row's own line."""
        raise NotImplementedError

    def details(self, at: int, width: int) -> Iterable[Content]:
        """Return the paragraphs below the chosen row, for lines of `width` cells."""
        return ()

    def height(self, at: int, width: int) -> int:
        """Return the number of lines of a row."""
        self._drawn[at] = self.lines(at, width)
        return len(self._drawn[at])

    @property
    def row(self) -> RowT | None:
        """The chosen row; None if there are no rows."""
        return self.rows[self.index] if self.rows else None

    @property
    def page(self) -> int:
        """Number of visible rows."""
        top = self.scroll_offset.y
        return max(1, bisect_right(self._ends, top + self._height) - bisect_right(self._ends, top))

    def show_rows(self, rows: Sequence[RowT], chosen: int, empty: str = "") -> None:
        """Show rows, with one of them chosen, or the text `empty` if there are none."""
        follows = chosen != self.index or self._is_chosen_visible
        self.rows, self.index, self._empty = rows, max(0, min(len(rows) - 1, chosen)), empty
        self.redraw()
        if follows:
            self._scroll_to_chosen()
        self.post_message(self.Changed())

    def choose(self, at: int) -> None:
        self.index = max(0, min(len(self.rows) - 1, at))
        self.redraw()
        self._scroll_to_chosen()
        self.post_message(self.Changed())

    def move(self, by: int) -> None:
        """Choose the row `by` rows below."""
        self.choose(self.index + by)

    def on_resize(self) -> None:
        self.redraw()
        self._scroll_to_chosen()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = bisect_right(self._ends, self.scroll_offset.y + event.y)
        if at < len(self.rows):
            taken = self._select_at_once or at == self.index
            self.choose(at)
            if taken:
                self.post_message(self.Selected())

    def render_line(self, y: int) -> Strip:
        width, y = self._width, y + self.scroll_offset.y
        at = bisect_right(self._ends, y)
        if at < len(self._ends):
            if at not in self._drawn:
                self._drawn[at] = self.lines(at, width)
            line = self._drawn[at][y - self._top_of(at)]
        else:
            empty = Content.styled(self._empty, "$quiet").wrap(max(1, width - _INDENT - 1)) if self._empty else []
            line = Content(" " * _INDENT) + empty[y] if not self.rows and y < len(empty) else Content()
        return Visual.to_strips(self, line or Content(" "), width, 1, self.visual_style, pad=True)[0]

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _is_chosen_visible(self) -> bool:
        top = self.scroll_offset.y
        return self.index >= len(self._ends) or top <= self._top_of(self.index) < top + self._height

    def _top_of(self, at: int) -> int:
        return self._ends[at - 1] if at else 0

    def redraw(self) -> None:
        """Measure the rows and draw them again."""
        width = self._width
        self._drawn.clear()
        self._ends = list(accumulate(self.height(at, width) for at in range(len(self.rows)))) if width else []
        self.virtual_size = Size(width, self._ends[-1] if self._ends else 0)
        self.refresh()

    def _scroll_to_chosen(self) -> None:
        if self.index < len(self._ends):
            top, end = self._top_of(self.index), self._ends[self.index]
            if end - top > self._height:
                top += len(self.above(self.index))
            y = min(top, max(self.scroll_offset.y, end - self._height))
            self.scroll_to(y=y, animate=False, immediate=True)
