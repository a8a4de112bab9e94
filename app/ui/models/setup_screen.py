"""The set-up screen: the machine, the pairs that it could run, and how their downloads go."""

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
from app.ui.keys.bar import KeyBar
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.card import default_text
from app.ui.models.downloads import LOOK_S, DownloadBars
from app.ui.models.list import PairList
from app.ui.models.section import question
from app.ui.models.state import LoadRequest, PairCard, PairService, PairsState, SetupProgress, Stage
from app.ui.text import MARK, side_by_side
from app.ui.widgets.filter_input import FilterInput, PairFilter
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint

_PAGE = 8
_BETWEEN = " · "
"""Between what is said of the machine."""


class SetupScreen(SubScreen[LoadRequest | None]):
    """Choose a pair; the result is how to load it, or None to go on as before.

    Args:
        pairs: The pairs, and what goes on with them.
        can_leave: Whether there is a chat to go back to.
    """

    BINDING_GROUP_TITLE = "Pairs"
    AUTO_FOCUS = "PairFilter"
    CSS_PATH = "setup.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - of the instance, for Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", key_display="esc", id="pairs.leave", tooltip="Clear the filter, or go back"),
        Binding("ctrl+x", "cancel", "stop", id="pairs.cancel", tooltip="Stop its download", priority=True),
        Binding("ctrl+d", "make_default", "default", id="pairs.default", tooltip="Always open with it", priority=True),
        Binding("ctrl+a", "add", "another", id="pairs.add", tooltip="Add any repository or file", priority=True),
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
        self._wanted: str | None = None
        self._asked: str | None = None
        """The pair that enter was pressed on, and which the user was asked about."""
        self._opens = False
        """Whether the pair that is waited for is here, and the chat a moment away: what is typed is for its prompt."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Choose a pair of models")
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
        """After the first frame, which must not wait for the machine to be read."""
        self._pairs.begin()
        self._watch()

    # What the user does

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
            self.hint.say("This machine is still being looked at; what it can run is listed in a moment.")
        elif card is None:
            self.action_add()
        elif card.is_open and not card.lacks_draft:
            back = key("pairs.leave", "esc")
            self.hint.say(printable(f"The chat has {card.name} already; {back} goes back to it."))
        elif card.set_up:
            self._open(card.name)
        elif (job is not None and job.running) or (self._opens and card.name == self._wanted):
            self.hint.say(f"It is on its way; {key('pairs.cancel', 'ctrl+x')} stops it.")
        elif self._asked != card.name and (asks := question(card, job)):
            self._asked = card.name
            self.pairs.ask(asks)
        else:
            self._start(card, agreed=self._asked == card.name or (job is not None and job.stage is Stage.ASKING))

    @on(PairList.Changed)
    def _on_changed(self) -> None:
        # The list may say so after the key that was pressed behind the last letter.
        if self.pairs.card is None or self.pairs.card.name != self._asked:
            self._asked = None
        self.bars.show(self._job_to_show)
        self.refresh_bindings()

    def action_leave(self) -> None:
        # What was typed before it comes first.
        self.filter_input.action_tell("escape")

    def _go_back(self) -> None:
        """Take back what was done last: the question, the filter, coming here."""
        if self._asked is not None:
            self._asked = None
            self.pairs.ask("")
        elif self.filter_input.value:
            self.filter_input.value = ""
        elif self._can_leave:
            self.dismiss(None)
        else:
            choose, leave = key("pairs.choose", "enter"), key("app.quit", "ctrl+q")
            self.hint.say(f"There is no chat yet: choose a pair with {choose}; {leave} quits.")

    def action_cancel(self) -> None:
        card, job = self.pairs.card, self._job
        if card is not None and job is not None and job.running:
            self._wanted = None
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
            self.hint.say(printable(f"Tandem opens with {card.name} from now on."))
            self._watch()

    def action_add(self) -> None:
        # A key that is pressed twice asks twice before the first is seen.
        if self.app.screen is self:
            self.app.push_screen(AddPairScreen(self._pairs), self._added)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
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

    # What comes of it

    @property
    def _job(self) -> SetupProgress | None:
        """The set-up of the chosen pair."""
        return self._state.jobs.get(self.pairs.card.name) if self.pairs.card is not None else None

    @property
    def _job_to_show(self) -> SetupProgress | None:
        """The chosen pair's set-up if it has downloads, else one that goes on."""
        if self._job is not None and self._job.downloads and self._job.stage is not Stage.READY:
            return self._job
        return next((job for job in reversed(list(self._state.jobs.values())) if job.running and job.downloads), None)

    def _start(self, card: PairCard, *, agreed: bool) -> None:
        self._wanted, self._asked = card.name, None
        self._opens = card.here
        if card.here:
            self.filter_input.value = ""
            self.pairs.filter("")
        self.pairs.ask("")
        self._pairs.start(card.name, agreed=agreed)
        self._watch()

    async def _added(self, name: str | None) -> None:
        if name is not None:
            self._wanted = name
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
        """Look again soon, and on as long as something goes on."""
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
            # Widgets go while the program ends, perhaps in the middle of the line above.
            if self.is_running and self.app.is_running:
                raise
            return
        self._show_machine()
        self.bars.show(self._job_to_show)
        self.refresh_bindings()
        self._open_if_wanted()

    def on_resize(self) -> None:
        self._show_machine()

    def _show_machine(self) -> None:
        state, room = self._state, self.size.width - self.machine.gutter.width
        facts = f"This machine: {printable(state.machine)}".split(_BETWEEN)
        line = side_by_side(facts, room, _BETWEEN) if state.machine else "Looking at this machine"
        told = (Content(printable(one.sentences)) for one in state.troubles)
        self.machine.update(Content("\n").join([Content.styled(line, "$quiet"), *told]))

    def _open_if_wanted(self) -> None:
        """Open what was just set up, if it was waited for: nothing else is open, or nothing had to be downloaded."""
        job = self._state.jobs.get(self._wanted or "")
        if job is None or job.running:
            return
        name, self._wanted = self._wanted, None
        waited = not self._can_leave or not job.has_downloaded
        if job.stage is Stage.READY and waited and name is not None and self.is_current:
            self._open(name, job.note or default_text(self._state.cards, name))
        self._stay()

    def _stay(self) -> None:
        """Let the field be a filter again, without what was typed for a prompt that does not come."""
        if self._opens:
            self.filter_input.value = ""
        self._opens = False
