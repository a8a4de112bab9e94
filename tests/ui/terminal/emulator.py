"""A terminal that understands what Tandem writes while it draws."""

from __future__ import annotations

import re

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|\x1b\]8;;[^\x1b]*\x1b\\|([^\x1b])|(\x1b.*)", re.DOTALL)


class Emulator:
    """Cells of a screen; each has a character and its SGR parameters."""

    def __init__(self, width: int, height: int) -> None:
        self.cells = [[(" ", "")] * width for _ in range(height)]
        self._x = self._y = 0
        self._style = ""

    def feed(self, written: str) -> None:
        """Draw; fail on an unknown sequence."""
        for row, column, style, character, unknown in _TOKEN.findall(written):
            assert not unknown, unknown
            if row:
                self._y, self._x = int(row) - 1, int(column) - 1
            elif character:
                self.cells[self._y][self._x] = (character, self._style)
                for _ in range(cell_len(character) - 1):
                    self._x += 1
                    self.cells[self._y][self._x] = ("", self._style)
                self._x += 1
            elif style:
                self._style = style.removeprefix("0;").removeprefix("0")

    @property
    def rows(self) -> list[str]:
        return ["".join(character for character, _ in row).rstrip() for row in self.cells]
