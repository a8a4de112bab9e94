"""Line breaks: between words, and where text without spaces may be broken."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, split_graphemes
from textual.content import Content
from textual.expand_tabs import expand_tabs_inline

_TAB = 8
"""Cells between two stops; a character may take two of them, or none."""


def spaced(line: str) -> str:
    """A line without tabs."""
    return expand_tabs_inline(line, _TAB) if "\t" in line else line


def spaced_content(line: Content) -> Content:
    """The same of a line with styles."""
    # Where there are none Textual's own counts characters.
    return line.expand_tabs(_TAB) if line.spans else Content(spaced(line.plain))


_WIDE = "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003fffd"
"""Scripts that are written without spaces, and their punctuation. Korean has spaces."""
_NOT_FIRST = "\u3001\u3002\u30fb\u30fc\u300d\u300f\u3011\u3015\u300b\u3009\uff0c\uff0e\uff01\uff1f\uff1a\uff1b\uff09"
"""What does not begin a line: full stops, commas, closing brackets (JIS X 4051, the commonest)."""
_NOT_LAST = "\u300c\u300e\u3010\u3014\u300a\u3008\uff08"
"""What does not end a line: opening brackets."""
_JOINERS = "\u200d\ufe0f"
"""What makes one character on the screen of two: the zero width joiner and the selector of a wide emoji."""
_HAS_WIDE = re.compile(f"[{_WIDE}]")
_IS_PLAIN = re.compile(f"[^{_WIDE}{_JOINERS}]*")
_WORD = re.compile(r"\S+\s*|\s+")
_LONGEST_WORD = 16
"""Cells, as of most words in any language."""
_ENDS = r"/\\?&,;-"
"""What ends a part of an address or of a path; names of files have dots and underscores within them."""
_RUN = re.compile(rf"[{_NOT_LAST}]*(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_NOT_FIRST}{_JOINERS}]*\s*|\s+")
"""A wide character or what stands between two of them, with what must not be parted from it."""
_PART = re.compile(rf"[^\s{_ENDS}]*[{_ENDS}]+[{_NOT_FIRST}{_JOINERS}]*\s*|[^\s{_ENDS}]+\s*|\s+")


def wrapped(content: Content, width: int) -> list[Content]:
    """The lines that a line takes, without the spaces at their ends.

    Args:
        content: One line.
        width: Cells of each, at least 1.
    """
    text = content.plain
    if _IS_PLAIN.fullmatch(text) and all(cell_len(word) <= width for word in text.split()):
        return content.wrap(width)
    return [line.rstrip() for line in content.divide(list(_offsets(text, width)))]


def _offsets(text: str, width: int) -> Iterator[int]:
    """The places of the characters that begin a line, but for the first."""
    used = 0
    for start, piece in _pieces(text, width):
        needs = _cells(piece.rstrip())
        if used and used + needs > width and needs <= width:
            yield start
            used = 0
        if needs <= width:
            used += _cells(piece)
            continue
        # There is no good place.
        for begin, end, _ in split_graphemes(piece)[0]:
            size = _cells(piece[begin:end])
            if used + size > width and start + begin and not piece[begin].isspace():
                yield start + begin
                used = 0
            used += size


def _pieces(text: str, width: int) -> Iterator[tuple[int, str]]:
    """Return what is not to be broken, with its place and the spaces behind it."""
    for word in _WORD.finditer(text):
        if _cells(word[0].rstrip()) <= width and _HAS_WIDE.search(word[0]) is None:
            yield word.start(), word[0]
            continue
        for run in _RUN.finditer(word[0]):
            at = word.start() + run.start()
            if _cells(run[0].rstrip()) <= width:
                yield at, run[0]
            else:
                yield from ((at + part.start(), part[0]) for part in _PART.finditer(run[0]))


def longest_word(text: str) -> int:
    """Cells of the longest word that a reader would not break; what is longer than any word counts as one."""
    return max((min(_LONGEST_WORD, _cells(piece.rstrip())) for _, piece in _pieces(text, _LONGEST_WORD)), default=0)


def _cells(piece: str) -> int:
    """What a piece adds to a line at most: a selector before what it shows may widen the character before the piece."""
    before, selector, _ = piece.partition("\ufe0f")
    return cell_len(piece) + (bool(selector) and not cell_len(before))
