"""Remember the contents of the terminal, cell by cell, and write only the cells that differ."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import eq
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from rich.color import ColorSystem
from rich.console import Console
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.geometry import Offset, Region
from textual.strip import Strip

from app.ui.widgets.row_canvas import n_leading

Run = tuple[str, str, str | None]
"""Text in one style: its SGR parameters and its link."""
_NARROW_CHARS = re.compile(r"[\x20-\u02ff\u0370-\u052f\u2010-\u25ff\u276f]*")
"""Characters that every terminal draws in one cell, or that `Strip` counts as wide."""
Pieces = Mapping[tuple[int, int], Strip]
"""Parts of lines by line and first column; they do not overlap."""


class Known(NamedTuple):
    """The content of a piece.

    Attributes:
        runs: Its text; neighbors in the same style are joined.
        is_narrow: Whether each character takes one cell.
        n_shown: Number of characters without blanks at its end.
    """

    cells: int
    runs: tuple[Run, ...]
    is_narrow: bool
    n_shown: int


class Scroll(NamedTuple):
    """A view whose lines have moved up."""

    view: Region
    n: int


_MIN_ERASED_CELLS = 12
"""A longer run of blank cells is erased instead of written."""
_MOVE_COST = 16
"""Cost in characters to move the cursor to a piece and to switch to its style."""
_MAX_STORED_STRIPS = 2_000
"""Number of strips whose contents are stored: scrolled lines are the same strips in another place."""


class Frame:
    """The contents of the terminal. Another program or a resize may change them; then call `forget`."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, Known]] = {}
        """Every known piece, by line and column."""
        self._read: dict[int, tuple[Strip, Known]] = {}
        """Contents of strips, by their identity."""
        self.cursor: Offset | None = None

    def forget(self) -> None:
        """Forget the contents, so that everything is written again."""
        self._lines.clear()
        self.cursor = None

    def _known(self, strip: Strip, console: Console) -> Known:
        if (found := self._read.get(id(strip))) is not None:
            return found[1]
        if len(self._read) >= _MAX_STORED_STRIPS:
            self._read.clear()
        known = _read(strip, console)
        self._read[id(strip)] = strip, known
        return known

    def changes(
        self, pieces: Pieces, console: Console, *, synchronized: bool = False, scroll: Scroll | None = None
    ) -> str:
        """Return the escape sequences that make the terminal show these pieces.

        A terminal with synchronized updates scrolls lines, without showing the neighboring text in the wrong place, and
        erases cells in the current background. A view is scrolled first; then its other lines are corrected.
        """
        new = {place: self._known(strip, console) for place, strip in pieces.items()}
        out: list[str] = []
        parts: list[_Part] = []
        if scroll is not None:
            out.append(f"\x1b[{scroll.view.y + 1};{scroll.view.bottom}r\x1b[{scroll.n}S\x1b[r")
            parts = self._differences(self._scrolled(scroll, new), synchronized=synchronized)
        parts += self._differences(new, synchronized=synchronized)
        style, end = "", (-1, -1)
        for x, y, known in parts:
            if (x, y) != end:
                out.append(f"\x1b[{y + 1};{x + 1}H")
            end = x + known.cells, y
            for text, sgr, link in known.runs:
                if sgr != style and not (_is_blank(text, sgr) and _background(style) == _background(sgr)):
                    out.append(_switch(style, sgr))
                    style = sgr
                n_blank = len(text) - len(text.rstrip(" "))
                if synchronized and n_blank > _MIN_ERASED_CELLS and _background(sgr) is not None:
                    text = f"{text[:-n_blank]}\x1b[{n_blank}X\x1b[{n_blank}C"
                out.append(f"\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link else text)
        if style:
            out.append("\x1b[0m")
        return "".join(out)

    def can_scroll(self, scroll: Scroll, width: int) -> bool:
        """Return whether scrolling takes fewer characters than writing the lines; `width` is the terminal's."""
        x, lines = scroll.view.x, [self._lines.get(y, {}) for y in scroll.view.line_range]
        shown = [line.get(x) for line in lines]
        cells = {known.cells if known is not None else 0 for known in shown}
        # The terminal scrolls whole lines.
        is_known = all(sum(known.cells for known in line.values()) == width for line in lines)
        if len(cells) != 1 or 0 in cells or not is_known:
            return False
        beside = (
            _cost(moved.get(at), known)
            for line, moved in zip(lines, lines[scroll.n :], strict=False)
            for at, known in line.items()
            if at != x
        )
        return sum(beside) < sum(map(_cost, shown, shown[scroll.n :]))

    def _scrolled(self, scroll: Scroll, new: Collection[tuple[int, int]]) -> dict[tuple[int, int], Known]:
        """Move the lines of a view; return its neighbors that have no new piece in their place."""
        ys = scroll.view.line_range
        before = [self._lines[y] for y in ys]
        moved: list[dict[int, Known]] = [*before[scroll.n :], *({} for _ in before[-scroll.n :])]
        self._lines.update(zip(ys, moved, strict=True))
        return {
            (y, at): known
            for y, line in zip(ys, before, strict=True)
            for at, known in line.items()
            if at != scroll.view.x and (y, at) not in new
        }

    def _differences(self, pieces: Mapping[tuple[int, int], Known], *, synchronized: bool) -> list[_Part]:
        parts = [part for (y, x), known in pieces.items() for part in self._changed(y, x, known)]
        # Moving the cursor takes fewer characters than another style, and the order is invisible.
        in_style = (single for part in parts for single in part.in_one_style())
        return sorted(in_style, key=lambda part: part.style) if synchronized else parts

    def _changed(self, y: int, x: int, known: Known) -> Iterator[_Part]:
        line, width = self._lines.setdefault(y, {}), known.cells
        before = line.get(x)
        if before == known:
            return
        if before is None or before.cells != width:
            for start, old in [*line.items()]:
                end = start + old.cells
                if start < x + width and x < end:
                    del line[start]
                    rest = ((start, x), (x + width, end)) if old.is_narrow else ()
                    line.update({a: _cut(old, a - start, b - start) for a, b in rest if a < b})
        line[x] = known
        start, end = _different(before, known)
        if start < end:
            yield _Part(x + start, y, known if end - start == width else _cut(known, start, end))


class _Part(NamedTuple):
    """A changed part of a line."""

    x: int
    y: int
    known: Known

    @property
    def style(self) -> tuple[str, str]:
        """Return the background and the SGR parameters at its beginning."""
        sgr = self.known.runs[0][1]
        return _parts(sgr)[2], sgr

    def in_one_style(self) -> Iterator[_Part]:
        """Yield its runs, or the whole part if its characters may be wide."""
        if not self.known.is_narrow:
            yield self
            return
        x = self.x
        for run in self.known.runs:
            n = len(run[0])
            yield _Part(x, self.y, Known(n, (run,), True, n))
            x += n


def _different(before: Known | None, now: Known) -> tuple[int, int]:
    """Return the start and end of the differing cells; the whole piece if characters may be wide."""
    width = now.cells
    if before is None or before.cells != width or not (now.is_narrow and before.is_narrow):
        return 0, width
    start = _n_same(before.runs, now.runs, width)
    return start, width - _n_same(_reversed(before.runs), _reversed(now.runs), width - start)


def _cost(before: Known | None, now: Known | None) -> int:
    """Return approximately how many characters it takes to replace a piece."""
    return 0 if before == now else _MOVE_COST + max(known.n_shown for known in (before, now) if known is not None)


_FRAME_BY_APP: WeakKeyDictionary[App[Any], Frame] = WeakKeyDictionary()


def frame_of(app: App[Any]) -> Frame:
    """Return the frame of a program's terminal."""
    return _FRAME_BY_APP.setdefault(app, Frame())


@dataclass
class FrameUpdate(CompositorUpdate):
    """Pieces of the screen for the terminal."""

    frame: Frame
    pieces: Pieces
    synchronized: bool
    scroll: Scroll | None = None

    def render_segments(self, console: Console) -> str:
        return self.frame.changes(self.pieces, console, synchronized=self.synchronized, scroll=self.scroll)

    def text(self, console: Console, cursor: Offset) -> str:
        """Return the text to write if anything has changed, including the cursor position."""
        written = self.render_segments(console)
        if not written and cursor == self.frame.cursor:
            return ""
        self.frame.cursor = cursor
        written += f"\x1b[{cursor.y + 1};{cursor.x + 1}H"
        return f"{SYNC_START}{written}{SYNC_END}" if self.synchronized else written


_SEEN_FLAGS = {"4", "7", "9", "21", "53"}
"""Flags that are visible on a blank: lines, and exchanged colors."""
_OFF_CODES = {"1": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""SGR parameter that turns each flag off."""


@lru_cache(1024)
def _switch(before: str, now: str) -> str:
    (flags, *colors), (now_flags, *now_colors) = _parts(before), _parts(now)
    removed = [flag for flag in flags if flag not in now_flags]
    if not _OFF_CODES.keys() >= {*removed}:
        return f"\x1b[0;{now}m" if now else "\x1b[0m"
    changed = [_OFF_CODES[flag] for flag in removed] + [flag for flag in now_flags if flag not in flags]
    changed += [color for old, color in zip(colors, now_colors, strict=True) if old != color]
    return f"\x1b[{';'.join(changed)}m" if changed else ""


@lru_cache(1024)
def _parts(sgr: str) -> tuple[Sequence[str], str, str]:
    flags, colors = [], ["39", "49"]
    codes = iter(sgr.split(";") if sgr else ())
    for code in codes:
        if len(code) < 2 or code == "21":
            flags.append(code)
            continue
        n_more = {"2": 3, "5": 1}[kind] if code in ("38", "48") and (kind := next(codes)) else 0
        whole = ";".join([code, kind, *islice(codes, n_more)]) if n_more else code
        colors[int(code) // 10 in (4, 10)] = whole
    return flags, colors[0], colors[1]


def _background(sgr: str) -> str | None:
    """Return the background of SGR parameters; None if they change the look of a blank in another way."""
    flags, _, background = _parts(sgr)
    return None if _SEEN_FLAGS.intersection(flags) else background


def _is_blank(text: str, sgr: str) -> bool:
    return not text.strip(" ") and _background(sgr) is not None


def _joined(first: Run, then: Run) -> Run | None:
    """Return two neighbors as one run if that looks the same: the color of blanks is invisible."""
    (text, sgr, link), (more, next_sgr, next_link) = first, then
    if link != next_link or _background(sgr) != _background(next_sgr):
        return None
    if sgr == next_sgr or _is_blank(more, next_sgr):
        return text + more, sgr, link
    return (text + more, next_sgr, link) if _is_blank(text, sgr) else None


def _read(strip: Strip, console: Console) -> Known:
    runs: list[Run] = []
    for text, style, _ in strip:
        sgr, link = "", None
        if style is not None:
            sgr = style._ansi or Strip.render_ansi(style, console._color_system or ColorSystem.TRUECOLOR)
            link = style._link
        if runs and (joined := _joined(runs[-1], (text, sgr, link))) is not None:
            runs[-1] = joined
        elif text:
            runs.append((text, sgr, link))
    text = "".join(run[0] for run in runs)
    is_narrow = len(text) == strip.cell_length and _NARROW_CHARS.fullmatch(text) is not None
    return Known(strip.cell_length, tuple(runs), is_narrow, len(text.rstrip()))


def _n_same(before: Sequence[Run], now: Sequence[Run], most: int) -> int:
    n_runs = n_leading(map(eq, before, now))
    n = sum(len(run[0]) for run in now[:n_runs])
    if n_runs < min(len(before), len(now)) and before[n_runs][1:] == now[n_runs][1:]:
        n += n_leading(map(eq, before[n_runs][0], now[n_runs][0]))
    return min(n, most)


def _reversed(runs: Sequence[Run]) -> list[Run]:
    return [(text[::-1], sgr, link) for text, sgr, link in reversed(runs)]


def _cut(known: Known, start: int, end: int) -> Known:
    runs, at = [], 0
    for text, sgr, link in known.runs:
        if part := text[max(0, start - at) : max(0, end - at)]:
            runs.append((part, sgr, link))
        at += len(text)
    return Known(end - start, tuple(runs), True, min(end, known.n_shown) - start)
