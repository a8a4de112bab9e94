"""A long column of messages of which only some are mounted.

In place of the others rows are blank: as many as a message had when it was seen, or would have by a guess. Where a
guess was wrong everything below it moves; `View` sees to it that this is not what the user looks at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate, groupby, zip_longest

from textual.geometry import Offset, Size
from textual.layout import DockArrangeResult, WidgetPlacement
from textual.widget import Widget

from app.ui.messages.absent import Absent
from app.ui.messages.said import Said
from app.ui.messages.speech import Speech

_WIDEST = 100
"""Columns that a message takes at most."""


class Entry:
    """A place in the column.

    Args:
        absent: What stands for its message while that is not mounted; None for a widget that always is.
        widget: What is mounted, or about to be.

    Attributes:
        hidden: Whether nothing is shown of it.
    """

    def __init__(self, absent: Absent | None = None, widget: Widget | None = None) -> None:
        self.absent = absent
        self.widget = widget
        self.hidden = False
        self._rows = self._width = 0

    @property
    def speech(self) -> Speech | None:
        """The message, if it is mounted."""
        return self.widget if isinstance(self.widget, Speech) else None

    @property
    def node(self) -> int | None:
        """The id of its message in the conversation."""
        message = self.absent if self.widget is None else self.speech
        return message.node if message is not None else None

    def rows(self, width: int) -> int:
        """Rows that it takes in so many columns, measured or guessed."""
        if self.hidden:
            return 0
        if self._width != width and self.absent is not None:
            self.measured(self.absent.guess(min(width, _WIDEST)), width)
        return self._rows

    def measured(self, rows: int, width: int) -> None:
        self._rows, self._width = rows, width

    def forget_rows(self) -> None:
        """Its height has changed while it was not mounted."""
        self._width = 0

    def leave(self) -> Speech:
        """Be mounted no longer; returns what was."""
        speech = self.speech
        assert speech is not None
        self.absent, self.widget = speech.absent(), None
        return speech


class Window(Said):
    """The column.

    Attributes:
        entries: All there is, first one on top.
    """

    def __init__(self) -> None:
        super().__init__(id="said")
        self.entries: list[Entry] = []
        self._arranged: DockArrangeResult | None = None
        self._width = 0
        self._known_tops: list[int] | None = None

    # What is in it

    def put(self, entries: Sequence[Entry], before: Entry | None = None) -> None:
        """Put entries below all others, or above one; `mount_those` mounts what is to be."""
        at = self.entries.index(before) if before is not None else len(self.entries)
        self.entries[at:at] = entries
        self.resize()

    async def take_out(self, leaving: Set[Entry]) -> None:
        """Take entries out."""
        self.entries = [entry for entry in self.entries if entry not in leaving]
        await self._remove([entry.widget for entry in leaving if entry.widget is not None])

    async def mount_those(self, entries: Iterable[Entry]) -> None:
        """Mount the widgets of some entries."""
        fresh = set(entries)
        present = [entry for entry in self.entries if entry.widget is not None]
        runs = [list(run) for _, run in groupby(present, fresh.__contains__)]
        mounted = [
            self.mount(*(entry.widget for entry in run if entry.widget), before=below[0].widget if below else None)
            for run, below in zip_longest(runs, runs[1:])
            if run[0] in fresh
        ]
        for waiting in mounted:
            await waiting

    async def unmount_those(self, entries: Iterable[Entry]) -> None:
        """Unmount the messages of some entries."""
        await self._remove([entry.leave() for entry in entries])

    async def _remove(self, widgets: Sequence[Widget]) -> None:
        for widget in widgets:
            widget.display = False
        self.resize()
        await self.remove_children(widgets)

    # Where things are

    def resize(self) -> None:
        """Entries have come or gone, or take other rows."""
        self._known_tops = None
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self.arrange(Size(width, 0))
        return self.rows

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        self._width = size.width
        arranged = super().arrange(size, optimal)
        if not optimal and arranged is not self._arranged:
            self._arranged, self._known_tops = arranged, None
            self._measure(arranged.placements)
        return arranged

    def process_layout(self, placements: list[WidgetPlacement]) -> list[WidgetPlacement]:
        blank, above = 0, dict[Widget, int]()
        for entry in self.entries:
            if entry.widget is None:
                blank += entry.rows(self._width)
            else:
                above[entry.widget] = blank
        return [
            placement._replace(region=placement.region.translate(Offset(0, above.get(placement.widget, 0))))
            for placement in placements
        ]

    def _measure(self, placements: Sequence[WidgetPlacement]) -> None:
        placed = {placement.widget: placement.region for placement in placements}
        top = max((each.region.bottom + each.margin.bottom for each in placements), default=0)
        for entry in reversed(self.entries):
            region = placed.get(entry.widget) if entry.widget is not None else None
            if region is not None:
                entry.measured(top - region.y, self._width)
                top = region.y
            elif entry.widget is None:
                top -= entry.rows(self._width)

    @property
    def _tops(self) -> list[int]:
        """The first row of every entry, and the one below the last."""
        if self._known_tops is None:
            self._known_tops = list(accumulate((entry.rows(self._width) for entry in self.entries), initial=0))
        return self._known_tops

    @property
    def rows(self) -> int:
        """Of everything."""
        return self._tops[-1]

    def top_of(self, entry: Entry) -> int:
        """The first row of an entry."""
        return self._tops[self.entries.index(entry)]

    def at(self, row: float) -> Entry | None:
        """The entry in a row, or the nearest; None if there is none at all."""
        number = bisect_right(self._tops, row, hi=len(self.entries)) - 1
        return self.entries[max(0, number)] if self.entries else None

    def between(self, start: float, end: float) -> range:
        """The numbers of the entries that reach into rows.

        Args:
            start: The first row.
            end: The one below the last.
        """
        tops = self._tops
        return range(max(0, bisect_right(tops, start) - 1), min(len(self.entries), bisect_left(tops, end)))

    def lacks(self, numbers: range) -> bool:
        """Whether some of these entries are not mounted."""
        return any(entry.widget is None and not entry.hidden for entry in self.entries[numbers.start : numbers.stop])
