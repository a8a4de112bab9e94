"""A long column of messages of which only some are mounted.

In place of the others rows are blank: as many as a message had when it was seen, or would have by a guess. Where a
guess was wrong everything below it moves; `View` sees to it that this is not what the user looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import groupby, zip_longest

from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.geometry import Offset, Size
from textual.layout import DockArrangeResult, WidgetPlacement
from textual.reactive import var
from textual.widget import Widget

from app.ui.transcript.column import Column, Entry

_WIDTH = 100
"""Cells of a message, which is in the middle where there are more."""


class Window(VerticalGroup):
    """The column.

    Args:
        first: What is in it before anything is put there.

    Attributes:
        column: What is in it, and where.
    """

    # Do not lay out the children a second time when they grow.
    virtual_size = var(Size(0, 0))

    def __init__(self, *first: Entry) -> None:
        super().__init__(id="said")
        self.column = Column()
        self.column.put(first)
        self._arranged: DockArrangeResult | None = None

    def compose(self) -> ComposeResult:
        yield from (entry.widget for entry in self.column.mounted if entry.widget is not None)

    @property
    def message_width(self) -> int:
        """Cells of a line of a message."""
        return max(1, min(_WIDTH, self.size.width) - 1)

    # What is in it

    def put(self, entries: Sequence[Entry], before: Entry | None = None) -> None:
        """Put entries below all others, or above one; `mount_those` mounts what is to be."""
        self.column.put(entries, before)
        self.resize()

    async def take_out(self, leaving: Set[Entry]) -> None:
        """Take entries out."""
        self.column.take_out(leaving)
        await self._remove([entry.widget for entry in leaving if entry.widget is not None])

    async def mount_those(self, entries: Iterable[Entry]) -> None:
        """Mount the widgets of some entries."""
        fresh = set(entries)
        runs = [list(run) for _, run in groupby(self.column.mounted, fresh.__contains__)]
        mounted = [
            self.mount(*(entry.widget for entry in run if entry.widget), before=below[0].widget if below else None)
            for run, below in zip_longest(runs, runs[1:])
            if run[0] in fresh
        ]
        for waiting in mounted:
            await waiting

    async def unmount_those(self, entries: Iterable[Entry]) -> None:
        """Unmount the messages of some entries."""
        await self._remove([self.column.leave(entry) for entry in entries])

    async def _remove(self, widgets: Sequence[Widget]) -> None:
        for widget in widgets:
            widget.display = False
        self.resize()
        await self.remove_children(widgets)

    # Where things are

    def resize(self) -> None:
        """Entries have come or gone, or take other rows."""
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self.arrange(Size(width, 0))
        return self.rows

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        self.column.fit(size.width)
        arranged = super().arrange(size, optimal)
        if not optimal and arranged is not self._arranged:
            self._arranged = arranged
            self._measure(arranged.placements)
        return arranged

    def process_layout(self, placements: list[WidgetPlacement]) -> list[WidgetPlacement]:
        tops, blank, next_number = self.column.tops, 0, 0
        moved = []
        for placement in placements:
            entry = self.column.entry_of(placement.widget)
            if entry is not None:
                blank += tops[entry.number] - tops[next_number]
                next_number = entry.number + 1
            moved.append(placement._replace(region=placement.region.translate(Offset(0, blank))))
        return moved

    def _measure(self, placements: Sequence[WidgetPlacement]) -> None:
        tops = self.column.tops
        bottom = max((each.region.bottom + each.margin.bottom for each in placements), default=0)
        below: Entry | None = None
        for placement in reversed(placements):
            entry = self.column.entry_of(placement.widget)
            if entry is None:
                continue
            if below is not None:
                bottom -= tops[below.number] - tops[entry.number + 1]
            self.column.measured(entry, bottom - placement.region.y)
            bottom, below = placement.region.y, entry

    @property
    def rows(self) -> int:
        """Of everything."""
        return self.column.tops[-1]
