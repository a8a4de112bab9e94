"""A text as it was typed or pasted, however long."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.geometry import Size

from app.ui.reading.rows import Row, as_typed
from app.ui.widgets.gradual import Gradual

_LONGEST_ROW = 4_000
"""Characters. A longer line is broken: what it takes to wrap one grows faster than the line."""


class PlainText(Gradual):
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
