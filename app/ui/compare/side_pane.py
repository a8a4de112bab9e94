"""One side of a comparison: its figures and its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive
from textual.widget import Widget

from app.compare import AUTOMATIC, PLAIN
from app.compare.measure import Measured
from app.compare.race import Run
from app.core.printable import printable
from app.core.units import counted
from app.engine.drafting_report import rate
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.ui.text import percent
from app.ui.widgets.rows_view import Passage

_TITLE = 23
_COLUMNS = ((11, ""), (16, "$draft"), (12, "$quiet"), (14, "$quiet"), (16, "$quiet"))
"""Cells and style of each figure."""
_WORD = re.compile(r"\s*\S*")
Figures = tuple[str, ...]
"""Speed, acceptance, tokens, TTFT and tokens per step, as texts; "" if not measured."""


def running_figures(stats: GenerationStats) -> Figures:
    """Return the figures of a running answer."""
    return _figures(
        stats.predicted_n,
        stats.tokens_per_second,
        stats.acceptance_rate,
        stats.first_token_ns / 1e9 if stats.first_token_ns else None,
        stats.mean_accepted_length if stats.draft_n else None,
    )


def median_figures(measured: Measured, last: Run) -> Figures:
    """Return the medians of all rounds."""
    speed, first_ms = measured.tokens_per_second, measured.first_token_ms
    return _figures(
        last.stats.predicted_n,
        speed.median if speed is not None else None,
        measured.acceptance,
        first_ms.median / 1e3 if first_ms is not None else None,
        measured.tokens_per_verify if measured.acceptance is not None else None,
    )


def _figures(
    tokens: int, speed: float | None, acceptance: float | None, first_s: float | None, per_step: float | None
) -> Figures:
    return (
        rate(speed) if speed is not None else "",
        f"{percent(acceptance)} accepted" if acceptance is not None else "",
        counted(tokens, "token"),
        f"TTFT {first_s:.2f} s" if first_s is not None else "",
        f"{per_step:.1f} tokens/step" if per_step is not None else "",
    )


class SideLine(Widget):
    """A side's title and its figures, in the same columns for each side."""

    figures: reactive[Figures] = reactive(())

    def __init__(self, side: str, color: str) -> None:
        super().__init__()
        title = {PLAIN: "Without draft", AUTOMATIC: "With draft, automatic"}.get(side, f"With draft, {side}")
        self._title = Content.styled(printable(title), f"bold {color}")

    def render(self) -> Content:
        line = self._title.pad_right(max(0, _TITLE - self._title.cell_length))
        for text, (width, style) in zip(self.figures, _COLUMNS, strict=False):
            if line.cell_length + width > self.size.width:
                break
            line += Content.styled(f"{text:>{width}}", style)
        return line


class FollowedText(VerticalScroll, can_focus=False):
    """A text that follows its end until the reader scrolls.

    Textual's anchor uses the height before a resize, so a short text would float after the pane has shrunk.
    """

    follows = True

    def release_anchor(self) -> None:
        super().release_anchor()
        self.follows = False

    def on_resize(self) -> None:
        self.scroll_to_end()

    def scroll_to_end(self) -> None:
        if self.follows:
            self.scroll_end(animate=False)


class SidePane(Vertical):
    """A side's figures, and its text below.

    Attributes:
        row: The same figures for the table of sides.
    """

    line = query_one(SideLine)
    body = query_one(FollowedText)
    shown = query_one(Passage)

    def __init__(self, side: str) -> None:
        super().__init__()
        self._side = side
        self._color = "$target" if side == PLAIN else "$draft"
        self.row = SideLine(side, self._color)
        self._parts: list[Segment] = []
        self._mark: int | None = None

    def compose(self) -> ComposeResult:
        yield SideLine(self._side, self._color)
        with FollowedText():
            yield Passage(Content.styled("waiting", "$quiet"))

    @property
    def text(self) -> str:
        """The text, reasoning included."""
        return "".join(part.text for part in self._parts).lstrip()

    def begin(self) -> None:
        """Clear the text for the next run."""
        self._parts, self._mark = [], None
        self.show_figures(())
        self.body.follows = True
        self._draw()

    def add(self, segments: Sequence[Segment], stats: GenerationStats | None) -> None:
        """Append text, and show newer counters."""
        if stats is not None:
            self.show_figures(running_figures(stats))
        for segment in segments:
            self._parts.append(self._separated(segment))
        if segments:
            self._draw()

    def end(self, run: Run) -> None:
        """Show the counters of a finished run."""
        self.show_figures(running_figures(run.stats))
        if not self.text.strip():
            self.shown.write(Content.styled("empty answer", "$quiet"))

    def show_figures(self, figures: Figures) -> None:
        self.line.figures = self.row.figures = figures

    def mark(self, at: int | None) -> None:
        """Mark the word at a character and scroll to it; None marks nothing."""
        self._mark = at
        self._draw()
        if at is not None:
            self.body.release_anchor()
            self.call_after_refresh(self._scroll_to_mark)

    def on_resize(self) -> None:
        if self._mark is not None:
            self.call_after_refresh(self._scroll_to_mark)

    def scroll_text(self, lines: int) -> None:
        self.body.scroll_relative(y=lines, animate=False, immediate=True)

    def _scroll_to_mark(self) -> None:
        if self._mark is not None:
            above = min(1, self.body.size.height - 1)
            self.body.scroll_to(y=self.shown.line_of(self._mark) - above, animate=False, immediate=True)

    def _separated(self, segment: Segment) -> Segment:
        """Return the segment with a blank line before it where reasoning ends or begins."""
        if not self.text or segment.reasoning == self._parts[-1].reasoning:
            return segment
        n_breaks = len(self.text) - len(self.text.rstrip("\n"))
        return replace(segment, text="\n" * (2 - n_breaks) + segment.text)

    def _draw(self) -> None:
        text = Content.assemble(*((printable(part.text), "$quiet" if part.reasoning else "") for part in self._parts))
        text = text[len(text.plain) - len(text.plain.lstrip()) :]
        if self._mark is not None and (word := _WORD.match(text.plain, self._mark)):
            text = text.stylize(f"bold underline {self._color}", *word.span())
        self.shown.write(text)
        self.body.scroll_to_end()
