"""What is seen of a long column of messages: it stays where it is, and what is near to it is mounted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from time import monotonic

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.getters import query_one
from textual.layout import DockArrangeResult
from textual.scrollbar import ScrollBar
from textual.timer import Timer
from textual.widget import Widget

from app.ui.widgets.even import Even
from app.ui.widgets.speech import Speech
from app.ui.widgets.window import Entry, Window

_LEAST, _STEPS = 1, (4, 7)
"""Windowfuls beside what is seen. With fewer than the least mounted there are more to mount: on the side that the user
moves to, so many at a time that a key never waits long."""
_MANY = 30
"""Entries that are mounted on one side beyond the least; small ones in a large window need not be seven windowfuls."""
_MOST_FAR = 60
"""Messages that are left behind while the user moves on, before they are unmounted together."""
_REST = 1.0
"""Seconds without moving after which what is far is unmounted."""


class View(VerticalScroll, Even, can_focus=False):
    """A column of entries, of which those near to what is seen are mounted; moves with its end until the user does not.

    Whatever comes, goes or grows above it, the first entry in sight stays where it is on the screen. Whoever changes
    the entries holds `_changes` meanwhile.
    """

    said = query_one("#said", Window)

    def __init__(self) -> None:
        super().__init__()
        self._left = False
        self._held: tuple[Entry, float] | None = None
        """The first entry in sight, and its top relative to what is seen."""
        self._upwards = True
        self._changes = asyncio.Lock()
        self._mounts_now = self._mounts_soon = self._wants_more = False
        self._height = 0
        """Rows that are seen, at the last layout; Textual would make one anew to tell."""
        self._moved = 0.0
        self._resting: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Window()

    def on_mount(self) -> None:
        self.anchor()

    # What is mounted

    def _pinned(self) -> Iterable[Entry]:
        """What is mounted wherever the user looks; what has the keys or is marked as text is in any case."""
        return ()

    async def _furnish(self, speech: Speech) -> None:
        """A message was mounted."""

    async def _settle(self, also: Iterable[Entry] = (), *, rests: bool = False) -> None:
        """Mount the next of what is near to what is seen, and unmount what is far if that is much.

        Args:
            also: What else is to be mounted.
            rests: Whether the user has not moved for a while: then all that is far goes.
        """
        said, entries = self.said, self.said.entries
        if not entries:
            return
        pinned = {entries[-1], *self._pinned(), *also, *self._in_use()}
        near = self._next_near()
        fresh = [
            entry
            for at, entry in enumerate(entries)
            if entry.widget is None and not entry.hidden and (at in near or entry in pinned)
        ]
        kept = self._around(_STEPS[-1], _STEPS[-1])
        far = [
            entry
            for at, entry in enumerate(entries)
            if entry.speech is not None and at not in kept and entry not in pinned
        ]
        leaves = far if rests or len(far) > _MOST_FAR else []
        if far and not leaves and self._resting is None:
            self._resting = self.set_timer(_REST, self._rest)
        self._wants_more = bool(fresh)
        if fresh or leaves:
            await said.change(fresh, leaves)
        else:
            await said.stretch()
        for entry in fresh:
            if entry.speech is not None:
                await self._furnish(entry.speech)

    def _next_near(self) -> range:
        """The nearest entries of which some are not mounted; if all are, as far as it goes."""
        near = self._around(0, 0)
        if self._lacks(near):
            return self._around(_LEAST, _LEAST)
        for ahead in _STEPS:
            near = self._around(*((ahead, _LEAST) if self._upwards else (_LEAST, ahead)))
            if self._lacks(near):
                break
        return near

    def _around(self, above: float, below: float) -> range:
        """The entries in so many windowfuls above and below what is seen, but not too many of them."""
        said, height = self.said, self._height
        if self.following or self._held is None:
            at, top = len(said.entries), float(height)
        else:
            at, top = said.entries.index(self._held[0]), self._held[1]
        wanted = said.around(at, top, -above * height, (1 + below) * height)
        least = said.around(at, top, -min(above, _LEAST) * height, (1 + min(below, _LEAST)) * height)
        return range(max(wanted.start, least.start - _MANY), min(wanted.stop, least.stop + _MANY))

    def _lacks(self, near: range) -> bool:
        return any(entry.widget is None and not entry.hidden for entry in self.said.entries[near.start : near.stop])

    def _in_use(self) -> list[Entry]:
        """What has the keys, is marked as text or as being changed."""
        selected = {ancestor for widget in self.screen.selections for ancestor in widget.ancestors}
        return [
            entry
            for entry in self.said.entries
            if (speech := entry.speech) is not None
            and (speech in selected or speech.has_focus_within or speech.has_class("-changed"))
        ]

    def _look(self) -> None:
        """See to it that what is near is mounted: at once what is seen, the rest when that is drawn."""
        height = self._height
        top = self.scroll_y if self.following or self._held is None else self._top
        if self.said.lacks(top, top + height):
            if not self._mounts_now:
                self._mounts_now = True
                self.call_next(self._mount_next)
        elif self._wants_more or self.said.lacks(top - _LEAST * height, top + (1 + _LEAST) * height):
            self._mount_soon()

    def _mount_soon(self) -> None:
        if not self._mounts_soon:
            self._mounts_soon = True
            self.call_after_refresh(self._mount_next)

    async def _mount_next(self) -> None:
        self._mounts_now = self._mounts_soon = False
        async with self._changes:
            # What is blank is not drawn before it is mounted.
            with self.app.batch_update():
                await self._settle()
        if self._wants_more:
            self._mount_soon()

    def _rest(self) -> None:
        self._resting = None
        left = self._moved + _REST - monotonic()
        if left > 0:
            self._resting = self.set_timer(left, self._rest)
        else:
            self.call_next(self._unmount_far)

    async def _unmount_far(self) -> None:
        async with self._changes:
            with self.app.batch_update():
                await self._settle(rests=True)

    # Where the user looks

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        self._height = size.height
        for placement in arranged.placements:
            if placement.widget is self.said:
                self.said.arrange(placement.region.size)
                self._hold_still(placement.region.height - size.height)
        return arranged

    def _hold_still(self, furthest: int) -> None:
        """Keep the first entry in sight where it is, before anything is drawn elsewhere."""
        if not self.following and self._held is not None:
            y = min(max(0, round(self._top)), max(0, furthest))
            if y != round(self.scroll_y):
                self.set_scroll(None, y)
                self.set_reactive(Widget.scroll_target_y, y)
                self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        self._look()

    @property
    def _top(self) -> float:
        """The first row in sight."""
        top = self.said.top_of(self._held[0]) if self._held is not None and not self.following else None
        return top - self._held[1] if top is not None and self._held is not None else self.scroll_y

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.following:
            self._held = self.said.at(self.scroll_y)
            self._moves(new_value - old_value)
        self._look()

    def _moves(self, rows: float) -> None:
        self._moved = monotonic()
        self._upwards = rows < 0 if rows else self._upwards

    @property
    def following(self) -> bool:
        """Whether the view moves with the end of the conversation."""
        return not self._left

    def page(self, direction: int) -> None:
        """Move up (-1) or down (1) by what is in sight; at the end, follow again."""
        self._go(self._top + direction * self._height)
        self._hold()

    def go_to_beginning(self) -> None:
        """Show the first message."""
        self._go(0)

    def _go(self, y: float) -> None:
        """Show what is from a row on; what is not mounted there is, before it is drawn."""
        y = min(max(0, y), self.max_scroll_y)
        if self.said.lacks(y, y + self._height):
            self.release_anchor()
            self._moves(y - self._top)
            self._held = self.said.at(y)
            self._look()
        else:
            self.scroll_to(y=y, animate=False, immediate=True)

    def _show(self, entry: Entry) -> None:
        """Bring an entry in sight."""
        place, height = self.said.place_of(entry.widget), self._height
        if place is None:
            # It was mounted just now, and comes to the top.
            self.release_anchor()
            self._held = entry, 0
            self.refresh(layout=True)
            return
        top, bottom = place
        if top < self.scroll_y or bottom - top >= height:
            self._go(top)
        elif bottom > self.scroll_y + height:
            self._go(bottom - height)
        self._hold()

    def anchor(self, anchor: bool = True) -> None:
        self._left = not anchor
        self._upwards = self._upwards or anchor
        super().anchor(anchor)
        self._look()

    def release_anchor(self) -> None:
        if self.following:
            self._held = self.said.at(self.scroll_y)
            # Textual would take hold again where what is mounted above leaves the end in sight for a moment.
            self.anchor(False)
        super().release_anchor()

    def on_mouse_scroll_down(self) -> None:
        self.call_next(self._hold)

    def on_scroll_to(self) -> None:
        self.call_next(self._hold)

    def _hold(self) -> None:
        # Textual lets go of the end on every scroll, and takes hold again only if something moved.
        if self.is_vertical_scroll_end and not self._mounts_now:
            self.anchor()
