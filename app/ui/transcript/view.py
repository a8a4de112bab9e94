"""Scroll view that mounts the messages near it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.reactive import var
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from app.ui.transcript.column import Entry
from app.ui.transcript.message_data import MessageData
from app.ui.transcript.message_view import MessageView
from app.ui.transcript.window import Window

_LEAST, _STEPS = 1, (4, 7)
"""Windowfuls beside what is seen. With fewer than the least mounted there are more to mount: on the side that the user
moves to, so many at a time that a key never waits long."""
_MANY = 30
"""Entries that are mounted on one side at most; small ones in a large window need not be seven windowfuls."""
_MOST_FAR = 60
"""Messages that are left behind while the user moves on, before they are unmounted together; at the end none are."""


class _Held(NamedTuple):
    """Anchor of the scroll position."""

    entry: Entry
    offset: float


class View(VerticalScroll, can_focus=False):
    """A column of entries, of which those near to what is seen are mounted; moves with its end until the user does not.

    Whatever comes, goes or grows above it, the first entry in sight stays where it is on the screen. Anyone who changes
    the entries does so within `_changing`.

    Args:
        first: What is there before anything is said.
    """

    # Do not lay out the children a second time when they grow.
    virtual_size = var(Size(0, 0))

    def __init__(self, *first: Entry) -> None:
        super().__init__()
        self.said = Window(*first)
        self.column = self.said.column
        self._held: _Held | None = None
        """The first entry in sight; None while the view moves with the end."""
        self._upwards = True
        self._lock = asyncio.Lock()
        self._mounts_now = self._mounts_soon = False
        self._height = 0
        """Rows that are seen, at the last layout; Textual would make one again to tell."""

    def compose(self) -> ComposeResult:
        yield self.said

    def on_mount(self) -> None:
        self.anchor()

    # What is mounted

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """One change at a time, drawn when it is whole."""
        async with self._lock:
            with self.app.batch_update():
                yield

    def _present(self, data: MessageData) -> MessageView:
        """The message that something stands for."""
        raise NotImplementedError

    def _pinned(self) -> Iterable[Entry]:
        """Return what is mounted wherever the user looks; what has the keys or is marked as text is in any case."""
        return ()

    async def _settle(self, also: Iterable[Entry] = ()) -> None:
        """Mount the next of what is near to what is seen, and go on when that is drawn; at last unmount what is far.

        Args:
            also: What else is to be mounted.
        """
        if not self.is_attached:
            # The application is about to end.
            return
        column = self.column
        pinned = {*column.entries[-1:], *filter(column.holds, [*self._pinned(), *also])}
        near, kept = self._next_near(), self._around(_STEPS[-1], _STEPS[-1])
        for entry in sorted(pinned.union(column.entries[near.start : near.stop]), key=lambda entry: entry.number):
            if entry.widget is None and entry.data is not None and not entry.hidden:
                column.enter(entry, self._present(entry.data))
        mounted = column.mounted
        fresh = [entry for entry in mounted if entry.widget is not None and entry.widget.parent is None]
        far = [entry for entry in mounted if entry.message_view and entry.number not in kept and entry not in pinned]
        if fresh:
            await self.said.mount_those(fresh)
            self._mount_soon()
        elif (self.following or len(far) > _MOST_FAR) and (leaving := self._unused(far)):
            await self.said.unmount_those(leaving)

    def _next_near(self) -> range:
        """The nearest entries of which some are not mounted; if all are, as far as it goes."""
        if self.column.lacks(self._around(0, 0)):
            return self._around(_LEAST, _LEAST)
        steps = [self._around(step, _LEAST) if self._upwards else self._around(_LEAST, step) for step in _STEPS]
        return next(filter(self.column.lacks, steps), steps[-1])

    def _around(self, above: float, below: float) -> range:
        """The numbers of the entries in so many windowfuls beside what is seen, but not too many of them."""
        top, height = self._top, self._height
        seen = self.column.between(top, top + height)
        wide = self.column.between(top - above * height, top + (1 + below) * height)
        return range(max(wide.start, seen.start - _MANY), min(wide.stop, seen.stop + _MANY))

    def _unused(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those that have not the keys, and of which nothing is marked as text or as being changed."""
        selected = {ancestor for widget in self.screen.selections for ancestor in widget.ancestors}
        return [
            entry
            for entry in entries
            if (message_view := entry.message_view) is not None
            and not (message_view in selected or message_view.has_focus_within or message_view.has_class("-changed"))
        ]

    async def _take_out(self, entries: Iterable[Entry]) -> None:
        """Take entries out; what comes in the place of what is held is held there."""
        leaving, held, there = set(entries), self._held, self.column.entries
        if held is not None and held.entry in leaving:
            number = held.entry.number
            nearest = [*there[number:], *reversed(there[:number])]
            stays = next((entry for entry in nearest if entry not in leaving), None)
            self._held = held._replace(entry=stays) if stays is not None else None
        await self.said.take_out(leaving)

    def _look(self) -> None:
        """See to it that what is near is mounted: at once what is seen, the rest when that is drawn."""
        if self.column.lacks(self._around(0, 0)):
            if not self._mounts_now:
                self._mounts_now = True
                self.call_next(self._mount_next)
        elif self.column.lacks(self._around(_LEAST, _LEAST)):
            self._mount_soon()

    def _mount_soon(self) -> None:
        if not self._mounts_soon:
            self._mounts_soon = True
            self.call_after_refresh(self._mount_next)

    async def _mount_next(self) -> None:
        self._mounts_now = self._mounts_soon = False
        async with self._changing():
            await self._settle()

    # Where the user looks

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        self._height = size.height
        for placement in arranged.placements:
            if placement.widget is self.said:
                self.said.arrange(placement.region.size)
                self._hold_still()
        return arranged

    def _hold_still(self) -> None:
        """Keep the first entry in sight where it is, before anything is drawn elsewhere."""
        if self._held is not None:
            y = round(self._top)
            if y != round(self.scroll_y):
                self.set_scroll(None, y)
                self.set_reactive(Widget.scroll_target_y, y)
                self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        self._look()

    @property
    def _top(self) -> float:
        """The first row in sight, at the next layout."""
        last = max(0, self.said.rows - self._height)
        if self._held is None:
            return last
        return min(max(0, self.column.top_of(self._held.entry) - self._held.offset), last)

    def _hold(self, y: float) -> None:
        """Keep what is in a row at the top of what is seen."""
        entry = self.column.at(y)
        self._held = _Held(entry, self.column.top_of(entry) - y) if entry is not None else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._held is not None:
            self._upwards = new_value < old_value
            self._hold(new_value)
        self._look()

    @property
    def following(self) -> bool:
        """Return whether the view moves with the end of the conversation."""
        return self._held is None

    def page(self, direction: int) -> None:
        """Move up (-1) or down (1) by what is in sight; at the end, follow again."""
        self._go(self._top + direction * self._height)

    def go_to_beginning(self) -> None:
        """Show the first message."""
        self._go(0)

    def _go(self, y: float) -> None:
        """Show what is from a row on; what is not mounted there is, before it is drawn."""
        y = max(0, min(y, self.said.rows - self._height))
        if self.column.lacks(self.column.between(y, y + self._height)):
            self.release_anchor()
            self._upwards = y < self._top
            self._hold(y)
            self._look()
        else:
            self.scroll_to(y=y, animate=False, immediate=True)
        self._follow_at_end()

    def _bring_up(self, entry: Entry) -> None:
        """Let an entry be the first in sight from the next layout on."""
        self.release_anchor()
        self._held = _Held(entry, 0)
        self.refresh(layout=True)

    def _show(self, entry: Entry) -> None:
        """Bring an entry in sight."""
        top, height = self.column.top_of(entry), self._height
        rows = entry.widget.outer_size.height if entry.widget is not None else 0
        if not rows:
            # It was mounted just now.
            self._bring_up(entry)
        elif top < self.scroll_y or rows >= height:
            self._go(top)
        elif top + rows > self.scroll_y + height:
            self._go(top + rows - height)
        else:
            self._follow_at_end()

    def anchor(self, anchor: bool = True) -> None:
        if anchor:
            self._held, self._upwards = None, True
        super().anchor(anchor)
        self._look()

    def release_anchor(self) -> None:
        if self._held is None:
            self._hold(self.scroll_y)
            # Textual would take hold again where what is mounted above leaves the end in sight for a moment.
            self.anchor(False)
        super().release_anchor()

    def on_mouse_scroll_down(self) -> None:
        self.call_next(self._follow_at_end)

    def on_scroll_to(self) -> None:
        self.call_next(self._follow_at_end)

    def _follow_at_end(self) -> None:
        # Textual lets go of the end on every scroll, and takes hold again only if something moved.
        if self._top >= self.said.rows - self._height:
            self.anchor()
