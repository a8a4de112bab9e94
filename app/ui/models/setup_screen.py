"""The setup screen: this machine, pairs that it can run, and downloads."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.css.query import NoMatches
from textual.getters import query_one
from textual.widget import MountError
from textual.widgets import Input, Static

from app.core.errors import AppError
from app.core.printable import printable
from app.ui.base_screen import SubScreen
from app.ui.key_names import key
from app.ui.keys.footer import KeyBar
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.downloads import LOOK_S, DownloadBars
from app.ui.models.pair_list import PairList, default_text, question
from app.ui.models.state import LoadRequest, PairCard, PairService, PairsState, SetupProgress, Stage
from app.ui.text import MARK, side_by_side
from app.ui.widgets.filter_input import FilterInput, PairFilter
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

EXPLANATION = "A big model answers; a small draft model makes it faster."
_PAGE = 8
_BETWEEN = " · "


class SetupScreen(SubScreen[LoadRequest | None]):
    """Choose a pair; the result is a request to load it, or None.

    Args:
        pairs: The pairs.
        can_leave: Whether there is a chat to return to.
    """

    BINDING_GROUP_TITLE = "Pairs"
    AUTO_FOCUS = "PairFilter"
    CSS_PATH = "setup.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - of the instance, for Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="pairs.leave", tooltip="Clear the filter, or go back"),
        Binding("ctrl+x", "cancel", "stop", id="pairs.cancel", tooltip="Stop the download", priority=True),
        Binding("ctrl+d", "make_default", "default", id="pairs.default", tooltip="Open Tandem with it", priority=True),
        Binding("ctrl+a", "add", "add", id="pairs.add", tooltip="Add models from a repository or file", priority=True),
    ]
    SHOWN_FIRST = ("pairs.choose", "pairs.leave", "pairs.add", "pairs.default", "pairs.cancel", "app.quit")

    machine = query_one("#machine", Static)
    filter_input = query_one(PairFilter)
    pairs = query_one(PairList)
    bars = query_one(DownloadBars)
    hint = query_one(Hint)

    def __init__(self, pairs: PairService, *, can_leave: bool) -> None:
        super().__init__()
        self._pairs = pairs
        self._can_leave = can_leave
        self._state = PairsState()
        self._looking = False
        self._awaited: str | None = None
        """Pair that opens when its setup ends."""
        self._asked: str | None = None
        """Pair that the user was asked about."""
        self._opens = False
        """Whether a downloaded pair is about to open; typed text is then for its prompt."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Choose models")
        yield Static(id="machine")
        with Horizontal(id="search"):
            yield Static(MARK, classes="mark")
            yield PairFilter("type to filter")
        yield PairList()
        yield DownloadBars()
        yield Hint()
        yield KeyBar()

    async def on_mount(self) -> None:
        await self._show(self._pairs.look())
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Inspect the machine after the first frame."""
        self._pairs.begin()
        self._watch()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        if not self._opens:
            self.pairs.filter(event.value)

    @on(FilterInput.Pressed)
    def _press(self, event: FilterInput.Pressed) -> None:
        if by := event.lines(_PAGE):
            self.pairs.move(by)
        elif event.key == "escape":
            self._go_back()
        else:
            self._take()

    @on(PairList.Taken)
    def _take(self) -> None:
        card, job = self.pairs.card, self._job
        if card is None and self.filter_input.value and not self._state.machine:
            self.hint.say("Still checking this machine; more pairs follow in a moment.")
        elif card is None:
            self.action_add()
        elif card.is_open and not card.lacks_draft:
            self.hint.say(printable(f"{card.name} is already loaded; {key('pairs.leave', 'esc')} goes back."))
        elif card.set_up:
            self._open(card.name)
        elif (job is not None and job.running) or (self._opens and card.name == self._awaited):
            self.hint.say(f"Already running; {key('pairs.cancel', 'ctrl+x')} stops it.")
        elif self._asked != card.name and (asks := question(card, job)):
            self._asked = card.name
            self.pairs.ask(asks)
        else:
            self._start(card, agreed=self._asked == card.name or (job is not None and job.stage is Stage.ASKING))

    @on(PairList.Changed)
    def _on_changed(self) -> None:
        # The message may arrive after the key that asked.
        if self.pairs.card is None or self.pairs.card.name != self._asked:
            self._asked = None
        self.bars.show(self._job_to_show)
        self.refresh_bindings()

    def action_leave(self) -> None:
        # Characters typed before come first.
        self.filter_input.action_tell("escape")

    def _go_back(self) -> None:
        """Undo the last step: the question, the filter, or opening this screen."""
        if self._asked is not None:
            self._asked = None
            self.pairs.ask("")
        elif self.filter_input.value:
            self.filter_input.value = ""
        elif self._can_leave:
            self.dismiss(None)
        else:
            choose, leave = key("pairs.choose", "enter"), key("app.quit", "ctrl+q")
            self.hint.say(f"Choose a pair with {choose}; {leave} quits.")

    def action_cancel(self) -> None:
        card, job = self.pairs.card, self._job
        if card is not None and job is not None and job.running:
            self._awaited = None
            self._stay()
            self._pairs.cancel(card.name)
            self._watch()

    def action_make_default(self) -> None:
        card = self.pairs.card
        if card is None:
            return
        try:
            self._pairs.make_default(card.name)
        except AppError as error:
            self.hint.say(printable(error.sentences))
        else:
            self.hint.say(printable(f"Tandem now opens with {card.name}."))
            self._watch()

    def action_add(self) -> None:
        # A key pressed twice would open two screens.
        if self.app.screen is self:
            self.app.push_screen(AddPairScreen(self._pairs), self._added)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim keys that would do nothing."""
        match action:
            case "cancel":
                return (self._job is not None and self._job.running) or None
            case "make_default":
                return (self.pairs.card is not None and self.pairs.card.set_up) or None
        return True

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        bindings = super().active_bindings
        return {key: one for key, one in bindings.items() if self._can_leave or one.binding.id != "pairs.leave"}

    @property
    def _job(self) -> SetupProgress | None:
        """Setup of the chosen pair."""
        return self._state.jobs.get(self.pairs.card.name) if self.pairs.card is not None else None

    @property
    def _job_to_show(self) -> SetupProgress | None:
        """Setup of the chosen pair if it downloads, or else a running one."""
        if self._job is not None and self._job.downloads and self._job.stage is not Stage.READY:
            return self._job
        return next((job for job in reversed(list(self._state.jobs.values())) if job.running and job.downloads), None)

    def _start(self, card: PairCard, *, agreed: bool) -> None:
        self._awaited, self._asked = card.name, None
        self._opens = card.here
        if card.here:
            self.filter_input.value = ""
            self.pairs.filter("")
        self.pairs.ask("")
        self._pairs.start(card.name, agreed=agreed)
        self._watch()

    async def _added(self, name: str | None) -> None:
        if name is not None:
            self._awaited = name
            self.filter_input.value = ""
            await self._show(self._pairs.look())
            await self.pairs.choose(name)
            self._watch()

    def _open(self, name: str, note: str = "") -> None:
        try:
            choice = replace(self._pairs.choose(name), note=note, typed=self.filter_input.value if self._opens else "")
        except AppError as error:
            self.hint.say(printable(error.sentences))
        else:
            self.dismiss(choice)

    def _watch(self) -> None:
        """Update soon, and repeatedly while something runs."""
        if not self._looking:
            self._looking = True
            self.set_timer(LOOK_S, self._look)

    async def _look(self) -> None:
        self._looking = False
        state = self._pairs.look()
        await self._show(state)
        if state.busy:
            self._watch()

    async def _show(self, state: PairsState) -> None:
        self._state = state
        try:
            await self.pairs.show(state)
        except (MountError, NoMatches):
            # The program may end meanwhile.
            if self.is_running and self.app.is_running:
                raise
            return
        self._show_machine()
        self.bars.show(self._job_to_show)
        self.refresh_bindings()
        self._open_if_awaited()

    def on_resize(self) -> None:
        self._show_machine()

    def _show_machine(self) -> None:
        state, room = self._state, self.size.width - self.machine.gutter.width
        facts = f"This machine: {printable(state.machine)}".split(_BETWEEN)
        line = side_by_side(facts, room, _BETWEEN) if state.machine else "Checking this machine …"
        problems = (Content(printable(one.sentences)) for one in state.troubles)
        explanation = [] if self._can_leave else [Content(EXPLANATION)]
        self.machine.update(Content("\n").join([*explanation, Content.styled(line, "$quiet"), *problems]))

    def _open_if_awaited(self) -> None:
        """Open the awaited pair unless the user chats with another one during its download."""
        job = self._state.jobs.get(self._awaited or "")
        if job is None or job.running:
            return
        name, self._awaited = self._awaited, None
        waited = not self._can_leave or not job.has_downloaded
        if job.stage is Stage.READY and waited and name is not None and self.is_current:
            self._open(name, job.note or default_text(self._state.cards, name))
        self._stay()

    def _stay(self) -> None:
        """Stop collecting text for a prompt."""
        if self._opens:
            self.filter_input.value = ""
        self._opens = False
