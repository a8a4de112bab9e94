"""A scroll view of messages that draws lines: a message is laid out when the reader comes near."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Self

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from app.ui.reading.rows import NOTHING, Line
from app.ui.text import CHOSEN_BAR
from app.ui.transcript.answer import AnswerMessage
from app.ui.transcript.message import Item, MessageItem
from app.ui.transcript.parts import QUIET, MessagePart
from app.ui.widgets.row_canvas import RowCanvas, draw_soon

_LAID_OUT_VIEWS, _FAR_VIEWS = 1, 2
"""Heights of the view: messages within the first are laid out; beyond the second, none stays chosen."""
_MAX_COLUMNS = 100
"""Width of a line of text, centered in a wider view."""
_LINES_ABOVE = 2
"""Lines that stay visible above a line that is scrolled into view."""
_PART_BITS, _ROW_BITS = 8, 24
"""Bits for the part and for the row in the row numbers of a selection."""


class LineScroll(ScrollView, RowCanvas):
    """Stacked messages and notices.

    The view follows the end until the reader scrolls. Then the first visible item keeps its position, whatever is laid
    out or grows above it.

    Attributes:
        items: All items; after a change of the list, call `settle`.
    """

    DEFAULT_CSS = "LineScroll { overflow-x: hidden; }"

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._fronts: dict[tuple[bool, Content], list[Segment]] = {}
        """Text before lines: the mark of the chosen message or a space, and a prefix."""
        super().__init__()
        self.chosen: MessageItem | None = None
        self._ends: list[int] = []
        """The line below each item."""
        self._anchor: tuple[Item, int] | None = None
        """The first visible item and its lines above the view; None follows the end."""
        self._columns = self._height = 0
        """Width beside the scrollbar, and height of the view."""
        self._is_settling = self._reads_soon = False

    # Layout

    @property
    def _width(self) -> int:
        """Return the width of a line of text, without the cells for the mark on the left and a gap on the right."""
        return max(1, min(_MAX_COLUMNS, self._columns - 2))

    def lay_out(self, item: Item) -> None:
        """Make the parts of an item."""
        raise NotImplementedError

    def _measure(self, start: int = 0) -> None:
        del self._ends[start:]
        top = self._ends[-1] if self._ends else 0
        self._ends += [top + end for end in accumulate(item.n_lines(self._width) for item in self.items[start:])]

    def _index(self, item: Item) -> int:
        return len(self.items) - 1 if item is self.items[-1] else self.items.index(item)

    def _top_of(self, item: Item) -> int:
        at = self._index(item)
        return self._ends[at - 1] if at else 0

    @property
    def _n_lines(self) -> int:
        return self._ends[-1] if self._ends else 0

    def settle(self) -> None:
        """Lay out what is near, after any change, and draw all that is visible."""
        for at in range(len(self.items)):
            self._number(at)
        self._measure()
        if self._columns:
            self._move()
            draw_soon(self, self.outer_size.region)

    def update(self, item: Item) -> None:
        """Draw what has changed in an item, unless it left the view while its change was prepared."""
        if item not in self.items[-1:] and item not in self.items:
            return
        width, at = self._width, self._index(item)
        changed, end, before = item.changed_line(width), self._ends[at], self._top_of(item) - self.scroll_offset.y
        self._measure(at)
        if not self._columns or changed is None:
            return
        is_new = self._move()
        now = self._top_of(item) - self.scroll_offset.y
        scrolled = before - now
        # Lines that enter the view are drawn as well.
        top = max(0, min(now + changed, self._height - scrolled))
        if is_new or scrolled < 0:
            draw_soon(self, self.outer_size.region)
        elif top < self._height:
            is_all = scrolled or self._ends[at] != end
            bottom = self._height if is_all else min(self._height, end - self.scroll_offset.y)
            draw_soon(self, Region(0, top, self._columns, max(0, bottom - top)), scrolled=scrolled)
        self._read_soon()

    def _move(self) -> bool:
        self._is_settling, is_new = True, False
        while True:
            self._keep_position()
            first, end = self._near(_LAID_OUT_VIEWS)
            fresh = [at for at in range(first, end) if not self.items[at].is_laid_out]
            if not fresh:
                break
            is_new = True
            for at in fresh:
                self.lay_out(self.items[at])
                self._number(at)
            self._measure(fresh[0])
        self._is_settling = False
        self._read_soon()
        return is_new

    def _number(self, at: int) -> None:
        """Number the rows of an item for a selection, because all of it is drawn."""
        for number, part in enumerate(self.items[at].parts):
            if part.first_number != (first := (at << _PART_BITS | number) << _ROW_BITS):
                part.first_number, part.paint = first, self.paint
                part.redraw()
        self.items[at].changed_line(self._width)

    def _near(self, n_views: int) -> tuple[int, int]:
        top, reach = round(self.scroll_y), n_views * self._height
        first = bisect_right(self._ends, max(0, top - reach))
        end = bisect_right(self._ends, top + self._height + reach - 1) + 1
        return first, min(end, len(self.items))

    def _is_far(self, item: Item | None) -> bool:
        first, end = self._near(_FAR_VIEWS)
        return item is not None and not first <= self._index(item) < end

    def _keep_position(self) -> None:
        """Scroll to the end or to the anchor, before anything is drawn elsewhere."""
        y = last = max(0, self._n_lines - self._height)
        if self._anchor is not None:
            item, above = self._anchor
            y = max(0, min(self._top_of(item) + min(above, item.n_lines(self._width) - 1), last))
        size = Size(self._columns, self._n_lines)
        if (y, size) == (round(self.scroll_y), self.virtual_size):
            return
        self.set_scroll(None, y)
        self.set_reactive(Widget.scroll_target_y, y)
        self.set_reactive(Widget.virtual_size, size)
        bar = self.vertical_scrollbar
        bar.set_reactive(ScrollBar.position, y)
        bar.set_reactive(ScrollBar.window_virtual_size, self._n_lines)
        if self.show_vertical_scrollbar != (self._n_lines > self._height):
            # The next layout shows or hides the scrollbar; the text leaves a column for it.
            self.refresh(layout=True)
        elif self.show_vertical_scrollbar:
            draw_soon(bar)

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual's event comes after the frame was drawn, with lines of the old width: Textualize/textual#5103.
        self._is_settling = True
        resized = super()._size_updated(size, virtual_size, container_size, layout)
        self._is_settling = False
        if (now := tuple(self.scrollable_content_region.size)) != (self._columns, self._height):
            self._columns, self._height = now
            self.redraw()
            self.settle()
        return resized

    def _reading(self) -> AnswerMessage | None:
        near = self.items[slice(*self._near(_LAID_OUT_VIEWS))]
        return next((item for item in near if isinstance(item, AnswerMessage) and item.is_reading), None)

    def _read_soon(self) -> None:
        if not self._reads_soon and self._reading() is not None:
            self._reads_soon = True
            self.call_after_refresh(self._read)

    def _read(self) -> None:
        self._reads_soon = False
        if (answer := self._reading()) is not None:
            answer.read_more()
            self.update(answer)

    # Scrolling

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_settling:
            self._set_anchor()
            self._move()

    def _set_anchor(self) -> None:
        y = round(self.scroll_y)
        self._anchor = None
        if y < self._n_lines - self._height:
            item = self.items[bisect_right(self._ends, y)]
            self._anchor = (item, y - self._top_of(item))

    @property
    def shows_end(self) -> bool:
        """Return whether the newest line is visible."""
        return self._anchor is None or self._n_lines <= round(self.scroll_y) + self._height

    def page(self, direction: int) -> None:
        """Scroll up (-1) or down (1) by the visible rows; at the end, follow again."""
        self._scroll_to_line(round(self.scroll_y) + direction * self._height)

    def _scroll_to_line(self, y: int) -> None:
        # The scrollbar, without which Textual does not scroll, comes with the next layout.
        self.scroll_to(y=y, animate=False, immediate=True, force=True)
        self._set_anchor()

    def go_to_beginning(self) -> None:
        """Show the first item at the top."""
        self._scroll_to_line(0)

    def follow_end(self) -> None:
        """Show the end, and follow it."""
        self._anchor = None
        self.settle()

    def show_at_top(self, item: Item) -> None:
        """Scroll an item to the top."""
        self._anchor = (item, 0)
        self.settle()

    def show_item(self, item: Item) -> None:
        """Scroll until an item is visible."""
        at = self._index(item)
        if not item.is_laid_out:
            self.show_at_top(item)
            return
        y, top, end = round(self.scroll_y), self._top_of(item), self._ends[at]
        if top < y or end - top >= self._height:
            self._scroll_to_line(top)
        elif end > y + self._height:
            self._scroll_to_line(end - self._height)

    def show_line(self, item: Item, part: MessagePart, line: int) -> None:
        """Scroll until a line of a part is visible, unless it already is, or the tokens replace the part."""
        if part not in item.parts:
            return
        line += self._top_of(item) + item.top_of(part, self._width)
        if not 0 <= line - round(self.scroll_y) < self._height - 1:
            self._scroll_to_line(line - _LINES_ABOVE)

    # Drawing

    def redraw(self) -> None:
        """Draw every line again when it is visible."""
        self._fronts.clear()
        for item in self.items:
            for part in item.parts:
                part.redraw()

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        if not regions:
            self.redraw()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def strips(self, first: int, end: int) -> Iterable[Strip]:
        drawn = [Strip.blank(self.outer_size.width, self.visual_style.rich_style)] * (end - first)
        for item, part, top, bottom in self._parts_at(first, end):
            start, stop = max(first, top), min(end, bottom)
            lines = list(part.lines(start - top, stop - top))
            n_below = stop - start - len(lines)
            drawn[start - first : stop - first] = lines + [self._blank(item, part)] * n_below if n_below else lines
        return drawn

    def _parts_at(self, first: int, end: int) -> Iterator[tuple[Item, MessagePart, int, int]]:
        """Yield the parts in these lines of the view, each with its item, its first line and the line below it."""
        y = self.scroll_offset.y
        at = bisect_right(self._ends, first + y)
        for number, item in enumerate(self.items[at : bisect_right(self._ends, end - 1 + y) + 1], at):
            bottom = (self._ends[number - 1] if number else 0) - y
            for part in item.parts:
                top, bottom = bottom, bottom + part.n_lines(self._width)
                if max(first, top) < min(end, bottom):
                    yield item, part, top, bottom

    def place_at(self, y: int) -> tuple[Item, MessagePart, int] | None:
        """Return the item and the part at a line of the view, if any, and the line in that part."""
        return next(((item, part, y - top) for item, part, top, _ in self._parts_at(y, y + 1)), None)

    @property
    def margin(self) -> int:
        """Return the cells before the mark of the chosen message."""
        return max(0, (self._columns - 1 - (_MAX_COLUMNS + 1)) // 2)

    def paint(self, part: MessagePart, number: int, line: Line, width: int) -> Strip:
        """Draw a line of a part with its left and right margins."""
        item = self.items[part.first_number >> _ROW_BITS >> _PART_BITS]
        style = QUIET if isinstance(item, MessageItem) and item.is_unread else part.style
        return self._framed(item, part.prefix, self.segments(line, part.first_number + number, style))

    def _blank(self, item: Item | None, part: MessagePart) -> Strip:
        item = item if isinstance(item, AnswerMessage) else None
        return self._framed(item, NOTHING, self.segments([(0, NOTHING)], part.first_number + len(part.rows) - 1))

    def _framed(self, item: Item | None, prefix: Content, segments: Sequence[Segment]) -> Strip:
        is_marked = isinstance(item, MessageItem) and (item is self.chosen or item.is_edited)
        key = is_marked, prefix
        if key not in self._fronts:
            before = Content(" " * self.margin) + Content.styled(CHOSEN_BAR if is_marked else " ", QUIET) + prefix
            self._fronts[key] = self.segments([(None, before)], 0)
        return self.finished([*self._fronts[key], *segments], self.outer_size.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text of laid out items, with unwrapped lines."""
        parts = (part for item in self.items for part in item.parts if part.is_shown)
        texts = (text for part in parts for text in part.selected(selection))
        return "".join(texts).removeprefix("\n"), "\n"
