"""A terminal that interprets what Tandem writes while it draws."""

import re

from rich.cells import cell_len

_TOKEN = re.compile(
    r"\x1b\[(\d*);?(\d*)r|\x1b\[(\d+)([SXC])|\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|\x1b\]8;;[^\x1b]*\x1b\\|([^\x1b])|(\x1b.*)",
    re.DOTALL,
)


class Emulator:
    """Cells of a screen; each has a character and its SGR parameters."""

    def __init__(self, width: int, height: int) -> None:
        self.cells = [[(" ", "")] * width for _ in range(height)]
        self._x = self._y = 0
        self._style: dict[str, str] = {}
        self._region = 0, height

    def feed(self, written: str) -> None:
        """Draw; fail on an unknown sequence."""
        for top, bottom, number, what, row, column, style, character, unknown in _TOKEN.findall(written):
            assert not unknown, unknown
            if bottom:
                self._region = int(top) - 1, int(bottom)
            elif what == "S":
                first, end = self._region
                blank = [[(" ", "")] * len(self.cells[0]) for _ in range(int(number))]
                self.cells[first:end] = [*self.cells[first + int(number) : end], *blank]
            elif what == "X":
                self.cells[self._y][self._x : self._x + int(number)] = [(" ", self._blank_sgr)] * int(number)
            elif what == "C":
                self._x += int(number)
            elif row:
                self._y, self._x = int(row) - 1, int(column) - 1
            elif character:
                self.cells[self._y][self._x] = (character, self._blank_sgr if character == " " else self._sgr)
                for _ in range(cell_len(character) - 1):
                    self._x += 1
                    self.cells[self._y][self._x] = ("", self._sgr)
                self._x += 1
            elif style:
                self._switch(style.split(";"))

    def _switch(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code == "0":
                self._style = {}
                continue
            more = [codes.pop(0) for _ in range(4 if codes[0] == "2" else 2)] if code in ("38", "48") else []
            if code in ("22", "23", "24", "27", "29"):
                self._style = {
                    key: value for key, value in self._style.items() if key != code.removeprefix("2").replace("2", "1")
                }
                continue
            place = {"3": "color", "9": "color", "4": "background", "10": "background"}.get(code[:-1], code)
            self._style = {**self._style, place: ";".join([code, *more])}
            if code in ("39", "49"):
                del self._style[place]

    @property
    def _sgr(self) -> str:
        return ";".join(self._style[place] for place in sorted(self._style))

    @property
    def _blank_sgr(self) -> str:
        """Return the parameters that are visible on a blank."""
        return ";".join(self._style[place] for place in sorted(self._style) if place not in ("color", "1", "2", "3"))

    @property
    def rows(self) -> list[str]:
        return ["".join(character for character, _ in row).rstrip() for row in self.cells]
