"""The compare screen: one prompt with and without the draft, on the loaded models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Container, VerticalGroup
from textual.geometry import Size
from textual.getters import query_one

from app.compare.note import comparison_markdown, save_note
from app.compare.report import Comparison
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.core.regular_file import resolved
from app.session.comparison import Comparable
from app.ui.base_screen import SubScreen
from app.ui.chat.error_hints import in_comparison
from app.ui.compare.result import PromptLines, Result
from app.ui.compare.runner import ComparisonRunner
from app.ui.compare.side_pane import SidePane
from app.ui.event_dispatcher import EventHandler
from app.ui.keys.footer import KeyBar
from app.ui.text import n_in_common
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

if TYPE_CHECKING:
    from app.session.engine import Engine

_SIDE = 50
"""Columns of a side; narrower windows show one text at a time."""
_MORE = 3


class CompareScreen(SubScreen[None]):
    """One prompt answered by each side in turn; the conversation does not change.

    Args:
        engine: Runs the rounds.
        what: The prompt and the sides.
        listen: Sends events of the engine to a handler; None ends that.
    """

    BINDING_GROUP_TITLE = "Comparison"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="compare.leave", tooltip="Stop, or back"),
        Binding("tab", "switch", "other text", id="compare.switch", tooltip="Show the text of the next side"),
        Binding("m", "more(1)", "once more", id="compare.once", tooltip="Run one more round"),
        Binding("r", f"more({_MORE})", f"{_MORE} more", id="compare.more", tooltip="Run three more rounds"),
        Binding("f", "toggle_fixed", "fixed", id="compare.fixed", tooltip="Add or remove fixed draft parameters"),
        Binding("s", "save", "save", id="compare.save", tooltip="Save as Markdown in the current folder"),
        Binding("c", "copy", "copy", id="compare.copy", tooltip="Copy as Markdown"),
        Binding("up,k", "scroll(-1)", "up", id="compare.up", show=False),
        Binding("down,j", "scroll(1)", "down", id="compare.down", show=False),
        Binding("pageup", "scroll(-5)", "page up", id="compare.page_up", show=False),
        Binding("pagedown", "scroll(5)", "page down", id="compare.page_down", show=False),
    ]
    SHOWN_FIRST = (
        "compare.leave",
        "compare.switch",
        "compare.once",
        "compare.more",
        "compare.fixed",
        "compare.save",
        "compare.copy",
        "app.quit",
    )

    result = query_one(Result)
    hint = query_one(Hint)

    def __init__(self, engine: Engine, what: Comparable, listen: Callable[[EventHandler | None], None]) -> None:
        super().__init__()
        self._what = what
        self._listen = listen
        self._runner = ComparisonRunner(what, engine, self)
        self.panes: dict[str, SidePane] = {side.name: SidePane(side.name) for side in self._runner.sides}
        self._visible = 0
        """Index of the text that a narrow window shows."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Compare")
        yield PromptLines(self._what.request)
        yield Container(*self.panes.values(), id="panes")
        yield VerticalGroup(*(pane.row for pane in self.panes.values()), id="sides")
        yield Result()
        yield Hint()
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(HeaderLine).pair = self._what.pair
        self.result.show_result(None)
        self._more(1)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size)

    def action_leave(self) -> None:
        if not self.stop_work():
            self._listen(None)
            self.dismiss()

    def stop_work(self) -> str:
        if not self._stops:
            return ""
        self._runner.stop()
        self.result.show_activity("stopping")
        self.refresh_bindings()
        return "The comparison"

    async def action_more(self, rounds: int) -> None:
        await self.result.clear_problem()
        self._more(rounds)

    async def action_toggle_fixed(self) -> None:
        runner = self._runner
        if runner.has_fixed:
            runner.drop_fixed()
            await self._change_panes()
            self.show_result(stopped=False)
            return
        try:
            runner.add_fixed()
        except UsageError as error:
            self.hint.say(error.message)
            return
        await self._change_panes()
        await self.action_more(1)

    def action_scroll(self, lines: int) -> None:
        for pane in self.panes.values():
            pane.scroll_text(lines)

    def action_save(self) -> None:
        try:
            file = save_note(Path(), self._markdown)
        except AppError as error:
            self.hint.say(error.message)
        else:
            self.hint.say(f"Saved {printable(str(resolved(file)))}.")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._markdown)
        self.hint.say("Copied the comparison.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide or dim keys that would do nothing."""
        if action in ("more", "toggle_fixed"):
            return not self._runner.expects_events or None
        if action == "switch":
            return not self.has_class("-wide")
        if action in ("save", "copy"):
            return self._runner.result is not None or None
        return True

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return {
            pressed: one._replace(binding=replace(one.binding, description="stop"))
            if self._stops and one.binding.id == "compare.leave"
            else one
            for pressed, one in super().active_bindings.items()
        }

    @property
    def _stops(self) -> bool:
        """Return whether the key for leaving stops the rounds."""
        return self._runner.expects_events and not self._runner.stopping

    def show_result(self, *, stopped: bool) -> None:
        """Show the result so far."""
        result = self._runner.result
        self.result.show_activity(_ending(result, stopped=stopped))
        self.result.show_result(result)
        if result is not None:
            for m in result.measured:
                self.panes[m.name].measured(m, result.rounds[-1][m.name])
            self._mark_difference(result)
        self.refresh_bindings()

    async def fail(self, error: AppError) -> None:
        """Show why the comparison failed."""
        await self.result.fail(in_comparison(error, self._what))
        self.refresh_bindings()

    def _more(self, rounds: int) -> None:
        self._runner.more(rounds)
        self._listen(self._runner)
        self.result.show_activity("starting")
        self.refresh_bindings()

    async def _change_panes(self) -> None:
        """Add and remove panes so that each side has one, in order."""
        names = [side.name for side in self._runner.sides]
        for gone in [name for name in self.panes if name not in names]:
            pane = self.panes.pop(gone)
            await pane.row.remove()
            await pane.remove()
        missing = {name: SidePane(name) for name in names if name not in self.panes}
        self.panes = {name: missing.get(name) or self.panes[name] for name in names}
        for name, pane in missing.items():
            await self.query_one("#panes").mount(pane, before=names.index(name))
            await self.query_one("#sides").mount(pane.row, before=names.index(name))
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        is_wide = size.width >= _SIDE * len(self.panes)
        self.set_class(is_wide, "-wide")
        self._visible %= len(self.panes)
        for at, pane in enumerate(self.panes.values()):
            pane.display = is_wide or at == self._visible
            pane.row.set_class(at == self._visible, "-chosen")
        self.refresh_bindings()

    def action_switch(self) -> None:
        self._visible += 1
        self._arrange(self.size)

    def show_side(self, name: str) -> None:
        """Show the text of a side in a narrow window."""
        self._visible = list(self.panes).index(name)
        self._arrange(self.size)

    def _mark_difference(self, result: Comparison) -> None:
        """Mark the first word that differs."""
        plain, *others = self.panes.values()
        places = {}
        for name, pane in list(self.panes.items())[1:]:
            if result.differences.get(name) is not None:
                places[pane] = n_in_common(plain.text, pane.text)
        for pane in others:
            pane.mark(places.get(pane))
        plain.mark(min(places.values(), default=None))

    @property
    def _markdown(self) -> str:
        assert self._runner.result is not None
        return comparison_markdown(self._runner.result, self._what.request, self._what.pair)


def _ending(result: Comparison | None, *, stopped: bool) -> str:
    if not stopped:
        return ""
    if result is None:
        return "stopped before the first whole round"
    n = len(result.rounds)
    return f"stopped after {n} whole round{'s' * (n != 1)}"
