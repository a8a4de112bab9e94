"""The setup screen: this machine, pairs that it can run, and downloads."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from app.core.errors import AppError, FileChangedError
from app.models.setup_task import SetupProgress, Stage
from app.session.session import Session
from app.session.state import Phase
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.key_names import for_pairs, key
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.downloads import UPDATE_S, DownloadBars
from app.ui.models.pair_list import PairList, question_before_setup
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, PairCard, PairsState
from app.ui.text import side_by_side
from app.ui.widgets.inputs import FilterInput, SearchLine

EXPLANATION = "A big model answers; a small draft model makes it faster."
_FACT_SEPARATOR = " · "


class SetupScreen(SubScreen[LoadRequest | None]):
    """Choose a pair; the result is a request to load it, or None to return to the chat, if a pair was chosen before."""

    HEADING = "Choose a pair"
    AUTO_FOCUS = "FilterInput"
    CSS_PATH = "setup.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("pairs.leave", "pairs.add", "pairs.default", "pairs.cancel")

    machine = query_one("#machine", Static)
    filter_input = query_one(FilterInput)
    pairs = query_one(PairList)
    bars = query_one(DownloadBars)

    def __init__(self, pairs: PairService, session: Session, words: str = "") -> None:
        super().__init__()
        self._service, self._session, self._words = pairs, session, words
        self._can_leave = session.has_asked_for_pair
        self._takes_soon = False
        """Whether enter was pressed before the pairs were known."""
        self._awaited: str | None = None
        """Pair that opens when its setup ends."""

    def compose_body(self) -> ComposeResult:
        yield Static(id="machine")
        yield SearchLine(FilterInput("type to filter", "pairs.choose"))
        yield PairList()
        yield DownloadBars()

    def on_mount(self) -> None:
        self._timer = self.set_interval(UPDATE_S, self._update, pause=True)
        self._show(self._service.state())
        self.filter_input.value = self._words
        self.call_after_refresh(self._inspect_machine)

    def _inspect_machine(self) -> None:
        self._service.refresh()
        self._timer.resume()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._takes_soon = False
        self.pairs.filter(event.value)

    @on(FilterInput.Pressed)
    def _press(self, event: FilterInput.Pressed) -> None:
        if event.key == "escape":
            self._go_back()
        else:
            self._take()

    @on(PairList.Selected)
    def _take(self) -> None:
        card, setup = self.pairs.row, self._setup
        if card is None and not self.pairs.state.machine:
            self._takes_soon = True
            self.hint.say("Still checking this machine; the chosen pair opens in a moment.")
        elif card is None:
            self.action_add()
        elif card.is_open:
            self.dismiss(None)
        elif card.set_up and self._is_answering and not self.pairs.question:
            after, now = key("pairs.choose"), key("pairs.cancel")
            self.pairs.ask(f"An answer is being written. {after} opens this pair after it, {now} stops it first.")
        elif card.set_up:
            self._open(card.name)
        elif setup is not None and setup.running:
            self.hint.say(f"Already running; {key('pairs.cancel')} stops it.")
        elif not self.pairs.question and (question := question_before_setup(card, setup)):
            self.pairs.ask(question)
        elif setup is not None and isinstance(setup.error, FileChangedError):
            # The size of the current file comes first.
            self._set_up(card, latest=True)
        else:
            self._set_up(card, confirmed=bool(self.pairs.question) or setup is not None)

    @on(PairList.Changed)
    def _on_changed(self) -> None:
        self.bars.setup = self._setup

    def action_leave(self) -> None:
        # Earlier typed characters come first.
        self.filter_input.action_forward("escape")

    def _go_back(self) -> None:
        """Undo the last step: the question, the filter, or opening this screen."""
        if self.pairs.question:
            self.pairs.ask(None)
        elif self.filter_input.value:
            self.filter_input.value = ""
        elif self._can_leave:
            self.dismiss(None)
        else:
            choose, leave = key("pairs.choose"), key("app.quit")
            self.hint.say(f"Choose a pair with {choose}; {leave} quits.")

    def action_cancel(self) -> None:
        card, setup = self.pairs.row, self._setup
        if card is not None and self._asks_to_stop:
            self._open(card.name, stops=True)
        elif card is not None and setup is not None and setup.running:
            self._awaited = None
            self._service.cancel_setup(card.name)
            self._timer.resume()

    def action_make_default(self) -> None:
        card = self.pairs.row
        if card is None:
            return
        try:
            self._service.make_default(card.name)
        except AppError as error:
            self.hint.say(for_pairs(error.sentences))
        else:
            self.hint.say(f"Tandem now opens with {card.name}.")
            self._timer.resume()

    def action_add(self) -> None:
        # A key pressed twice would open two screens.
        if self.app.screen is self:
            self.app.push_screen(AddPairScreen(self._service), self._on_added)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim keys that would do nothing."""
        match action:
            case "cancel":
                return (self._setup is not None and self._setup.running) or self._asks_to_stop or None
            case "make_default":
                return (self.pairs.row is not None and self.pairs.row.set_up) or None
        return super().check_action(action, parameters)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        bindings = super().active_bindings
        return {key: one for key, one in bindings.items() if self._can_leave or one.binding.id != "pairs.leave"}

    @property
    def _is_answering(self) -> bool:
        return self._session.phase is Phase.ANSWERING

    @property
    def _asks_to_stop(self) -> bool:
        """Return whether the screen asks to stop the running answer before it loads another pair."""
        card = self.pairs.row
        return bool(self.pairs.question) and card is not None and card.set_up and self._is_answering

    @property
    def _setup(self) -> SetupProgress | None:
        return self.pairs.state.setups.get(self.pairs.row.name) if self.pairs.row is not None else None

    def _set_up(self, card: PairCard, *, confirmed: bool = False, latest: bool = False) -> None:
        self._awaited = card.name
        self.pairs.ask(None)
        self._service.set_up(card.name, confirmed=confirmed, latest=latest)
        self._timer.resume()

    def _on_added(self, name: str | None) -> None:
        if name is not None:
            self._awaited = name
            self.filter_input.value = ""
            self.pairs.filter("")
            self._show(self._service.state())
            self.pairs.choose_pair(name)
            self._timer.resume()

    def _open(self, name: str, *, stops: bool = False, is_new: bool = False) -> None:
        try:
            request = self._service.load_request(name)
        except AppError as error:
            self.hint.say(for_pairs(error.sentences))
        else:
            is_default = any(card.is_default for card in self.pairs.state.cards if card.name == name)
            self.dismiss(replace(request, stops=stops, is_new_default=is_new and is_default))

    def _update(self) -> None:
        state = self._service.state()
        if not state.busy:
            self._timer.pause()
        self._show(state)

    def _show(self, state: PairsState) -> None:
        self.pairs.show(state)
        self._show_machine()
        self._open_if_awaited()
        if self._takes_soon and state.machine:
            self._takes_soon = False
            if self.pairs.row is not None:
                self._take()

    def on_resize(self) -> None:
        self._show_machine()

    def _show_machine(self) -> None:
        state, room = self.pairs.state, self.size.width - self.machine.gutter.width
        facts = f"This machine: {for_pairs(state.machine or '')}".split(_FACT_SEPARATOR)
        line = side_by_side(facts, room, _FACT_SEPARATOR) if state.machine else "Checking this machine …"
        problems = (Content(for_pairs(one.sentences)) for one in state.problems)
        explanation = [] if self._can_leave else [Content(EXPLANATION)]
        self.machine.update(Content("\n").join([*explanation, Content.styled(line, "$quiet"), *problems]))

    def _open_if_awaited(self) -> None:
        setup = self.pairs.state.setups.get(self._awaited or "")
        if setup is None or setup.running:
            return
        name, self._awaited = self._awaited, None
        may_open = not self._can_leave or not setup.has_downloaded
        if setup.stage is Stage.READY and may_open and name is not None and self.is_current:
            self._open(name, is_new=True)
