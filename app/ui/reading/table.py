"""A table, row by row: its columns are as wide as the first rows want them."""

from __future__ import annotations

import re

from textual.content import Content

from app.ui.reading.inline import inline_content
from app.ui.reading.rows import Columns, Row, TableRow

_CELL_END = re.compile(r"(?<!\\)\|")
_ENDS = re.compile(r" {0,3}(?:>|#{1,6}(?: |$)|`{3}|~{3}|(?:[-*_] *){3,}$|(?:[-+*]|\d{1,9}[.)]) )|\s*$")
"""A blank line, or the beginning of another block."""
_FIXED_AFTER = 64


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(line)]


class TableBlock:
    """A table that goes on.

    Args:
        header: Its first line.
        delimiter: Its second one.
    """

    def __init__(self, header: str, delimiter: str) -> None:
        self._right = frozenset(
            number for number, cell in enumerate(_cells(delimiter)) if cell.endswith(":") and not cell.startswith(":")
        )
        self._count = len(_cells(header))
        self._columns = Columns()
        self._done = 0
        cells = self._read(header)
        self._columns.include(cells)
        self._waiting = [[cell.stylize("$quiet") for cell in cells]]

    def add(self, line: str) -> list[Row] | None:
        """Take a complete line; returns the rows that are finished by it, None if it does not belong to the table."""
        if _ENDS.match(line):
            return None
        cells = self._read(line)
        if self._done:
            return [self._row(cells)]
        self._columns.include(cells)
        self._waiting.append(cells)
        if len(self._waiting) <= _FIXED_AFTER:
            return []
        done, self._waiting = [self._row(cells) for cells in self._waiting], []
        self._done = len(done)
        return done

    def rows(self, ahead: str = "") -> list[Row]:
        """Return what is not finished, and `ahead`, the beginning of a line."""
        last = self._read(ahead) if ahead.strip() and not _ENDS.match(ahead) else []
        if self._done and last:
            return [self._row(last)]
        # The columns are shared with rows that may have been drawn; a line that grows must not widen them twice.
        columns = self._columns.copy()
        columns.include(last)
        rows: list[Row] = [TableRow.of(cells, columns, self._right) for cells in self._waiting]
        if last:
            rows.append(TableRow.of(last, columns, self._right))
        elif ahead.strip():
            rows.append(Row(inline_content(ahead.strip())))
        return rows

    def _row(self, cells: list[Content]) -> Row:
        return TableRow.of(cells, self._columns, self._right)

    def _read(self, line: str) -> list[Content]:
        cells = _cells(line)
        # A cell too many is no reason to lose its text.
        wanted = [*cells[: self._count - 1], " | ".join(cells[self._count - 1 :])]
        return [inline_content(cell) for cell in wanted]
