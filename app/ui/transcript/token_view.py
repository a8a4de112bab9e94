"""An answer as it was made, token by token."""

from __future__ import annotations

from collections.abc import Iterable

from app.ui.reading.origins import COLOURLESS, STYLES, OriginDocument, Run
from app.ui.widgets.rows_view import RowsView


class TokenView(RowsView):
    """The plain text of an answer, in the colours of who wrote each token first.

    Args:
        runs: What there is of it.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        super().__init__()
        self._document = OriginDocument(COLOURLESS if self.app.no_color else STYLES)
        self.append(runs)

    def append(self, runs: Iterable[Run]) -> None:
        """Show more of it."""
        document = self._document
        frozen = len(document.frozen)
        document.append(runs)
        self.put(frozen, [*document.frozen[frozen:], *document.open])
