"""Vertical positions of all entries, mounted or not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate

from textual.widget import Widget

from app.conversations.tree import Node
from app.ui.transcript.message_data import MessageData
from app.ui.transcript.message_view import MessageView

_WIDEST = 100
"""Columns that a message takes at most."""


class Entry:
    """A place in the column.

    Args:
        data: What stands for its message while that is not mounted; None for a widget that always is.
        widget: What is mounted, or about to be.
        message: The message as it was shown last; None for a widget that is none.

    Attributes:
        number: How many entries are above it.
        hidden: Whether nothing is shown of it.
    """

    __slots__ = ("_rows", "_width", "data", "hidden", "message", "number", "widget")

    def __init__(
        self, data: MessageData | None = None, widget: Widget | None = None, message: Node | None = None
    ) -> None:
        self.data = data
        self.message = message
        self.widget = widget
        self.number = 0
        self.hidden = False
        self._rows = self._width = 0

    @property
    def message_view(self) -> MessageView | None:
        """The message, if it is mounted."""
        return self.widget if isinstance(self.widget, MessageView) else None

    @property
    def node(self) -> int | None:
        """The id of its message in the conversation."""
        message = self.data if self.widget is None else self.message_view
        return message.node if message is not None else None

    @property
    def is_said(self) -> bool:
        """Return whether it is a message; neither a remark of the program nor a place where no answer came is one."""
        message = self.data if self.widget is None else self.message_view
        return message is not None and message.is_said

    def shows(self, data: MessageData, message: Node, *, is_live: bool) -> bool:
        """Return whether it shows a message as it is.

        Args:
            data: What would stand for it.
            message: The message.
            is_live: Whether its text comes, or came, piece by piece.
        """
        shown = self.message
        if shown is None or shown.id != message.id or type(self.data) is not type(data):
            return False
        return is_live or shown is message or (shown.says_as(message) and shown.ending == message.ending)

    def rows(self, width: int) -> int:
        """Return its rows at a width, measured or estimated."""
        if self.hidden:
            return 0
        if self._width != width and self.data is not None:
            self.measured(self.data.guess(min(width, _WIDEST)), width)
        return self._rows

    def measured(self, rows: int, width: int) -> None:
        self._rows, self._width = rows, width

    def forget_rows(self) -> None:
        """Its height has changed while it was not mounted."""
        self._width = 0


class Column:
    """The entries. What is asked for often is answered without a look at all of them.

    Attributes:
        entries: All there is, first one on top.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._width = 0
        self._rows: list[int] = []
        self._known_tops: list[int] | None = None
        self._mounted: dict[Widget, Entry] = {}

    # What is in it

    def put(self, entries: Sequence[Entry], before: Entry | None = None) -> None:
        """Insert entries at the end, or above one."""
        assert before is None or self.holds(before)
        at = before.number if before is not None else len(self.entries)
        self.entries[at:at] = entries
        self._rows[at:at] = [entry.rows(self._width) for entry in entries]
        self._mounted.update((entry.widget, entry) for entry in entries if entry.widget is not None)
        self._count(at)

    def take_out(self, leaving: Set[Entry]) -> None:
        """Remove entries."""
        first = min((entry.number for entry in leaving), default=len(self.entries))
        staying = [
            (entry, rows)
            for entry, rows in zip(self.entries[first:], self._rows[first:], strict=True)
            if entry not in leaving
        ]
        self.entries[first:] = [entry for entry, _ in staying]
        self._rows[first:] = [rows for _, rows in staying]
        for entry in leaving:
            if entry.widget is not None:
                self._mounted.pop(entry.widget, None)
        self._count(first)

    def holds(self, entry: Entry) -> bool:
        """Return whether an entry is in it, and was not taken out."""
        return entry.number < len(self.entries) and self.entries[entry.number] is entry

    def _count(self, first: int) -> None:
        for number, entry in enumerate(self.entries[first:], first):
            entry.number = number
        self._known_tops = None

    # What is mounted

    @property
    def mounted(self) -> list[Entry]:
        """The entries with a widget, first one on top."""
        return sorted(self._mounted.values(), key=lambda entry: entry.number)

    def entry_of(self, widget: Widget | None) -> Entry | None:
        """The entry that a widget belongs to."""
        return self._mounted.get(widget) if widget is not None else None

    def enter(self, entry: Entry, widget: Widget) -> None:
        """Assign a widget to an entry."""
        entry.widget = widget
        self._mounted[widget] = entry

    def leave(self, entry: Entry) -> MessageView:
        """Let the message of an entry be mounted no longer; returns what was."""
        message_view = entry.message_view
        assert message_view is not None
        del self._mounted[message_view]
        entry.data, entry.widget = message_view.data(), None
        return message_view

    def lacks(self, numbers: range) -> bool:
        """Return whether some of these entries are not mounted."""
        return any(entry.widget is None and not entry.hidden for entry in self.entries[numbers.start : numbers.stop])

    # Where things are

    def fit(self, width: int) -> None:
        """Set the width in cells."""
        if width != self._width:
            self._width = width
            self.fit_again()

    def fit_again(self) -> None:
        """Recompute the rows of every entry."""
        self._rows = [entry.rows(self._width) for entry in self.entries]
        self._known_tops = None

    def measured(self, entry: Entry, rows: int) -> None:
        """Store the rows of an entry after its layout."""
        entry.measured(rows, self._width)
        if self._rows[entry.number] != rows:
            self._rows[entry.number] = rows
            self._known_tops = None

    def hide(self, entries: Iterable[Entry], hidden: bool) -> None:
        """Hide or show entries."""
        for entry in entries:
            entry.hidden = hidden
            self._rows[entry.number] = entry.rows(self._width)
        self._known_tops = None

    @property
    def tops(self) -> list[int]:
        """The first row of every entry, and the one below the last."""
        if self._known_tops is None:
            self._known_tops = list(accumulate(self._rows, initial=0))
        return self._known_tops

    def top_of(self, entry: Entry) -> int:
        """The first row of an entry."""
        return self.tops[entry.number]

    def at(self, row: float) -> Entry | None:
        """The entry in a row, or the nearest; None if there is none at all."""
        number = bisect_right(self.tops, row, hi=len(self.entries)) - 1
        return self.entries[max(0, number)] if self.entries else None

    def between(self, start: float, end: float) -> range:
        """The numbers of the entries that reach into rows.

        Args:
            start: The first row.
            end: The one below the last.
        """
        tops = self.tops
        return range(max(0, bisect_right(tops, start) - 1), min(len(self.entries), bisect_left(tops, end)))
