"""Markdown written by a model: shown as it is written, trusted with nothing."""

from __future__ import annotations

from app.ui.reading.document import MarkdownDocument
from app.ui.widgets.gradual import Gradual


class ModelMarkdown(Gradual):
    """Text that comes from a model, in pieces.

    Args:
        document: What was laid out before.
    """

    AT_ONCE = 16_000

    def __init__(self, document: MarkdownDocument | None = None) -> None:
        super().__init__()
        self.document = document or MarkdownDocument()
        self.put(0, [*self.document.frozen, *self.document.open])

    def read(self, piece: str) -> None:
        document = self.document
        frozen = len(document.frozen)
        document.append(piece)
        self.put(frozen, [*document.frozen[frozen:], *document.open])
