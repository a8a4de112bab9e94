"""What the terminal shows, cell by cell, so that only what differs is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

from rich.color import ColorSystem
from rich.console import Console
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.strip import Strip

Run = tuple[str, str, str | None]
"""Text in one style: its SGR parameters and its link."""
_NARROW = re.compile(r"[\x20-\u02ff\u0370-\u052f\u2010-\u25ff\u276f]*")
"""Characters that every terminal draws in one cell, or those that `Strip` counts as wide."""


@dataclass(slots=True)
class Piece:
    """A part of a line: its place, and its text."""

    x: int
    y: int
    strip: Strip


class Frame:
    """The contents of the terminal. Another program or a resize may change them: then `forget`."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, tuple[int, Sequence[Run]]]] = {}
        """Width and runs of every known piece, by line and column."""

    def forget(self) -> None:
        """Write everything again."""
        self._lines.clear()

    def changes(self, pieces: Iterable[Piece], console: Console) -> str:
        """Return the escape sequences that make the terminal show these pieces."""
        out: list[str] = []
        style, end = "", (-1, -1)
        for piece in pieces:
            for x, runs, cells in self._changed(piece, console):
                if (x, piece.y) != end:
                    out.append(f"\x1b[{piece.y + 1};{x + 1}H")
                end = x + cells, piece.y
                for text, sgr, link in runs:
                    if sgr != style:
                        out.append(f"\x1b[0;{sgr}m" if sgr else "\x1b[0m")
                        style = sgr
                    out.append(f"\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link else text)
        if style:
            out.append("\x1b[0m")
        return "".join(out)

    def _changed(self, piece: Piece, console: Console) -> list[tuple[int, Sequence[Run], int]]:
        """Store a piece; return the column, the runs and the width of what differs from the piece before."""
        line, x, width = self._lines.setdefault(piece.y, {}), piece.x, piece.strip.cell_length
        runs = _runs(piece.strip, console)
        before = line.get(x)
        if before == (width, runs):
            return []
        for start in [start for start, (cells, _) in line.items() if start < x + width and x < start + cells]:
            del line[start]
        line[x] = width, runs
        if before is None or before[0] != width or not (_is_narrow(runs, width) and _is_narrow(before[1], width)):
            return [(x, runs, width)]
        skipped = _n_same(before[1], runs)
        left = width - skipped - _n_same(_reversed(before[1]), _reversed(runs), width - skipped)
        return [(x + skipped, _cut(runs, skipped, skipped + left), left)]


_FRAMES: WeakKeyDictionary[App[Any], Frame] = WeakKeyDictionary()


def frame_of(app: App[Any]) -> Frame:
    """Return the frame of a program's terminal."""
    return _FRAMES.setdefault(app, Frame())


@dataclass
class Changes(CompositorUpdate):
    """Pieces of the screen on their way to the terminal."""

    frame: Frame
    pieces: Sequence[Piece]

    def render_segments(self, console: Console) -> str:
        return self.frame.changes(self.pieces, console)


def _runs(strip: Strip, console: Console) -> list[Run]:
    """Return the text of a strip with its styles; neighbors in one style are joined."""
    runs: list[Run] = []
    for text, style, _ in strip:
        sgr, link = "", None
        if style is not None:
            sgr = style._ansi or Strip.render_ansi(style, console._color_system or ColorSystem.TRUECOLOR)
            link = style._link
        if runs and runs[-1][1:] == (sgr, link):
            runs[-1] = (runs[-1][0] + text, sgr, link)
        elif text:
            runs.append((text, sgr, link))
    return runs


def _is_narrow(runs: Sequence[Run], width: int) -> bool:
    """Return whether each character takes one cell."""
    text = "".join(run[0] for run in runs)
    return len(text) == width and _NARROW.fullmatch(text) is not None


def _n_same(before: Sequence[Run], now: Sequence[Run], most: int = 1 << 30) -> int:
    """Return the number of equal characters at the start, at most so many."""
    n_runs = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))
    n = sum(len(run[0]) for run in now[:n_runs])
    if n_runs < min(len(before), len(now)) and before[n_runs][1:] == now[n_runs][1:]:
        pairs = zip(before[n_runs][0], now[n_runs][0], strict=False)
        n += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return min(n, most)


def _reversed(runs: Sequence[Run]) -> list[Run]:
    return [(text[::-1], sgr, link) for text, sgr, link in reversed(runs)]


def _cut(runs: Sequence[Run], start: int, end: int) -> list[Run]:
    """Return the characters from `start` to `end`."""
    found, at = [], 0
    for text, sgr, link in runs:
        if part := text[max(0, start - at) : max(0, end - at)]:
            found.append((part, sgr, link))
        at += len(text)
    return found
