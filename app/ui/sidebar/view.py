"""Base class of the widgets that show readouts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from app.ui.reading.rows import Row
from app.ui.sidebar.readouts import Readouts
from app.ui.widgets.rows_view import RowsView


class ReadoutView(RowsView):
    """Lines about the readouts; only those that have changed are drawn."""

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts

    def on_mount(self) -> None:
        self._readouts.watch(self.readouts_changed)

    def on_resize(self) -> None:
        self.show()

    def readouts_changed(self) -> None:
        """Draw again after the readouts have changed."""
        self.show()

    def show(self) -> None:
        """Draw the lines that have changed."""
        if self.size:
            self.exchange([Row(line) for line in self.lines(*self.size)])

    def lines(self, width: int, height: int) -> Sequence[Content]:
        """Return the lines for a widget of this size, in cells."""
        raise NotImplementedError
