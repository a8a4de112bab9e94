"""One side of a comparison: who answers, how fast, and what."""

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
"""Cells of each figure and of the room before it."""
_WORD = re.compile(r"\s*\S*")


@dataclass(frozen=True, slots=True)
class Readout:
    """Figures of a side; None where nothing was measured.

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
    """The figures of an answer on its way."""
    ns = ns_per_token(stats)
    return Readout(
        stats.predicted_n,
        1e9 / ns if ns is not None else None,
        stats.acceptance_rate,
        stats.first_token_ns / 1e9 if stats.first_token_ns else None,
        stats.mean_accepted_length if stats.draft_n else None,
    )


def over_rounds(measured: Measured, last: Run) -> Readout:
    """The medians over all rounds."""
    speed, first_ms = measured.tokens_per_second, measured.first_token_ms
    return Readout(
        last.stats.predicted_n,
        speed.median if speed is not None else None,
        measured.acceptance,
        first_ms.median / 1e3 if first_ms is not None else None,
        measured.tokens_per_verify if measured.acceptance is not None else None,
    )


def title_of(side: str) -> str:
    """What a side is called above its text."""
    return {PLAIN: "Without draft", AUTOMATIC: "With draft, automatic"}.get(side, f"With draft, {side}")


class SideLine(Widget):
    """A side's name and its figures, in columns that are the same for every side; those at the end go first."""

    readout: reactive[Readout | None] = reactive(None)

    def __init__(self, title: str, colour: str) -> None:
        super().__init__()
        self._title = Content.styled(printable(title), f"bold {colour}")

    def render(self) -> Content:
        return Content.assemble(self._title, " " * max(0, _TITLE - self._title.cell_length), *self._parts())

    def _parts(self) -> Iterator[Content]:
        r, room = self.readout, self.size.width - max(_TITLE, self._title.cell_length)
        if r is None:
            return
        figures = (
            (rate(r.speed) if r.speed is not None else "", ""),
            (f"accepted {percent(r.acceptance)}" if r.acceptance is not None else "", "$draft"),
            (f"{r.tokens} token{'s' * (r.tokens != 1)}", "$quiet"),
            (f"first {r.first_s:.2f} s" if r.first_s is not None else "", "$quiet"),
            (f"{r.tokens_per_step:.1f} tokens/step" if r.tokens_per_step is not None else "", "$quiet"),
        )
        for (text, style), width in zip(figures, _COLUMNS, strict=True):
            room -= width
            if room < 0:
                return
            yield Content.styled(f"{text:>{width}}", style)


class Followed(VerticalScroll, can_focus=False):
    """A text whose end stays in sight until the reader moves.

    Textual's own anchor reckons with the height that the pane had before, so a short text hangs in the air after the
    pane has shrunk.
    """

    follows = True

    def release_anchor(self) -> None:
        super().release_anchor()
        self.follows = False

    def on_resize(self) -> None:
        self.go_on()

    def go_on(self) -> None:
        """Show the end, if that is followed."""
        if self.follows:
            self.scroll_end(animate=False)


class SidePane(Vertical):
    """A side's line, and its text below.

    Args:
        side: The side's name.
    """

    line = query_one(SideLine)
    body = query_one(Followed)
    shown = query_one(Passage)

    def __init__(self, side: str) -> None:
        super().__init__()
        self._side = side
        self._colour = "$target" if side == PLAIN else "$draft"
        self._parts: list[Segment] = []
        self._mark: int | None = None

    def compose(self) -> ComposeResult:
        yield SideLine(title_of(self._side), self._colour)
        with Followed():
            yield Passage(Content.styled("waits for its turn", "$quiet"))

    @property
    def text(self) -> str:
        """What is shown, the thinking included."""
        return "".join(part.text for part in self._parts).lstrip()

    def begin(self) -> None:
        """The side's turn has come; its last text goes."""
        self._parts, self._mark = [], None
        self.line.readout = None
        self.body.follows = True
        self._draw()

    def add(self, segments: Sequence[Segment], stats: GenerationStats | None) -> None:
        """More text has come, and counters if they are newer."""
        if stats is not None:
            self.line.readout = live(stats)
        if segments:
            for segment in segments:
                self._parts.append(self._set_off(segment))
            self._draw()

    def end(self, run: Run) -> None:
        """The side's turn is over."""
        self.line.readout = live(run.stats)
        if not self.text.strip():
            self.shown.write(Content.styled("the model said nothing", "$quiet"))

    def measured(self, measured: Measured, last: Run) -> None:
        """Show what all rounds together say."""
        self.line.readout = over_rounds(measured, last)

    def mark(self, at: int | None) -> None:
        """Mark the word at this character of the text, and go there; None marks nothing."""
        self._mark = at
        self._draw()
        if at is not None:
            self.body.release_anchor()
            self.call_after_refresh(self._go_to_mark)

    def on_resize(self) -> None:
        # A text that flows anew has it elsewhere.
        if self._mark is not None:
            self.call_after_refresh(self._go_to_mark)

    def _go_to_mark(self) -> None:
        if self._mark is not None:
            above = min(1, self.body.size.height - 1)
            self.body.scroll_to(y=self.shown.line_of(self._mark) - above, animate=False, immediate=True)

    def scroll_text(self, lines: int) -> None:
        """Move through the text."""
        self.body.scroll_relative(y=lines, animate=False, immediate=True)

    def _set_off(self, segment: Segment) -> Segment:
        """The segment with a free line before it where thinking ends and the answer begins, or the other way round."""
        if not self._parts or segment.reasoning == self._parts[-1].reasoning:
            return segment
        said = self.text
        missing = 2 - (len(said) - len(said.rstrip("\n"))) if said else 0
        return replace(segment, text="\n" * missing + segment.text)

    def _draw(self) -> None:
        text = Content.assemble(*((printable(p.text), "$quiet" if p.reasoning else "") for p in self._parts))
        text = text[len(text.plain) - len(text.plain.lstrip()) :]
        if self._mark is not None and (word := _WORD.match(text.plain, self._mark)):
            text = text.stylize(f"bold underline {self._colour}", *word.span())
        self.shown.write(text)
        self.body.go_on()
