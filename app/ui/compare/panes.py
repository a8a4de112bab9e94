"""The parts of the compare screen: its prompt, a pane for each side, and the result as text and bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.compare import AUTOMATIC, PLAIN, shown_name
from app.compare.measure import SideFigures
from app.compare.race import Run
from app.compare.report import Comparison, how, seen
from app.conversations.attached import question_of
from app.core.columns import fit, in_brief
from app.core.errors import AppError
from app.core.printable import printable
from app.core.units import counted
from app.engine.drafting_report import rate
from app.engine.stats import GenerationStats
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.ui.key_names import key
from app.ui.models.fit_options import ErrorNotice
from app.ui.transcript.message import Item
from app.ui.transcript.parts import QUIET, MarkdownPart, MessagePart
from app.ui.transcript.scroll import LineScroll
from app.ui.widgets.row_canvas import typed_rows
from app.worker.request import AnswerRequest

_TITLE_COLUMNS = 23
_FIGURE_COLUMNS = ((11, ""), (16, "$draft"), (12, "$quiet"), (20, "$quiet"), (16, "$quiet"))
"""Width and style of each figure."""
_WORD_PATTERN = re.compile(r"\w+")
_END_NOTES = {
    FinishReason.LENGTH: "cut at {}",
    FinishReason.CANCELLED: "stopped after {}",
    FinishReason.CONTEXT: "cut at {}: the context is full",
}
"""Notes below a text that the model did not end itself."""
_PART_BREAK = "\n\n"
"""Text between reasoning and answer."""
Figures = tuple[str, ...]
"""Speed, acceptance, tokens, first token and tokens per step, as texts; unknown values are empty."""


def running_figures(stats: GenerationStats) -> Figures:
    """Return the figures of a running answer."""
    return _figures(
        stats.predicted_n,
        stats.tokens_per_second,
        stats.acceptance,
        stats.first_token_ns / 1e9 if stats.first_token_ns else None,
        stats.per_step,
    )


def median_figures(measured: SideFigures, last: Run) -> Figures:
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
        f"{acceptance:.0%} accepted" if acceptance is not None else "",
        counted(tokens, "token"),
        f"first token {first_s:.2f} s" if first_s is not None else "",
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
        line = self._title.pad_right(max(0, _TITLE_COLUMNS - self._title.cell_length))
        for text, (width, style) in zip(self.figures, _FIGURE_COLUMNS, strict=False):
            if line.cell_length + width > self.size.width:
                break
            line += Content.styled(f"{text:>{width}}", style)
        return line


class SidePane(Vertical):
    """A side's figures, and its text below."""

    line = query_one(SideLine)

    def __init__(self, side: str) -> None:
        super().__init__()
        self._side = side
        self._color = "$target" if side == PLAIN else "$draft"
        self.row = SideLine(side, self._color)
        self._body = LineScroll()
        self._item = Item(())
        self.begin("waiting")

    def compose(self) -> ComposeResult:
        yield SideLine(self._side, self._color)
        yield self._body

    @property
    def text(self) -> str:
        """Return the text, including the reasoning."""
        return _PART_BREAK.join(filter(None, self._texts.values()))

    def begin(self, note: str = "") -> None:
        """Clear the text for the next run."""
        self._texts = {True: "", False: ""}
        """The reasoning (True) and the answer (False)."""
        self._marked: tuple[MarkdownPart, int, int] | None = None
        """The marked part, and the row and the first character of the marked word."""
        self.markdown = {True: MarkdownPart(style=QUIET), False: MarkdownPart()}
        self._note = MessagePart(typed_rows(note), style=QUIET)
        self._item = Item([*self.markdown.values(), self._note])
        self._body.items = [self._item]
        self._body.follow_end()

    def add(self, segments: Sequence[Segment], stats: GenerationStats | None) -> None:
        """Append text, and show newer counters."""
        if stats is not None:
            self.show_figures(running_figures(stats))
        for is_reasoning, part in self.markdown.items():
            text = "".join(segment.text for segment in segments if segment.reasoning is is_reasoning)
            # Leading spaces would make the first line a code block.
            text = text if self._texts[is_reasoning] else text.lstrip()
            if text:
                self._texts[is_reasoning] += text
                part.append(text)
        self._body.update(self._item)

    def end(self, run: Run) -> None:
        """Show the counters of a finished run, and why its text stops."""
        self.show_figures(running_figures(run.stats))
        reason = "empty answer" if not self.text.strip() else _END_NOTES.get(run.reason, "")
        self._note.put(0, list(typed_rows(reason.format(counted(run.stats.predicted_n, "token")))))
        self._body.update(self._item)

    def show_figures(self, figures: Figures) -> None:
        self.line.figures = self.row.figures = figures

    def mark(self, at: int | None) -> None:
        """Mark the word at a character and scroll to it; None marks nothing."""
        if at is None:
            return
        n_reasoning = len(self._texts[True])
        is_reasoning = at < n_reasoning
        part, text = self.markdown[is_reasoning], self._texts[is_reasoning]
        start = at if is_reasoning or not n_reasoning else at - n_reasoning - len(_PART_BREAK)
        word = next((each for each in _WORD_PATTERN.finditer(text) if each.end() > start), None)
        if word is None:
            return
        same = re.compile(rf"\b{re.escape(word[0])}\b")
        n_before = sum(1 for _ in same.finditer(text, 0, word.start()))
        part.read_all()
        found = part.matches(same)[n_before:]
        if not found:
            return
        (number, match), style = found[0], f"bold underline {self._color}"
        part.mark("word", lambda at, row: row.stylized(style, *match.span()) if at == number else row)
        self._marked = part, number, match.start()
        self._body.settle()
        self._scroll_to_mark()

    def on_resize(self) -> None:
        self._scroll_to_mark()

    def scroll_text(self, lines: int) -> None:
        self._body.scroll_relative(y=lines, animate=False, immediate=True)

    def _scroll_to_mark(self) -> None:
        if self._marked is not None:
            part, row, at = self._marked
            self._body.show_line(self._item, part, part.line_of(row, at))


_RESULT_STYLES = {"faster": "bold $draft", "slower": "bold $target"}
_GAP_CELLS = 2
_NAME_CELLS, _RATE_CELLS, _LONGEST_BAR_CELLS = 14, 12, 40
"""Widths of a side's name, of its speed and of the longest bar."""


class PromptLines(Widget):
    """The prompt and the sampling in one line, and the rest of each side's input below."""

    def __init__(self, request: AnswerRequest) -> None:
        super().__init__()
        self._prompt = " ".join(printable(question_of(request.messages[-1].content)).split())
        self._how = printable(how(request))
        self._seen = f"{seen(request).capitalize()}; the conversation does not change"

    def render(self) -> Content:
        width = self.size.width
        rooms = (width - Content(self._prompt).cell_length - _GAP_CELLS, width // 2 - _GAP_CELLS)
        shortened = ((in_brief(self._how, room), room) for room in rooms)
        brief = next((brief for brief, room in shortened if len(brief) <= room), "")
        prompt = Content(fit(self._prompt, width - len(brief) - _GAP_CELLS))
        first = Content.assemble(prompt, " " * (width - prompt.cell_length - len(brief)), (brief, "$quiet"))
        return Content("\n").join([first, Content.styled(fit(in_brief(self._seen, width), width), "$quiet")])


class Result(VerticalScroll, can_focus=False):
    """The current activity, and the result below."""

    activity = query_one("#activity", Static)
    found = query_one("#found", Static)

    def compose(self) -> ComposeResult:
        yield Static(id="activity")
        yield Static(id="found")

    def show_activity(self, text: str | None) -> None:
        """Show the current activity; None hides it."""
        self.activity.update(Content(printable(text or "")))
        self.activity.display = bool(text)

    def show_result(self, comparison: Comparison) -> None:
        lines = list(_lines(comparison, self.app.size.width)) if comparison.rounds else []
        self.found.update(Content("\n").join(lines))
        self.found.display = bool(lines)

    async def clear_problem(self) -> None:
        await self.query(ErrorNotice).remove()

    async def fail(self, error: AppError) -> None:
        """Show why the comparison failed."""
        self.show_activity(None)
        await self.mount(ErrorNotice(error))


def _lines(comparison: Comparison, width: int) -> Iterator[Content]:
    others = comparison.measured[1:]
    for m in others:
        name = f"{m.name}: " if len(others) > 1 else ""
        style = _RESULT_STYLES.get(m.outcome, "bold")
        yield Content.assemble((printable(name + m.gain), style), (_runs(m), "$quiet"))
        yield from _texts(comparison, m)
    yield from _bars(comparison.measured, width)
    for m in others:
        figures = ", ".join(filter(None, median_figures(m, comparison.rounds[-1][m.name])[1:]))
        name = f"{printable(m.name)}: " if len(others) > 1 else ""
        yield Content.styled(name + figures, "$quiet")
    for note in comparison.notes:
        yield Content.styled(printable(note), "$quiet")


def _runs(measured: SideFigures) -> str:
    ratio = measured.ratio
    if ratio is None:
        return ""
    runs = counted(ratio.n, "run")
    if ratio.n > 1:
        runs += f", {ratio.low:.1f}× to {ratio.high:.1f}×"
    if measured.outcome == "unclear":
        runs += f"; press {key('compare.more')} for three more"
    return f"  ({runs})"


def _texts(comparison: Comparison, measured: SideFigures) -> Iterator[Content]:
    difference = comparison.differences.get(measured.name)
    if difference is not None:
        why = " (rounding)" if difference.near_tie else ""
        yield Content(f"differs at token {difference.index + 1}{why}")
    for remark in comparison.remarks(measured):
        style = "" if remark.startswith("identical output") else "$quiet"
        tokens = remark.partition(": ")[2] if remark.startswith("differs at token") else ""
        yield Content.styled(printable(tokens or remark), style)


def _bars(sides: tuple[SideFigures, ...], width: int) -> Iterator[Content]:
    speeds = [m.tokens_per_second.median if m.tokens_per_second is not None else 0.0 for m in sides]
    longest = min(_LONGEST_BAR_CELLS, width - _NAME_CELLS - _RATE_CELLS - 4)
    if longest < 1 or not all(speeds):
        return
    for at, (side, speed) in enumerate(zip(sides, speeds, strict=True)):
        name = fit(shown_name(side.name), _NAME_CELLS - 1)
        bar = "━" * max(1, round(longest * speed / max(speeds)))
        style = "$target" if at == 0 else "$draft"
        yield Content.assemble((f"{name:<{_NAME_CELLS}}", "$quiet"), f"{rate(speed):>{_RATE_CELLS - 1}} ", (bar, style))
