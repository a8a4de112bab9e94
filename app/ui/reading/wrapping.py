"""Line breaks and tabs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, split_graphemes
from textual.content import Content
from textual.expand_tabs import expand_tabs_inline

_TAB = 8
"""Cells between two tab stops."""
_WIDE = "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003fffd"
"""Scripts that are written without spaces, and their punctuation. Korean has spaces."""
_NOT_FIRST = "\u3001\u3002\u30fb\u30fc\u300d\u300f\u3011\u3015\u300b\u3009\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\uff09"
"""Punctuation that does not begin a line."""
_NOT_LAST = "\u300c\u300e\u3010\u3014\u300a\u3008\uff08"
"""Brackets that do not end a line."""
_HAS_WIDE = re.compile(f"[{_WIDE}]")
_PIECE = re.compile(rf"[{_NOT_LAST}]*(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_NOT_FIRST}]*\s*|\s+")
"""A wide character or a word, with the punctuation and spaces that stay with it."""


def spaced(line: str) -> str:
    """Return a line with spaces in place of tabs."""
    return expand_tabs_inline(line, _TAB) if "\t" in line else line


def spaced_content(line: Content) -> Content:
    """Return a styled line with spaces in place of tabs."""
    # Without spans, Textual counts characters instead of cells.
    return line.expand_tabs(_TAB) if line.spans else Content(spaced(line.plain))


def wrapped(content: Content, width: int) -> list[Content]:
    """Return a line wrapped to a width in cells, without spaces at line ends."""
    text = content.plain
    if _HAS_WIDE.search(text) is None:
        return content.wrap(width)
    return [line.rstrip() for line in content.divide(list(_line_starts(text, width)))]


def _line_starts(text: str, width: int) -> Iterator[int]:
    """Yield where each line but the first begins."""
    used = 0
    for piece in _PIECE.finditer(text):
        word = piece[0].rstrip()
        needed = cell_len(word)
        if used and used + needed > width:
            yield piece.start()
            used = 0
        if needed <= width:
            used += cell_len(piece[0])
            continue
        for start, end, _ in split_graphemes(word)[0]:
            cells = cell_len(word[start:end])
            if used + cells > width:
                yield piece.start() + start
                used = 0
            used += cells
