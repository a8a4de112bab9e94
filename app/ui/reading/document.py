"""Growing Markdown as rows of text.

Blocks that can no longer change are frozen, so a new piece costs as much as the last block.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from app.core.printable import printable
from app.ui.reading.blocks import block_rows, first_number, is_closed, item_rows, parser
from app.ui.reading.rows import CodeStart, Row

LONGEST_LINE, LONGEST_PARAGRAPH, LONGEST_BLOCK = 3_000, 2_000, 6_000
"""Limits for the last block in characters, since each piece parses it again; longer blocks are cut at a line end."""
MOST_LINES, _MOST_TABLE_LINES = 96, 32
_CLOSED_BY_BLANK = ("paragraph", "blockquote", "table", "math_block")
_SELF_CONTAINED_BLOCKS = ("heading", "hr")
_HALF_FENCE = re.compile(r"(?:^|\n)[ >]*[`~]{1,3}$")
"""The beginning of a line that may open or close a fence."""


@dataclass(slots=True)
class _Position:
    """Context of the next block: what is above it.

    Attributes:
        list: Kind of the list that the last block is an item of; "" for other blocks.
        number: Number of the next item of that list.
        after_blank: Whether the source has a blank line there.
        is_continued: Whether the next block continues a cut block, whose opening lines are repeated in the source.
        n_code: Number of code blocks above it.
    """

    list: str = ""
    number: int = 0
    follows_block: bool = False
    after_blank: bool = False
    is_continued: bool = False
    n_code: int = 0


def _blocks(source: str) -> list[SyntaxTreeNode]:
    found: list[SyntaxTreeNode] = []
    for node in SyntaxTreeNode(parser().parse(source)).children:
        found += node.children if node.type in ("bullet_list", "ordered_list") else [node]
    return found


def _place(node: SyntaxTreeNode) -> tuple[int, int]:
    return node.map or (0, 0)


def _list_of(item: SyntaxTreeNode) -> str:
    """Return the kind of an item's list; other blocks have an empty kind."""
    return f"{item.parent.type}{item.markup}" if item.type == "list_item" and item.parent is not None else ""


class MarkdownDocument:
    """Growing Markdown.

    Args:
        code_label: Returns the label of a code block, given its number from 1; None for no labels.

    Attributes:
        frozen: Rows that never change again.
        open: The rows after them, for the present text.
    """

    def __init__(self, code_label: Callable[[int], str] | None = None) -> None:
        self._code_label = code_label
        self.frozen: list[Row] = []
        self.open: list[Row] = []
        self._tail = ""
        """The source of the open rows."""
        self._position = _Position()
        self._last = ""
        """The last printed character."""

    def append(self, text: str) -> tuple[int, list[Row]]:
        """Add text, without terminal control characters; return the changed rows, and the number of the first."""
        n_frozen = len(self.frozen)
        text = printable(text, self._last)
        self._last = text[-1:] or self._last
        before = self._tail.count("\n")
        self._tail += text
        self._break_last_line()
        if self._tail.count("\n") > before:
            self._freeze()
        position, source = copy(self._position), _HALF_FENCE.sub("", self._tail)
        lines = source.split("\n")
        self.open = [row for block in _blocks(source) for row in self._rows(block, lines, position)]
        return n_frozen, [*self.frozen[n_frozen:], *self.open]

    def _break_last_line(self) -> None:
        start = self._tail.rfind("\n") + 1
        while len(self._tail) - start > LONGEST_LINE:
            cut = self._tail.rfind(" ", start, start + LONGEST_LINE) + 1 or start + LONGEST_LINE
            self._tail = f"{self._tail[:cut]}\n{self._tail[cut:]}"
            start = cut + 1

    # Blocks that can no longer change

    def _freeze(self) -> None:
        complete = self._tail[: self._tail.rfind("\n") + 1]
        lines = complete.split("\n")
        kept = len(lines) - 1
        for number, node in enumerate(blocks := _blocks(complete)):
            if number == len(blocks) - 1 and not _has_ended(node, lines):
                kept = _place(node)[0]
                if _is_too_long(node, lines):
                    self._cut(node, lines)
                    return
            else:
                self.frozen += self._rows(node, lines, self._position)
        self._drop(lines, kept)

    def _drop(self, lines: list[str], count: int, opening: str = "") -> None:
        if count:
            self._tail = opening + self._tail[sum(len(line) + 1 for line in lines[:count]) :]
            self._position.after_blank = not lines[count - 1].strip()

    def _rows(self, node: SyntaxTreeNode, lines: list[str], position: _Position) -> list[Row]:
        """Return a block as rows with labeled code, and move the position below it."""
        rows, continues = _rows(node, lines, position), position.is_continued
        for at, row in enumerate(rows):
            if isinstance(row, CodeStart) and not continues:
                position.n_code += 1
                label = self._code_label(position.n_code) if self._code_label is not None else ""
                rows[at] = replace(row, label=Content.styled(label, "$quiet"))
            continues = False
        return rows

    def _cut(self, node: SyntaxTreeNode, lines: list[str]) -> None:
        opening = _opening(node, lines)
        self.frozen += self._rows(node, lines, self._position)
        self._position = _Position(is_continued=bool(opening), n_code=self._position.n_code)
        self._drop(lines, _place(node)[1], opening)


def _has_ended(node: SyntaxTreeNode, lines: list[str]) -> bool:
    if node.type == "fence":
        return is_closed(node, lines)
    return node.type in _SELF_CONTAINED_BLOCKS or (node.type in _CLOSED_BY_BLANK and _place(node)[1] < len(lines) - 1)


def _is_too_long(node: SyntaxTreeNode, lines: list[str]) -> bool:
    start, end = _place(node)
    longest = LONGEST_PARAGRAPH if node.type == "paragraph" else LONGEST_BLOCK
    most = _MOST_TABLE_LINES if node.type == "table" else MOST_LINES
    return sum(map(len, lines[start:end])) > longest or end - start > most


def _opening(node: SyntaxTreeNode, lines: list[str]) -> str:
    """Return what opens a block again: a table's header, or the fence that it ends in."""
    start = _place(node)[0]
    if node.type == "table":
        return "".join(f"{line}\n" for line in lines[start : start + 2])
    while node.children:
        node = node.children[-1]
    if node.type != "fence" or node.map is None or is_closed(node, lines):
        return ""
    line = lines[node.map[0]]
    indent = line.index(node.markup)
    return " " * min(indent, 3) + line[indent:] + "\n"


def _rows(node: SyntaxTreeNode, lines: list[str], position: _Position) -> list[Row]:
    """Return a block as rows, after a blank row where one belongs, and move the position below it."""
    if position.is_continued:
        position.is_continued, position.follows_block = False, True
        if node.type == "table":
            return block_rows(node, lines)[1:]
        return block_rows(node, lines) if node.content else []
    start, kind = _place(node)[0], _list_of(node)
    if kind and kind == position.list:
        has_gap = not lines[start - 1].strip() if start else position.after_blank
    else:
        has_gap = position.follows_block
        position.number = first_number(node) or 0
    rows = [Row()] if has_gap else []
    if kind:
        rows += item_rows(node, position.number if first_number(node) is not None else None, lines)
    else:
        rows += block_rows(node, lines)
    position.number += 1
    position.list, position.follows_block = kind, True
    return rows


def preload() -> None:
    """Load the parser and the most usual language; call it on its own thread."""
    MarkdownDocument().append("```python\nx = 1\n```\n")
