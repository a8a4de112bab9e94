"""The text of an answer: Markdown, or colored by token source."""

from __future__ import annotations

from collections.abc import Iterable

from app.ui.reading.token_rows import COLORLESS, STYLES, Run, TokenDocument
from app.ui.widgets.rows_view import RowsView

AT_ONCE = 16_000
"""Characters of Markdown that are read before keys have their turn: about 50 ms."""


class ModelMarkdown(RowsView):
    """Markdown that grows; a long text is read in pieces, so that keys do not wait for it."""

    def __init__(self) -> None:
        # The first frame need not wait for the Markdown parser.
        from app.ui.reading.document import MarkdownDocument

        super().__init__()
        self._document = MarkdownDocument()
        self._unread = ""

    def append(self, text: str) -> None:
        """Show more text."""
        is_reading = bool(self._unread)
        self._unread += text
        if not is_reading:
            self._read()

    def on_mount(self) -> None:
        if self._unread:
            self.call_after_refresh(self._read)

    def _read(self) -> None:
        piece, self._unread = self._unread[:AT_ONCE], self._unread[AT_ONCE:]
        document = self._document
        n_frozen = len(document.frozen)
        document.append(piece)
        self.put(n_frozen, [*document.frozen[n_frozen:], *document.open])
        if self.is_attached:
            self.on_mount()


class TokenView(RowsView):
    """The plain text of an answer, in the color of each token's source."""

    def __init__(self, runs: Iterable[Run]) -> None:
        super().__init__()
        self._document = TokenDocument(COLORLESS if self.app.no_color else STYLES)
        self.append(runs)

    def append(self, runs: Iterable[Run]) -> None:
        """Show more text."""
        document = self._document
        n_frozen = len(document.frozen)
        document.append(runs)
        self.put(n_frozen, [*document.frozen[n_frozen:], *document.open])
