"""Keys and what they do, in two columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from app.ui.keys.listing import Key

_KEYS, _FEWEST = 26, 16
"""Cells for the keys, where the window is wide and where it is not."""
_ROOMY_FROM = 70


class KeyTable(Widget):
    """A key, or several for one thing, in each row; words that do not fit go on below their beginning.

    Args:
        keys: First one on top.
    """

    DEFAULT_CSS = "KeyTable { height: auto; }"

    def __init__(self, keys: Sequence[Key]) -> None:
        super().__init__()
        self._keys = keys

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return sum(1 for _ in self._lines(width))

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> Iterator[Content]:
        left = _KEYS if width >= _ROOMY_FROM else _FEWEST
        room = max(1, width - left)
        for key in self._keys:
            was = f"  (was {key.usual})" if key.usual else ""
            keys = Content(key.keys).wrap(left - 1)
            does = Content.assemble((key.does, "$quiet"), (was, "$foreground")).wrap(room)
            for at in range(max(len(keys), len(does))):
                one = keys[at] if at < len(keys) else Content("")
                other = does[at] if at < len(does) else Content("")
                yield Content.assemble(one.pad_right(left - one.cell_length), other)
