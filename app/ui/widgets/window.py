"""A long column of messages of which only those near to what is seen are mounted.

The others are blank rows, as many as they had when they were seen, or would have by a guess. A guess that was wrong
moves what is below it; `MessageList` sees to it that this is not what the user looks at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.strip import Strip
from textual.widget import AwaitMount, Widget

from app.ui.widgets.absent import Absent, AbsentAnswer, AbsentPrompt
from app.ui.widgets.message import AnswerMessage, UserMessage
from app.ui.widgets.said import Said
from app.ui.widgets.speech import Speech

_WIDEST = 100
"""Columns that a message takes at most."""


class _Place(NamedTuple):
    """Rows of a widget at the last layout: the first, the one below the last, and where the next widget begins."""

    top: int
    bottom: int
    end: int
    widget: Widget


class Gap(Widget, can_focus=False):
    """Blank rows in place of messages."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "Gap { height: 0; }"

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def stretch(self, rows: int) -> None:
        if rows != self.rows:
            self.rows = rows
            self.styles.height = rows

    def render_line(self, y: int) -> Strip:
        return Strip.blank(self.size.width, self.visual_style.rich_style)


class Entry:
    """A place in the column.

    Args:
        absent: What stands for its message while that is not mounted; None for a widget that always is.
        widget: The message.

    Attributes:
        gap: The blank rows above it, for the messages that are not mounted there.
        hidden: Whether nothing is shown of it.
    """

    def __init__(self, absent: Absent | None = None, widget: Widget | None = None) -> None:
        self.absent = absent
        self.widget = widget
        self.gap: Gap | None = None
        self.hidden = False
        self._rows = self._width = 0

    @property
    def speech(self) -> Speech | None:
        """The message, if it is mounted."""
        return self.widget if isinstance(self.widget, Speech) else None

    @property
    def node(self) -> int | None:
        """The id of its message in the conversation."""
        if self.absent is not None and self.widget is None:
            return self.absent.node
        return self.speech.node if self.speech is not None else None

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


class Window(Said):
    """The column.

    Attributes:
        entries: All there is, first one on top.
    """

    def __init__(self) -> None:
        super().__init__(id="said")
        self.entries: list[Entry] = []
        self._foot = Gap()
        self._arranged: DockArrangeResult | None = None
        self._places: list[_Place] = []
        self._owners: dict[Widget, Entry] = {}
        self._width = 0

    @property
    def is_empty(self) -> bool:
        return not self.entries

    def compose(self) -> ComposeResult:
        yield self._foot

    # What is mounted

    async def change(self, fresh: Sequence[Entry], far: Iterable[Entry]) -> None:
        """Mount some messages, and unmount others."""
        gone = [widget for entry in far for widget in self._dismiss(entry)]
        await self._mount(fresh)
        await self.stretch(gone)

    async def add(self, *entries: Entry, before: Entry | None = None) -> None:
        """Put entries below all others, or above one; those with a widget are mounted at once."""
        at = self.entries.index(before) if before is not None else len(self.entries)
        self.entries[at:at] = entries
        await self._place_widgets([entry for entry in entries if entry.widget is not None])
        await self.stretch()

    async def take_out(self, entries: Iterable[Entry]) -> None:
        """Take entries out."""
        leaving = set(entries)
        self.entries = [entry for entry in self.entries if entry not in leaving]
        gone = [widget for entry in leaving for widget in (entry.gap, entry.widget) if widget is not None]
        await self.stretch(gone)

    def _dismiss(self, entry: Entry) -> list[Widget]:
        speech, gap = entry.speech, entry.gap
        assert speech is not None
        entry.absent, entry.widget, entry.gap = speech.absent(), None, None
        return [speech] if gap is None else [gap, speech]

    async def _mount(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            entry.widget = _present(entry.absent)
        await self._place_widgets(entries)
        for entry in entries:
            if isinstance(entry.widget, UserMessage) and isinstance(entry.absent, AbsentPrompt):
                entry.widget.recall(entry.absent)
            elif isinstance(entry.widget, AnswerMessage) and isinstance(entry.absent, AbsentAnswer):
                await entry.widget.recall(entry.absent)

    async def _place_widgets(self, entries: Sequence[Entry]) -> None:
        """Mount the widgets of entries that are in the column already, neighbours together."""
        wanted, run = set(entries), list[Widget]()
        mounted: list[AwaitMount] = []
        for entry in self.entries:
            if entry in wanted and entry.widget is not None:
                run.append(entry.widget)
            elif entry.widget is not None and run:
                mounted.append(self.mount(*run, before=entry.gap or entry.widget))
                run = []
        if run:
            mounted.append(self.mount(*run, before=self._foot))
        for waiting in mounted:
            await waiting

    async def stretch(self, gone: Sequence[Widget] = ()) -> None:
        """Make the blank rows as many as there are to be, and take away what is not needed."""
        width, rows, leaving = self._width, 0, list(gone)
        for entry in self.entries:
            if entry.widget is None:
                rows += entry.rows(width)
                continue
            if rows and entry.gap is None:
                entry.gap = Gap()
                self.mount(entry.gap, before=entry.widget)
            elif not rows and entry.gap is not None:
                leaving.append(entry.gap)
                entry.gap = None
            if entry.gap is not None:
                entry.gap.stretch(rows)
            rows = 0
        self._foot.stretch(rows)
        for widget in leaving:
            widget.display = False
        self._owners = {w: entry for entry in self.entries for w in (entry.gap, entry.widget) if w is not None}
        await self.remove_children(leaving)

    # Where things are

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        arranged = super().arrange(size, optimal)
        if not optimal and arranged is not self._arranged:
            self._arranged, self._width = arranged, size.width
            placed = sorted(arranged.placements, key=lambda placement: placement.region.y)
            ends = [placement.region.y for placement in placed[1:]]
            ends += [placement.region.bottom + placement.margin.bottom for placement in placed[-1:]]
            self._places = [
                _Place(one.region.y, one.region.bottom, end, one.widget) for one, end in zip(placed, ends, strict=True)
            ]
            for place in self._places:
                entry = self._owners.get(place.widget)
                if entry is not None and entry.widget is place.widget:
                    entry.measured(place.end - place.top, size.width)
        return arranged

    @property
    def rows(self) -> int:
        """Of everything, at the last layout."""
        return self._places[-1].end if self._places else 0

    def lacks(self, top: float, bottom: float) -> bool:
        """Whether something between two rows is not mounted."""
        gaps = (place for place in self._places if isinstance(place.widget, Gap) and place.bottom > place.top)
        return any(gap.top < bottom and gap.bottom > top for gap in gaps)

    def place_of(self, widget: Widget | None) -> tuple[int, int] | None:
        """The first row of a widget and the one below it; None before it was laid out."""
        return next(((place.top, place.bottom) for place in self._places if place.widget is widget), None)

    def top_of(self, entry: Entry) -> int | None:
        """The first row of an entry; None if that is not known yet."""
        placed = {place.widget: place for place in self._places}
        rows = 0
        for each in self.entries[self.entries.index(entry) :]:
            if each.widget in placed:
                return placed[each.widget].top - rows
            rows += each.rows(self._width)
        return placed[self._foot].bottom - rows if self._foot in placed else None

    def at(self, row: float) -> tuple[Entry, float] | None:
        """The entry in a row, and its top relative to that; None if there is nothing."""
        number = next((number for number, place in enumerate(self._places) if place.end > row), len(self._places))
        owned = ((place, self._owners.get(place.widget)) for place in self._places[number:])
        place, behind = next(((p, each) for p, each in owned if each and each.widget is p.widget), (None, None))
        if place is not None and behind is not None and place.top <= row:
            return behind, place.top - row
        # It is among what was not mounted at the last layout, upwards from the next entry that was.
        placed = {place.widget for place in self._places}
        y: float = place.top if place is not None else self.rows
        for entry in reversed(self.entries[: self.entries.index(behind) if behind is not None else None]):
            if entry.widget in placed:
                return None
            y -= entry.rows(self._width)
            if y <= row:
                return entry, y - row
        return (self.entries[0], 0) if self.entries else None

    def around(self, at: int, top: float, start: float, end: float) -> range:
        """The entries that reach into rows.

        Args:
            at: Where one of them stands in the column.
            top: Its first row; the rows below count from there, not from the top of the column.
            start: First row.
            end: The row below the last.
        """
        entries, width = self.entries, self._width
        first, y = at, top
        while first > 0 and y > start:
            first -= 1
            y -= entries[first].rows(width)
        while at < len(entries) and top < end:
            top += entries[at].rows(width)
            at += 1
        return range(first, at)


def _present(absent: Absent | None) -> Speech:
    assert absent is not None
    if isinstance(absent, AbsentPrompt):
        return UserMessage(absent.text, absent.label, absent.node)
    return AnswerMessage(absent.node)
