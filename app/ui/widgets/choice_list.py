"""A list of rows with one chosen row; only visible lines are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from app.ui.widgets.row_layout import RowLayout

RowT = TypeVar("RowT")
_INDENT_CELLS = 3
_DETAILS_WIDTH = 115
"""Longest line of details in cells."""


class ChoiceList(ScrollView, Generic[RowT], can_focus=False):
    """Rows of one or more lines; the chosen row stays in view. Another widget has the focus.

    Args:
        select_at_once: Whether the first click takes a row; otherwise it chooses it, and a second click takes it.

    Attributes:
        rows: All rows; change them with `show_rows`.
        index: Index of the chosen row; change it with `choose`.
    """

    ALLOW_SELECT = False
    details_indent = _INDENT_CELLS
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
        self._layout = RowLayout(lambda: len(self.rows), self.height, self.lines, lambda width: Content())
        self._empty = ""

    def lines(self, at: int, width: int) -> list[Content]:
        """Return the lines of a row, at most `width` cells each: those above it, its own, and its details."""
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
        return len(self._layout.draw(at))

    @property
    def row(self) -> RowT | None:
        """Return the chosen row, if there are any rows."""
        return self.rows[self.index] if self.rows else None

    @property
    def page(self) -> int:
        """Return the number of visible rows."""
        top = self.scroll_offset.y
        first, end = (self._layout.row_at(y, self._width) for y in (top, top + self._height))
        return max(1, end - first)

    def show_rows(self, rows: Sequence[RowT], chosen: int, empty: str = "") -> None:
        """Show rows, with one of them chosen, or the text `empty` if there are none."""
        follows = chosen != self.index or self._is_chosen_visible
        self.rows, self.index, self._empty = rows, max(0, min(len(rows) - 1, chosen)), empty
        self.redraw()
        if follows:
            self.scroll_to_chosen()
        self.post_message(self.Changed())

    def choose(self, at: int) -> None:
        self.index = max(0, min(len(self.rows) - 1, at))
        self.redraw()
        self.scroll_to_chosen()
        self.post_message(self.Changed())

    def move(self, by: int) -> None:
        """Choose the row `by` rows further down."""
        self.choose(self.index + by)

    def on_resize(self) -> None:
        self.redraw()
        self.scroll_to_chosen()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._layout.row_at(self.scroll_offset.y + event.y, self._width)
        if at < len(self.rows):
            taken = self._select_at_once or at == self.index
            self.choose(at)
            if taken:
                self.post_message(self.Selected())

    def render_line(self, y: int) -> Strip:
        width, y = self._width, y + self.scroll_offset.y
        line = self._layout.line(y, width)
        if line is None and self._empty and not self.rows:
            empty = Content.styled(self._empty, "$quiet").wrap(max(1, width - _INDENT_CELLS - 1))
            line = Content(" " * _INDENT_CELLS) + empty[y] if y < len(empty) else None
        return Visual.to_strips(self, line or Content(" "), width, 1, self.visual_style, pad=True)[0]

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _is_chosen_visible(self) -> bool:
        if self.index >= len(self._layout.ends(self._width)):
            return True
        return self.scroll_offset.y <= self._layout.top(self.index, self._width) < self.scroll_offset.y + self._height

    def redraw(self) -> None:
        """Measure the rows and draw them again."""
        self._layout.forget()
        self.virtual_size = Size(self._width, self._layout.n_lines(self._width))
        self.refresh()

    def scroll_to_chosen(self) -> None:
        ends = self._layout.ends(self._width)
        if self.index < len(ends):
            top, end = self._layout.top(self.index, self._width), ends[self.index]
            if end - top > self._height:
                top += len(self.above(self.index))
            y = min(top, max(self.scroll_offset.y, end - self._height))
            # Before the first layout there is no scrollbar yet.
            self.scroll_to(y=y, animate=False, immediate=True, force=True)
