"""The prompt of a comparison, and its result as text and bars."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from app.compare import shown_name
from app.compare.measure import SideFigures
from app.compare.report import Comparison, how, seen
from app.conversations.attached import question_of
from app.core.columns import fit, in_brief
from app.core.errors import AppError
from app.core.printable import printable
from app.engine.drafting_report import rate
from app.ui.compare.side_pane import median_figures
from app.ui.key_names import key
from app.ui.models.fit_options import ErrorNotice
from app.worker.request import AnswerRequest

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

    def show_activity(self, text: str) -> None:
        """Show the current activity; an empty text hides it."""
        self.activity.update(Content(printable(text)))
        self.activity.display = bool(text)

    def show_result(self, comparison: Comparison | None) -> None:
        lines = list(_lines(comparison, self.app.size.width)) if comparison is not None else []
        self.found.update(Content("\n").join(lines))
        self.found.display = bool(lines)

    async def clear_problem(self) -> None:
        await self.query(ErrorNotice).remove()

    async def fail(self, error: AppError) -> None:
        """Show why the comparison failed."""
        self.show_activity("")
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
    runs = f"{ratio.n} run{'s' * (ratio.n != 1)}"
    if ratio.n > 1:
        runs += f", {ratio.low:.1f}× to {ratio.high:.1f}×"
    if measured.outcome == "unclear":
        runs += f"; press {key('compare.more', '3')} for three more"
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
