"""The text of a message: Markdown, plain, or colored by token source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.content import Content
from textual.geometry import Size

from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Row, as_typed
from app.ui.reading.token_rows import COLORLESS, STYLES, Run, TokenDocument
from app.ui.widgets.rows_view import RowsView


class ProgressiveView(RowsView):
    """Shows text. The beginning of a long one is there at once; the rest follows as soon as that is drawn."""

    AT_ONCE: ClassVar[int]
    """Characters that are read before keys have their turn: about a twentieth of a second."""

    def __init__(self) -> None:
        super().__init__()
        self._unread = ""

    @property
    def is_whole(self) -> bool:
        """Return whether all that was given is shown."""
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


class ModelMarkdown(ProgressiveView):
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


_LONGEST_ROW = 4_000
"""Characters. A longer line is broken: what it takes to wrap one grows faster than the line."""


class PlainText(ProgressiveView):
    """Line for line.

    Args:
        text: All of it, without what could steer a terminal.
    """

    AT_ONCE = 64_000

    def __init__(self, text: str) -> None:
        super().__init__()
        self._last = ""
        self._joined = False
        self._done = 0
        self.append(text)

    def read(self, piece: str) -> None:
        *lines, last = f"{self._last}{piece}".split("\n")
        rows = [row for line in lines for row in self._broken(line, ended=True)]
        *parts, end = self._broken(last, ended=False)
        rows += parts
        self.put(self._done, [*rows, end])
        self._done, self._last = self._done + len(rows), end.text

    def _broken(self, line: str, *, ended: bool) -> Iterator[Row]:
        while len(line) > _LONGEST_ROW:
            cut = line.rfind(" ", 0, _LONGEST_ROW) + 1 or _LONGEST_ROW
            yield as_typed(Content(line[:cut]), joined=self._joined)
            line, self._joined = line[cut:], True
        yield as_typed(Content(line), joined=self._joined)
        if ended:
            self._joined = False

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        # What is asked has its blank line below from the message around it.
        return max(0, super().get_content_height(container, viewport, width) - 1)


class TokenView(RowsView):
    """The plain text of an answer, in the colors of who wrote each token first.

    Args:
        runs: What there is of it.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        super().__init__()
        self._document = TokenDocument(COLORLESS if self.app.no_color else STYLES)
        self.append(runs)

    def append(self, runs: Iterable[Run]) -> None:
        """Show more of it."""
        document = self._document
        frozen = len(document.frozen)
        document.append(runs)
        self.put(frozen, [*document.frozen[frozen:], *document.open])
