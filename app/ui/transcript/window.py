"""Scroll view that mounts only the messages near the reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate

from textual.app import ComposeResult
from textual.containers import VerticalGroup, VerticalScroll
from textual.geometry import Offset, Region, Size
from textual.layout import DockArrangeResult
from textual.reactive import var
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from app.conversations.tree import Node
from app.ui.reading.token_rows import TokenRuns
from app.ui.terminal.compositor import LineCompositor

MOST = 40
"""Items that stay mounted, unless more are within reach."""
CHUNK, _CHUNK_SIZE = 10, 8_000
"""Items that are mounted together, and their characters."""
_AHEAD, _KEPT = 1, 2
"""Windowfuls beyond the visible rows: fewer mount more items; what is farther away is unmounted."""


@dataclass(eq=False, slots=True)
class Item:
    """A message or a notice.

    Attributes:
        node: The message as it was last shown; None for a notice.
        is_answer: True for an answer, and for the reason why a prompt has none.
        widget: None while the message is not mounted; a notice always has one.
        token_runs: Sources of the tokens of an answer that was mounted, if known.
    """

    node: Node | None = None
    is_answer: bool = False
    widget: Widget | None = None
    token_runs: TokenRuns | None = None


class _Column(VerticalGroup):
    BLANK = True
    # Growing content must not cause a second layout.
    virtual_size = var(Size(0, 0))


class MessageWindow(VerticalScroll, can_focus=False):
    """Shows a run of items and the widget above them; more are mounted when the reader comes near.

    The view follows the end until the reader scrolls. Then the first visible item keeps its position, whatever is
    mounted or grows above it. Change the items only within `_changing`.

    Attributes:
        items: All items; those from `_first` to `_end` are shown below `head`.
    """

    BLANK = True
    virtual_size = var(Size(0, 0))

    def __init__(self, head: Widget) -> None:
        super().__init__()
        self.items: list[Item] = []
        self.column = _Column(head, id="column")
        self._first = self._end = 0
        self._anchor: tuple[Item, int] | None = None
        """The first visible item and the rows of it above the view; None follows the end."""
        self._regions: dict[Widget | None, Region] = {}
        self._rows = self._height = 0
        self._lock = asyncio.Lock()
        self._is_extending = False

    def compose(self) -> ComposeResult:
        yield self.column

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Make one change at a time, and draw it when it is complete."""
        async with self._lock:
            with self.app.batch_update():
                yield

    # Items

    def _build(self, item: Item) -> Widget:
        raise NotImplementedError

    def _put(self, items: Sequence[Item], before: Item | None = None) -> None:
        at = self.items.index(before) if before is not None else len(self.items)
        self.items[at:at] = items
        if at < self._first:
            self._first += len(items)
            self._end += len(items)
        elif at <= self._end and len(items) <= CHUNK:
            self._end += len(items)

    async def _take_out(self, leaving: Set[Item]) -> None:
        """Remove items. If the anchor is removed, its successor becomes the anchor."""
        if not leaving:
            return
        anchor = self._anchor
        at = self.items.index(anchor[0]) if anchor is not None else 0
        at, self._first, self._end = (
            edge - sum(item in leaving for item in self.items[:edge]) for edge in (at, self._first, self._end)
        )
        self.items = [item for item in self.items if item not in leaving]
        if anchor is not None and anchor[0] in leaving:
            self._anchor = (self.items[min(at, len(self.items) - 1)], anchor[1]) if self.items else None
        await self._unmount([item.widget for item in leaving if item.widget is not None])

    async def _unmount(self, widgets: Sequence[Widget]) -> None:
        if widgets and self.is_attached:
            await self.column.remove_children(widgets)

    async def _settle(self) -> None:
        """Mount the shown items and the last exchange, and unmount other messages."""
        if not self.is_attached:
            return
        self._move_window()
        shown = set(self.items[self._first : self._end])
        kept = shown.union([item for item in self.items if item.node is not None][-2:])
        fresh, leaving = [], []
        for item in self.items:
            if item in kept and item.widget is None:
                item.widget = self._build(item)
            if item.widget is None:
                continue
            if item.widget.display != (item in shown):
                item.widget.display = item in shown
            if item.widget.parent is None:
                fresh.append(item.widget)
            elif item.node is not None and item not in kept:
                leaving.append(item.widget)
                item.widget = None
        if fresh:
            mounting = self.column.mount(*fresh)
            order = {item.widget: number for number, item in enumerate(self.items) if item.widget is not None}
            self.column.sort_children(key=lambda widget: order.get(widget, -1))
            await mounting
        await self._unmount(leaving)
        self.refresh(layout=True)

    def _move_window(self) -> None:
        """Show the end, or what is around the anchor, if the window does not reach there."""
        if self._anchor is None:
            if self._end < len(self.items):
                self._first, self._end = self._chunk(len(self.items), -1), len(self.items)
        elif not self._first <= (at := self.items.index(self._anchor[0])) < self._end:
            self._first, self._end = self._chunk(at, -1), self._chunk(at, 1)

    def _chunk(self, edge: int, step: int) -> int:
        """Return the other edge of the chunk of items above (-1) or below (1) an edge."""
        items = self.items[edge : edge + CHUNK] if step > 0 else self.items[max(0, edge - CHUNK) : edge][::-1]
        sizes = accumulate(len(item.node.text) if item.node is not None else 0 for item in items)
        return edge + step * next((n for n, size in enumerate(sizes, 1) if size > _CHUNK_SIZE), len(items))

    # Scrolling

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        for placement in arranged.placements:
            if placement.widget is self.column:
                children = self.column.arrange(placement.region.size).placements
                self._regions = {child.widget: child.region for child in children}
                self._rows, self._height = placement.region.height, size.height
                self._keep_position()
        return arranged

    def make_room(self, widget: Widget, more: int) -> bool:
        """Make a widget taller by `more` lines; return False if that takes a layout of the screen."""
        compositor, top = self.screen._compositor, self.scroll_offset.y
        message = next((each for each in widget.ancestors if each.parent is self.column), None)
        region = self._regions.get(message) if isinstance(message, Widget) else None
        is_settled = not (self.screen._layout_required or self.screen._layout_widgets)
        has_bar = self.show_vertical_scrollbar or self._rows + more <= self._height
        if more < 0 or region is None or not (is_settled and has_bar and isinstance(compositor, LineCompositor)):
            return False
        self._regions = {
            each: old.grow((0, 0, more, 0))
            if each is message
            else old + Offset(0, more)
            if old.y >= region.bottom
            else old
            for each, old in self._regions.items()
        }
        self._rows += more
        self._keep_position()
        return compositor.grow(widget, self, more, self.scroll_offset.y - top, max(self._rows, self._height))

    def _keep_position(self) -> None:
        """Scroll to the end or to the anchor, before anything is drawn elsewhere."""
        y = last = max(0, self._rows - self._height)
        if self._anchor is not None:
            item, above = self._anchor
            region = self._regions.get(item.widget)
            y = max(0, min(region.y + above, last)) if region is not None else round(self.scroll_y)
        if y != round(self.scroll_y):
            self.set_scroll(None, y)
            self.set_reactive(Widget.scroll_target_y, y)
            self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        self._extend_soon()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._set_anchor()
        self._extend_soon()

    def _set_anchor(self) -> None:
        """Hold the first visible item, or follow the end if it is visible."""
        y = round(self.scroll_y)
        self._anchor = None
        if y < self._rows - self._height or self._end < len(self.items):
            for item in self.items[self._first : self._end]:
                region = self._regions.get(item.widget)
                if region is not None and region.bottom > y:
                    self._anchor = (item, y - region.y)
                    break

    def _extend_soon(self) -> None:
        if not self._is_extending and self._reach() != (self._first, self._end):
            self._is_extending = True
            self.call_after_refresh(self._extend)

    async def _extend(self) -> None:
        self._is_extending = False
        async with self._changing():
            self._first, self._end = self._reach()
            await self._settle()

    def _reach(self) -> tuple[int, int]:
        """Return the first and the end of the items that should be shown around the visible rows."""
        top, height = round(self.scroll_y), self._height
        first, end = self._first, self._end
        if top < _AHEAD * height:
            first = self._chunk(first, -1)
        if self._rows - top - height < _AHEAD * height:
            end = self._chunk(end, 1)
        none = Region(0, top, 0, 0)
        while end - first > MOST and self._regions.get(self.items[first].widget, none).bottom < top - _KEPT * height:
            first += 1
        bottom = top + (1 + _KEPT) * height
        while end - first > MOST and self._regions.get(self.items[end - 1].widget, none).y > bottom:
            end -= 1
        return first, end

    @property
    def following(self) -> bool:
        """Return True while the view follows the end."""
        return self._anchor is None

    def page(self, direction: int) -> None:
        """Scroll up (-1) or down (1) by the visible rows; at the end, follow again."""
        self.scroll_to(y=self.scroll_y + direction * self._height, animate=False, immediate=True)
        self._set_anchor()

    async def go_to_beginning(self) -> None:
        """Show the first item at the top."""
        if self.items and self._rows > self._height:
            async with self._changing():
                await self._show_at_top(self.items[0])

    async def follow_end(self) -> None:
        """Show the end, and follow it."""
        async with self._changing():
            self._anchor = None
            await self._settle()

    async def _show_at_top(self, item: Item) -> None:
        self._anchor = (item, 0)
        await self._settle()

    def _scroll_to_item(self, item: Item) -> None:
        top, region = round(self.scroll_y), self._regions.get(item.widget)
        if region is None:
            # It was just mounted.
            self._anchor = (item, 0)
            self.refresh(layout=True)
        elif region.y < top or region.height >= self._height:
            self.scroll_to(y=region.y, animate=False, immediate=True)
        elif region.bottom > top + self._height:
            self.scroll_to(y=region.bottom - self._height, animate=False, immediate=True)
