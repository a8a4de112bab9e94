"""Keys and what they do, in two columns where there is room for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from app.ui.keys.listing import Key

_KEYS, _FEWEST = 26, 18
"""Cells for the keys, where the window is wide and where it is not."""
_BESIDE_FROM, _ROOMY_FROM = 36, 70
"""Columns from which the words stand beside the keys, and from which these have the larger room."""
_INDENT = 2


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
        for key in self._keys:
            was = f"  (was {key.usual})" if key.usual else ""
            keys = Content(key.keys)
            does = Content.assemble((key.does, "$quiet"), (was, "$foreground"))
            if width >= _BESIDE_FROM:
                yield from _beside(keys.wrap(left - 1), does.wrap(width - left), left)
            else:
                yield from keys.wrap(max(1, width))
                yield from (line.pad_left(_INDENT) for line in does.wrap(max(1, width - _INDENT)))


def _beside(keys: Sequence[Content], does: Sequence[Content], left: int) -> Iterator[Content]:
    """Lines next to each other, the first ones in so many cells."""
    for key, words in zip_longest(keys, does, fillvalue=Content("")):
        yield Content.assemble(key.pad_right(left - key.cell_length), words)
