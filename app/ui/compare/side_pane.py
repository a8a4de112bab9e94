"""One side of a comparison: its figures and its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive
from textual.widget import Widget

from app.compare.measure import Measured
from app.compare.race import Run, ns_per_token
from app.compare.sides import AUTOMATIC, PLAIN
from app.core.printable import printable
from app.engine.drafting_report import rate
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.ui.text import percent
from app.ui.widgets.passage import Passage

_TITLE = 23
_COLUMNS = (11, 16, 12, 14, 16)
"""Cells of each figure."""
_WORD = re.compile(r"\s*\S*")


@dataclass(frozen=True, slots=True)
class Readout:
    """Figures of a side; None if not measured.

    Attributes:
        tokens: Tokens of the answer.
        speed: Tokens per second after the first one.
        acceptance: Accepted over drafted tokens.
        first_s: Seconds to the first token.
        tokens_per_step: Tokens per verify round; None where nothing was drafted.
    """

    tokens: int
    speed: float | None
    acceptance: float | None
    first_s: float | None
    tokens_per_step: float | None


def live(stats: GenerationStats) -> Readout:
    """Return the figures of a running answer."""
    ns = ns_per_token(stats)
    return Readout(
        stats.predicted_n,
        1e9 / ns if ns is not None else None,
        stats.acceptance_rate,
        stats.first_token_ns / 1e9 if stats.first_token_ns else None,
        stats.mean_accepted_length if stats.draft_n else None,
    )


def over_rounds(measured: Measured, last: Run) -> Readout:
    """Return the medians of all rounds."""
    speed, first_ms = measured.tokens_per_second, measured.first_token_ms
    return Readout(
        last.stats.predicted_n,
        speed.median if speed is not None else None,
        measured.acceptance,
        first_ms.median / 1e3 if first_ms is not None else None,
        measured.tokens_per_verify if measured.acceptance is not None else None,
    )


def title_of(side: str) -> str:
    """Return the title of a side."""
    return {PLAIN: "Without draft", AUTOMATIC: "With draft, automatic"}.get(side, f"With draft, {side}")


class SideLine(Widget):
    """A side's title and its figures, in the same columns for each side."""

    readout: reactive[Readout | None] = reactive(None)

    def __init__(self, title: str, color: str) -> None:
        super().__init__()
        self._title = Content.styled(printable(title), f"bold {color}")

    def render(self) -> Content:
        return Content.assemble(self._title, " " * max(0, _TITLE - self._title.cell_length), *self._parts())

    def _parts(self) -> Iterator[Content]:
        r, room = self.readout, self.size.width - max(_TITLE, self._title.cell_length)
        if r is None:
            return
        figures = (
            (rate(r.speed) if r.speed is not None else "", ""),
            (f"{percent(r.acceptance)} accepted" if r.acceptance is not None else "", "$draft"),
            (f"{r.tokens} token{'s' * (r.tokens != 1)}", "$quiet"),
            (f"TTFT {r.first_s:.2f} s" if r.first_s is not None else "", "$quiet"),
            (f"{r.tokens_per_step:.1f} tokens/step" if r.tokens_per_step is not None else "", "$quiet"),
        )
        for (text, style), width in zip(figures, _COLUMNS, strict=True):
            room -= width
            if room < 0:
                return
            yield Content.styled(f"{text:>{width}}", style)


class Followed(VerticalScroll, can_focus=False):
    """A text that follows its end until the reader scrolls.

    Textual's anchor uses the height before a resize, so a short text would float after the pane has shrunk.
    """

    follows = True

    def release_anchor(self) -> None:
        super().release_anchor()
        self.follows = False

    def on_resize(self) -> None:
        self.go_on()

    def go_on(self) -> None:
        if self.follows:
            self.scroll_end(animate=False)


class SidePane(Vertical):
    """A side's figures, and its text below.

    Attributes:
        row: The same figures for the table of sides.
    """

    line = query_one(SideLine)
    body = query_one(Followed)
    shown = query_one(Passage)

    def __init__(self, side: str) -> None:
        super().__init__()
        self._side = side
        self._color = "$target" if side == PLAIN else "$draft"
        self.row = SideLine(title_of(side), self._color)
        self._parts: list[Segment] = []
        self._mark: int | None = None

    def compose(self) -> ComposeResult:
        yield SideLine(title_of(self._side), self._color)
        with Followed():
            yield Passage(Content.styled("waiting", "$quiet"))

    @property
    def text(self) -> str:
        """The text, reasoning included."""
        return "".join(part.text for part in self._parts).lstrip()

    def begin(self) -> None:
        """Clear the text for the next run."""
        self._parts, self._mark = [], None
        self._show(None)
        self.body.follows = True
        self._draw()

    def add(self, segments: Sequence[Segment], stats: GenerationStats | None) -> None:
        """Append text, and show newer counters."""
        if stats is not None:
            self._show(live(stats))
        if segments:
            for segment in segments:
                self._parts.append(self._set_off(segment))
            self._draw()

    def end(self, run: Run) -> None:
        """Show the counters of a finished run."""
        self._show(live(run.stats))
        if not self.text.strip():
            self.shown.write(Content.styled("empty answer", "$quiet"))

    def measured(self, measured: Measured, last: Run) -> None:
        """Show the medians of all rounds."""
        self._show(over_rounds(measured, last))

    def mark(self, at: int | None) -> None:
        """Mark the word at a character and scroll to it; None marks nothing."""
        self._mark = at
        self._draw()
        if at is not None:
            self.body.release_anchor()
            self.call_after_refresh(self._go_to_mark)

    def on_resize(self) -> None:
        if self._mark is not None:
            self.call_after_refresh(self._go_to_mark)

    def _go_to_mark(self) -> None:
        if self._mark is not None:
            above = min(1, self.body.size.height - 1)
            self.body.scroll_to(y=self.shown.line_of(self._mark) - above, animate=False, immediate=True)

    def _show(self, readout: Readout | None) -> None:
        self.line.readout = self.row.readout = readout

    def scroll_text(self, lines: int) -> None:
        self.body.scroll_relative(y=lines, animate=False, immediate=True)

    def _set_off(self, segment: Segment) -> Segment:
        """Return the segment with a blank line before it where reasoning ends or begins."""
        if not self._parts or segment.reasoning == self._parts[-1].reasoning:
            return segment
        said = self.text
        missing = 2 - (len(said) - len(said.rstrip("\n"))) if said else 0
        return replace(segment, text="\n" * missing + segment.text)

    def _draw(self) -> None:
        text = Content.assemble(*((printable(p.text), "$quiet" if p.reasoning else "") for p in self._parts))
        text = text[len(text.plain) - len(text.plain.lstrip()) :]
        if self._mark is not None and (word := _WORD.match(text.plain, self._mark)):
            text = text.stylize(f"bold underline {self._color}", *word.span())
        self.shown.write(text)
        self.body.go_on()
