"""Rows of a text that may be huge: they come piece by piece, so that no key waits for all of them."""

from __future__ import annotations

from typing import ClassVar

from app.ui.widgets.rows_view import RowsView


class Gradual(RowsView):
    """Shows text. The beginning of a long one is there at once; the rest follows as soon as that is drawn."""

    AT_ONCE: ClassVar[int]
    """Characters that are read before keys have their turn: about a twentieth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self._unread = ""

    @property
    def is_whole(self) -> bool:
        """Whether all that was given is shown."""
        return not self._unread

    def append(self, text: str) -> None:
        """Show more text."""
        reads = not self.is_whole
        self._unread += text
        if not reads:
            self._read_on()

    def on_mount(self) -> None:
        if not self.is_whole:
            self.call_after_refresh(self._read_on)

    def _read_on(self) -> None:
        piece, self._unread = self._unread[: self.AT_ONCE], self._unread[self.AT_ONCE :]
        self.read(piece)
        if self.is_attached:
            self.on_mount()

    def read(self, piece: str) -> None:
        """Make rows of more text."""
        raise NotImplementedError
