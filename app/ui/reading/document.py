"""Growing Markdown as rows of text.

A new piece costs what the last block costs, however long the answer is: blocks that can no longer change are frozen.
Only complete lines freeze a block, so the rows do not depend on how the text was cut into pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from app.core.printable import printable
from app.ui.reading.blocks import block_rows, first_number, item_rows
from app.ui.reading.code import CodeBlock
from app.ui.reading.inline import BREAK
from app.ui.reading.parser import parser
from app.ui.reading.rows import Row
from app.ui.reading.table import TableBlock

_AT_ONCE = 4_096
"""Characters that are read together; a long text is read in pieces like one that comes slowly."""
_LONGEST_LINE = 1_000
_MOST_BLANK = 100
_LONGEST_BLOCK = 6_000
"""A longer line or block is continued by another one, and blank lines end: a model may repeat itself for ever."""
_LONGEST_PARAGRAPH = 2_000
"""Longest paragraph in which emphasis is parsed, in characters; it is parsed again with each token."""
_CLOSED_BY_BLANK = ("paragraph", "heading", "hr", "math_block")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A block on the top level, or one item of a list there.

    Attributes:
        node: The block.
        start: Its first line.
        end: The line behind its last.
        family: Tells the items of one list from those of another; "" for what is no item.
    """

    node: SyntaxTreeNode
    start: int
    end: int
    family: str = ""


def _units(source: str) -> list[_Unit]:
    units = []
    for node in SyntaxTreeNode(parser().parse(source)).children:
        if node.type in ("bullet_list", "ordered_list"):
            units += [_Unit(item, *(item.map or (0, 0)), f"{node.type}{item.markup}") for item in node.children]
        else:
            units.append(_Unit(node, *(node.map or (0, 0))))
    return units


class MarkdownDocument:
    """Growing Markdown.

    Attributes:
        frozen: Rows that never change again; more are added behind them.
        open: The rows after them as the text stands now.
    """

    def __init__(self) -> None:
        self.frozen: list[Row] = []
        self.open: list[Row] = []
        self._last = ""
        """The last printed character."""
        self._tail = ""
        self._column = 0
        self._blank = True
        self._blanks = 0
        self._block: CodeBlock | TableBlock | None = None
        self._family = ""
        self._number = 0
        self._wants_gap = False
        self._after_blank = False

    def append(self, text: str) -> None:
        """Add text; whatever could steer a terminal is left out."""
        text = printable(text, self._last)
        self._last = text[-1:] or self._last
        text = self._broken(text)
        for start in range(0, len(text), _AT_ONCE):
            piece = text[start : start + _AT_ONCE]
            self._tail += piece
            if "\n" in piece:
                self._settle()
        self.open = self._open_rows()

    def _broken(self, text: str) -> str:
        """The text with long lines broken and long gaps cut."""
        lines = text.split("\n")
        found = []
        for number, line in enumerate(lines):
            while (cut := self._cut_at(line)) is not None:
                found.append(f"{line[:cut]}{BREAK}\n")
                line, self._column = line[cut:], 0
            self._column += len(line)
            self._blank = self._blank and not line.strip()
            found.append(line)
            if number < len(lines) - 1:
                self._blanks = self._blanks + 1 if self._blank else 0
                if self._blanks <= _MOST_BLANK:
                    found.append("\n")
                self._column, self._blank = 0, True
        return "".join(found)

    def _cut_at(self, line: str) -> int | None:
        """Return where a line that goes on is broken; not before a space, which a line's beginning would lose."""
        cut = max(0, _LONGEST_LINE - self._column)
        while cut < len(line) and line[cut] == " " and self._column + cut < 2 * _LONGEST_LINE:
            cut += 1
        return cut if cut < len(line) else None

    # What can no longer change

    def _settle(self) -> None:
        while self._block is not None or "\n" in self._tail:
            if not (self._continue_block() if self._block is not None else self._freeze()):
                return

    def _continue_block(self) -> bool:
        """Give complete lines to the block that grows; returns whether it has ended."""
        block = self._block
        assert block is not None
        *lines, rest = self._tail.split("\n")
        for number, line in enumerate(lines):
            done = block.add(line)
            if done is None:
                self.frozen += block.rows()
                self._block = None
                behind = lines[number + isinstance(block, CodeBlock) :]
                self._tail = "\n".join([*behind, rest])
                return True
            self.frozen += done
        self._tail = rest
        return False

    def _freeze(self) -> bool:
        """Freeze every block that another one follows; returns whether there may be more to freeze."""
        complete = self._tail[: self._tail.rfind("\n") + 1]
        lines = complete.split("\n")
        units = _units(complete)
        for number, unit in enumerate(units):
            if unit.node.type in ("fence", "table"):
                if number < len(units) - 1 and self._pass_through(unit, lines):
                    continue
                self._enter(unit, lines)
                return True
            if self._cut(unit, lines):
                return True
            if number < len(units) - 1:
                self._add_gap(unit, lines)
                self.frozen += self._unit_rows(unit, lines)
                self._leave(unit)
        kept = len(lines) - 1
        if units:
            last = units[-1]
            if last.node.type in _CLOSED_BY_BLANK and last.end < len(lines) - 1:
                self._add_gap(last, lines)
                self.frozen += self._unit_rows(last, lines)
                self._leave(last)
            else:
                kept = last.start
        self._drop(lines, kept)
        return False

    def _pass_through(self, unit: _Unit, lines: list[str]) -> bool:
        """Freeze a block that could grow but has ended, without reading what follows it again; returns whether it was.

        What comes in one piece may hold many of them.
        """
        block, at = _growing(unit, lines)
        rows: list[Row] = []
        while at < len(lines) - 1 and (done := block.add(lines[at])) is not None:
            rows += done
            at += 1
        if at + isinstance(block, CodeBlock) != unit.end:
            return False
        self._add_gap(unit, lines)
        self._leave(unit)
        self.frozen += [*rows, *block.rows()]
        return True

    def _enter(self, unit: _Unit, lines: list[str]) -> None:
        self._add_gap(unit, lines)
        self._leave(unit)
        self._block, begun = _growing(unit, lines)
        self._drop(lines, begun)

    def _cut(self, unit: _Unit, lines: list[str]) -> bool:
        """End a block that is too long at a line end, and let the rest begin again; returns whether it was."""
        size, end = 0, unit.start
        longest = min(_LONGEST_BLOCK, _LONGEST_PARAGRAPH) if unit.node.type == "paragraph" else _LONGEST_BLOCK
        while end < unit.end and size < longest:
            size += len(lines[end]) + 1
            end += 1
        if not any(line.strip() for line in lines[end : unit.end]):
            return False
        part = lines[unit.start : end]
        for piece in _units("\n".join(part) + "\n"):
            self._add_gap(piece, part)
            self.frozen += self._unit_rows(piece, part)
            self._leave(piece)
            opening = _open_fence(piece.node, part)
            self._block = CodeBlock(opening) if opening else None
        self._wants_gap = False
        self._drop(lines, end)
        return True

    def _drop(self, lines: list[str], count: int) -> None:
        """Forget the first lines of the tail, which are frozen."""
        self._tail = self._tail[sum(len(line) + 1 for line in lines[:count]) :]
        if count:
            self._after_blank = not lines[count - 1].strip()

    # What it looks like

    def _add_gap(self, unit: _Unit, lines: list[str]) -> None:
        if self._gap(unit, lines, self._family, self._wants_gap):
            self.frozen.append(Row())

    def _gap(self, unit: _Unit, lines: list[str], family: str, wants_gap: bool) -> bool:
        if unit.family and unit.family == family:
            return not lines[unit.start - 1].strip() if unit.start else self._after_blank
        return wants_gap

    def _leave(self, unit: _Unit) -> None:
        """Return what follows this unit stands apart from it."""
        self._number = self._next_number(unit, self._family, self._number)
        self._family, self._wants_gap = unit.family, True

    @staticmethod
    def _next_number(unit: _Unit, family: str, number: int) -> int:
        own = first_number(unit.node)
        return (number if unit.family == family else own or 0) + 1

    def _unit_rows(self, unit: _Unit, lines: list[str]) -> list[Row]:
        return self._rows_in(unit, lines, self._family, self._number)

    @staticmethod
    def _rows_in(unit: _Unit, lines: list[str], family: str, number: int) -> list[Row]:
        if not unit.family:
            return block_rows(unit.node, lines)
        own = first_number(unit.node)
        if own is not None and unit.family == family:
            own = number
        return item_rows(unit.node, own, lines)

    def _open_rows(self) -> list[Row]:
        if self._block is not None:
            return self._block.rows(self._tail)
        lines = self._tail.split("\n")
        rows: list[Row] = []
        family, number, wants_gap = self._family, self._number, self._wants_gap
        for unit in _units(self._tail):
            if self._gap(unit, lines, family, wants_gap):
                rows.append(Row())
            rows += self._rows_in(unit, lines, family, number)
            number = self._next_number(unit, family, number)
            family, wants_gap = unit.family, True
        return rows


def _growing(unit: _Unit, lines: list[str]) -> tuple[CodeBlock | TableBlock, int]:
    """A fence or a table from its first lines, and the line behind those."""
    if unit.node.type == "fence":
        return CodeBlock(lines[unit.start]), unit.start + 1
    return TableBlock(lines[unit.start], lines[unit.start + 1]), unit.start + 2


def _open_fence(node: SyntaxTreeNode, lines: list[str]) -> str:
    """The line that opened the fence which a piece of a block ends in; "" if it ends in none."""
    while node.children:
        node = node.children[-1]
    if node.type != "fence" or node.map is None or lines[node.map[1] - 1].strip(" >") == node.markup:
        return ""
    return lines[node.map[0]]


_USUAL = "```python\nx = 1\n```\n"
"""The first block of code in a language takes forty milliseconds more than the next; this one is the most likely."""


def preload() -> None:
    """Make the parser, and load what colors the most usual code; to be called on a thread of its own."""
    MarkdownDocument().append(_USUAL)
