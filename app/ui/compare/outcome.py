"""What a comparison has come to, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from app.compare.measure import Measured, outcome, verdict
from app.compare.report import Comparison, crowded, remarks, start, unsteady
from app.core.errors import AppError
from app.core.printable import printable
from app.ui.text import percent
from app.ui.transcript.message import Problem

_STYLES = {"faster": "bold $draft", "slower": "bold $target"}


class Outcome(VerticalScroll, can_focus=False):
    """What is going on, below it what was found."""

    doing = query_one("#doing", Static)
    found = query_one("#found", Static)

    def compose(self) -> ComposeResult:
        yield Static(id="doing")
        yield Static(id="found")

    def tell(self, doing: str) -> None:
        """Say what is going on; "" for nothing."""
        self.doing.update(Content(printable(doing)))
        self.doing.display = bool(doing)

    def show_result(self, comparison: Comparison | None) -> None:
        """Say what was measured."""
        lines = list(_lines(comparison)) if comparison is not None else []
        self.found.update(Content("\n").join(lines))
        self.found.display = bool(lines)

    async def forget_problem(self) -> None:
        """Take away what was said to have failed."""
        await self.query(Problem).remove()

    async def fail(self, error: AppError) -> None:
        """Say what could not be done."""
        self.tell("")
        await self.mount(Problem(error))


def _lines(comparison: Comparison) -> Iterator[Content]:
    plain, *others = comparison.measured
    for m in others:
        name = f"{m.name}: " if len(others) > 1 else ""
        style = _STYLES.get(outcome(m.ratio, work=m.work), "bold")
        yield Content.styled(printable(name + verdict(m.ratio, "r", work=m.work)), style)
        if figures := ", ".join(filter(None, (_drafts(m), _first_token(m, plain)))):
            yield Content.styled(printable(figures), "$quiet")
        for remark in remarks(comparison, m):
            yield Content.styled(printable(remark), "$quiet")
    yield Content.styled(printable(start(comparison.rounds)), "$quiet")
    if (note := unsteady(comparison.rounds, plain.name)) is not None:
        yield Content.styled(printable(note), "$quiet")
    if (company := crowded(comparison.rounds)) is not None:
        yield Content.styled(company, "$quiet")


def _drafts(measured: Measured) -> str:
    """What became of a side's drafts; "" where nothing was drafted."""
    if measured.acceptance is None or measured.tokens_per_verify is None:
        return ""
    return f"acceptance {percent(measured.acceptance)}, {measured.tokens_per_verify:.1f} tokens per step"


def _first_token(measured: Measured, plain: Measured) -> str:
    """How long a side and the plain one took to begin; "" where that was not measured."""
    mine, other = measured.first_token_ms, plain.first_token_ms
    if mine is None or other is None:
        return ""
    return f"first token {mine.median / 1e3:.2f} s, plain {other.median / 1e3:.2f} s"
