"""What a comparison has come to, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from app.compare.measure import outcome, verdict
from app.compare.report import Comparison, remarks, unsteady
from app.engine.text import printable
from app.errors import AppError
from app.ui.widgets.message import Problem

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
        yield Content.styled(printable(name + verdict(m.ratio, "r")), _STYLES.get(outcome(m.ratio), "bold"))
        for remark in remarks(comparison, m):
            yield Content.styled(printable(remark), "$quiet")
    firsts = [(m.name, m.first_token_ms.median / 1e3) for m in (plain, *others) if m.first_token_ms is not None]
    if firsts:
        told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in firsts)
        yield Content.styled(printable(f"first token: {told}"), "$quiet")
    if (note := unsteady(comparison.rounds, plain.name)) is not None:
        yield Content.styled(printable(note), "$quiet")
