"""With and without the draft, side by side, on the weights that are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Container
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
from app.ui.compare.asked import AskedLines
from app.ui.compare.course import Comparing
from app.ui.compare.outcome import Outcome
from app.ui.compare.side_pane import SidePane
from app.ui.event_dispatcher import EventHandler
from app.ui.keys.footer import KeyBar
from app.ui.text import n_in_common
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

if TYPE_CHECKING:
    from app.session.engine import Engine

_SIDE = 50
"""Columns that a side needs to stand beside another one; below that they stand one above the other."""
_AIRY = 5
"""Rows for each side from which on an empty one keeps a text from the title below it."""
_MORE = 3


class Panes(Container):
    """The sides; what comes below them decides how high they are."""

    def on_resize(self) -> None:
        self.give_air()

    def give_air(self) -> None:
        """Leave an empty row between them where there is room."""
        self.set_class(self.size.height >= _AIRY * len(self.children), "-airy")


class CompareScreen(SubScreen[None]):
    """One prompt, answered by every side in turn. Nothing of it enters the conversation.

    Args:
        engine: Runs it.
        what: What is compared.
        listen: Tells the given ears what the engine says about them, and nobody after None.
    """

    BINDING_GROUP_TITLE = "Comparison"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="compare.leave", tooltip="Stop; then, back"),
        Binding("m", "more(1)", "once more", id="compare.once", tooltip="Let everybody answer once more"),
        Binding("r", f"more({_MORE})", f"{_MORE} more", id="compare.more", tooltip="Several more rounds, for a spread"),
        Binding("f", "toggle_fixed", "fixed", id="compare.fixed", tooltip="Fixed draft parameters as a third side"),
        Binding("s", "save", "save", id="compare.save", tooltip="Save it as Markdown in the current folder"),
        Binding("c", "copy", "copy", id="compare.copy", tooltip="Copy it as Markdown"),
        Binding("up,k", "scroll(-1)", "up", id="compare.up", show=False),
        Binding("down,j", "scroll(1)", "down", id="compare.down", show=False),
        Binding("pageup", "scroll(-5)", "page up", id="compare.page_up", show=False),
        Binding("pagedown", "scroll(5)", "page down", id="compare.page_down", show=False),
    ]
    SHOWN_FIRST = (
        "compare.leave",
        "compare.once",
        "compare.more",
        "compare.fixed",
        "compare.save",
        "compare.copy",
        "app.quit",
    )

    outcome = query_one(Outcome)
    hint = query_one(Hint)

    def __init__(self, engine: Engine, what: Comparable, listen: Callable[[EventHandler | None], None]) -> None:
        super().__init__()
        self._what = what
        self._listen = listen
        self._comparing = Comparing(what, engine, self)
        self.panes: dict[str, SidePane] = {side.name: SidePane(side.name) for side in self._comparing.sides}
        """By the side's name."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Compare")
        yield AskedLines(self._what.request)
        yield Panes(*self.panes.values(), id="panes")
        yield Outcome()
        yield Hint()
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(HeaderLine).pair = self._what.pair
        self.outcome.show_result(None)
        self._more(1)

    def on_resize(self, event: events.Resize) -> None:
        self._arrange(event.size)

    # What the user does

    def action_leave(self) -> None:
        if not self.stop_work():
            self._listen(None)
            self.dismiss()

    def stop_work(self) -> str:
        if not self._stops:
            return ""
        self._comparing.stop()
        self.outcome.tell("stopping")
        self.refresh_bindings()
        return "The comparison"

    async def action_more(self, rounds: int) -> None:
        await self.outcome.forget_problem()
        self._more(rounds)

    async def action_toggle_fixed(self) -> None:
        comparing = self._comparing
        if comparing.has_fixed:
            comparing.drop_fixed()
            await self._change_panes()
            self.show_result(stopped=False)
            return
        try:
            comparing.add_fixed()
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
            # A folder that is gone has no name any more, and refuses the file.
            file = save_note(Path(), self._markdown)
        except AppError as error:
            self.hint.say(error.message)
        else:
            self.hint.say(f"{printable(str(resolved(file)))} is written.")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._markdown)
        self.hint.say("The comparison is copied.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        if action in ("more", "toggle_fixed"):
            return not self._comparing.expects_events or None
        if action in ("save", "copy"):
            return self._comparing.result is not None or None
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
        """Whether leaving only stops what runs."""
        return self._comparing.expects_events and not self._comparing.stopping

    # What comes of it; `app.ui.compare.course` calls

    def show_result(self, *, stopped: bool) -> None:
        """Show what was measured so far."""
        result = self._comparing.result
        self.outcome.tell(_ending(result, stopped=stopped))
        self.outcome.show_result(result)
        if result is not None:
            for m in result.measured:
                self.panes[m.name].measured(m, result.rounds[-1][m.name])
            self._mark_difference(result)
        self.refresh_bindings()

    async def fail(self, error: AppError) -> None:
        """Say why it cannot go on."""
        await self.outcome.fail(in_comparison(error, self._what))
        self.refresh_bindings()

    # Behind it

    def _more(self, rounds: int) -> None:
        self._comparing.more(rounds)
        self._listen(self._comparing)
        self.outcome.tell("beginning")
        self.refresh_bindings()

    async def _change_panes(self) -> None:
        """Let there be a pane for every side, in their order."""
        names = [side.name for side in self._comparing.sides]
        for gone in [name for name in self.panes if name not in names]:
            await self.panes.pop(gone).remove()
        missing = {name: SidePane(name) for name in names if name not in self.panes}
        self.panes = {name: missing.get(name) or self.panes[name] for name in names}
        for name, pane in missing.items():
            await self.query_one("#panes").mount(pane, before=names.index(name))
        self._arrange(self.size)

    def _arrange(self, size: Size) -> None:
        self.set_class(size.width >= _SIDE * len(self.panes), "-wide")
        self.query_one(Panes).give_air()

    def _mark_difference(self, result: Comparison) -> None:
        """Mark the first word that differs, on every side that differs and on the plain one."""
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
        assert self._comparing.result is not None
        return comparison_markdown(self._comparing.result, self._what.request, self._what.pair)


def _ending(result: Comparison | None, *, stopped: bool) -> str:
    if not stopped:
        return ""
    if result is None:
        return "stopped before everybody had answered once"
    n = len(result.rounds)
    return f"stopped; {n} whole round{'s' * (n != 1)} count{'s' * (n == 1)}"
