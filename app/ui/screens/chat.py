"""The chat screen: puts what the user does to the engine, and what the engine says on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Static

from app.chat.attached import joined, question_of
from app.chat.message import Role
from app.errors import UsageError
from app.request import AnswerRequest
from app.settings.desk import Desk
from app.ui.bridge import EventBridge
from app.ui.commands import as_said, as_typed, is_command
from app.ui.comparable import Comparable, comparable
from app.ui.conversation_facts import past_prompts
from app.ui.hearing import Hearing
from app.ui.keeping import Keeper
from app.ui.keys import KEYS, in_order
from app.ui.listener import Ears, Listener
from app.ui.notify import Attention
from app.ui.own_settings import OwnSettings
from app.ui.pair_changes import PairChanges
from app.ui.readouts import Readouts
from app.ui.screens.sturdy import SturdyScreen
from app.ui.sending import Sending
from app.ui.session import ChatSession, Phase
from app.ui.settings import ChatSettings
from app.ui.setups import Choice, PairService
from app.ui.shared_ears import SharedEars
from app.ui.steering import Steering
from app.ui.token_mode import TokenMode
from app.ui.whereabouts import Whereabouts
from app.ui.widgets.downloads import DownloadLine
from app.ui.widgets.even import Even
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint
from app.ui.widgets.included import IncludedLine
from app.ui.widgets.key_bar import KeyBar
from app.ui.widgets.messages import MessageList
from app.ui.widgets.prompt import PromptInput
from app.ui.widgets.readout_panel import ReadoutPanel
from app.ui.widgets.sidebar import Sidebar
from app.ui.widgets.speech import Speech
from app.ui.widgets.status import StatusLine
from app.ui.widgets.suggestions import Suggestions
from app.ui.widgets.way_list import WayList
from app.ui.widgets.workspace import Workspace

if TYPE_CHECKING:
    from app.ui.app import Engine
    from app.ui.widgets.conversation_picker import ConversationPicker

_DRAFT_S = 1.0
"""What is typed is kept after so long."""


class ChatScreen(SturdyScreen[None], Even):
    """One conversation with one pair.

    Args:
        engine: Answers.
        bridge: Where its events wait.
        settings: How answers are asked for.
        keeper: Keeps what is said.
        pairs: The pairs to choose from, or None.
        loads: Whether a pair is being loaded already.
        desk: The settings, or None.
    """

    AUTO_FOCUS = "PromptInput"
    BINDING_GROUP_TITLE = "Chat"
    BINDINGS: ClassVar[list[BindingType]] = KEYS
    # Rows are for the conversation where there are few.
    VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-high")]  # noqa: RUF012 - of the instance, for Textual

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    hint = query_one(Hint)
    workspace = query_one(Workspace)
    sidebar = query_one(Sidebar)
    panel = query_one(ReadoutPanel)
    prompt = query_one(PromptInput)
    included = query_one(IncludedLine)

    class EventsArrived(Message):
        """The engine has said something that should not wait."""

    class PairsWanted(Message):
        """The user wants to choose another pair."""

    class ConversationsWanted(Message):
        """The user wants to look for a conversation."""

    @dataclass
    class ComparisonWanted(Message):
        """The user wants to see a prompt answered with and without the draft."""

        what: Comparable

    class SettingsWanted(Message):
        """The user wants to see the settings."""

    def __init__(
        self,
        engine: Engine,
        bridge: EventBridge,
        settings: ChatSettings,
        keeper: Keeper,
        pairs: PairService | None = None,
        *,
        loads: bool = True,
        desk: Desk | None = None,
    ) -> None:
        super().__init__()
        self.session = ChatSession(settings, desk)
        self.own_settings = OwnSettings(self, keeper, desk)
        self._whereabouts = Whereabouts(self, keeper)
        self.status = Readouts()
        self._pairs = pairs
        self._engine = engine
        self._bridge = bridge
        self.keeper = keeper
        self._sending = Sending(self)
        self.tokens = TokenMode(self, engine)
        self._changes = PairChanges(engine, self.session, loads=loads)
        self._ears = SharedEars(Hearing(self, keeper, self._changes))
        self._listener = Listener(bridge, self._ears, self.set_timer)
        self.steering = Steering(self, keeper, self._start)
        self._draft_waits = False

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.session.settings.title)
        yield Workspace(self.keeper, self.status)
        if self._pairs is not None:
            yield DownloadLine(self._pairs)
        yield StatusLine(self.status)
        yield (menu := Suggestions())
        with Horizontal(id="entry"):
            yield Static("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}", id="mark")
            yield PromptInput(menu)
        yield IncludedLine()
        yield KeyBar()

    def on_mount(self) -> None:
        self.attention = Attention(self.app)
        self._bridge.connect(lambda: self.post_message(self.EventsArrived()))
        self.keeper.say = lambda text: self.call_later(self._warn, text)
        self.prompt.past.source = lambda: past_prompts(self.keeper)
        self.watch(self.messages, "scroll_y", self._on_scrolled, init=False)
        if self.session.phase is Phase.LOADING:
            self.status.reading_models()
        else:
            self.status.unloaded()
        self._listener.begin()

    async def _warn(self, text: str) -> None:
        await self.messages.notice(text)
        # A long answer has its notices out of sight.
        if self.messages.answer is not None:
            self.hint.ask(text)

    # What the user does

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        if self.steering.has_task:
            await self.steering.send(event.text)
            return
        self.prompt.past.add(event.text)
        if is_command(event.text):
            await self._sending.do(event.text)
            return
        if refusal := self.session.refusal:
            self.prompt.restore(event.text)
            unloaded = self.session.phase is Phase.UNLOADED and self._pairs is not None
            self.hint.say("No model is loaded; f6 chooses one." if unloaded else refusal)
            return
        text = await self.compose_message(event.text)
        if text is None:
            return
        # Asked before anything else is awaited, so that no key in between can ask for something else.
        loading = self.session.phase is Phase.LOADING
        if loading:
            self.session.waiting = text
        else:
            self.ask(text)
        answer = await self.messages.ask(text)
        self.hint.unseen(False)
        if loading:
            answer.note("waits for the models")
            self.refresh_bindings()

    async def compose_message(self, text: str, *, give_back: bool = True) -> str | None:
        """See `Sending.message`."""
        return await self._sending.message(text, give_back=give_back)

    def action_stop(self) -> None:
        if self.session.phase is Phase.ANSWERING:
            self.status.stopping()
            self.cancel()
        else:
            self.call_later(self.take_back)

    # Keys arrive beside the screen's own messages; what they change must wait its turn behind an answer's text.

    def action_again(self) -> None:
        self.call_later(self._again)

    def action_go_on(self) -> None:
        self.call_later(self.steering.go_on)

    def action_leave_task(self) -> None:
        self.steering.leave()

    def action_choose(self) -> None:
        self.call_later(self.messages.step, -1)

    @on(Speech.Clicked)
    def _choose(self, event: Speech.Clicked) -> None:
        self.messages.choose(event.speech)

    @on(Speech.Wished)
    async def _steer(self, event: Speech.Wished) -> None:
        await self.steering.grant(event.speech, event.wish)

    def action_restart(self) -> None:
        self.call_later(self._whereabouts.begin_anew)

    def action_conversations(self) -> None:
        if self.sidebar.has_focus_within or not self.sidebar.search():
            self.post_message(self.ConversationsWanted())

    def action_compare(self) -> None:
        self.call_later(self._compare)

    async def _compare(self) -> None:
        # What is written for something else than a prompt is not asked.
        typed = "" if self.steering.has_task else self.prompt.whole.strip()
        message = await self._sending.message(typed, give_back=False) if typed else ""
        if message is None:
            return
        try:
            self.post_message(self.ComparisonWanted(comparable(self.session, message)))
        except UsageError as error:
            self.hint.say(error.message)

    async def _again(self) -> None:
        if not self.session.can_ask_again:
            return
        self.steering.leave()
        if as_said(self.prompt.text.strip()) == question_of(self.session.asked or ""):
            self.prompt.clear()
        request = self.session.ask_again()
        self.keeper.again()
        self._start(request)
        await self.messages.ask_again()
        self.hint.unseen(False)

    async def open_conversation(self, conversation: int | None) -> None:
        """See `Whereabouts.open`."""
        await self._whereabouts.open(conversation)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Go on with the conversation that was found, and show the message; None stays."""
        await self.open_conversation(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self.messages.seek(found.message)

    @on(Suggestions.Clicked)
    def _complete(self, event: Suggestions.Clicked) -> None:
        self.prompt.choose(event.suggestion)

    async def action_copy_answer(self) -> None:
        await self._sending.do("/copy", give_back=False)

    async def action_copy_code(self) -> None:
        await self._sending.do("/copy code", give_back=False)

    # What stands beside the conversation

    def action_toggle_sidebar(self) -> None:
        if self.sidebar.has_focus_within:
            self.prompt.focus()
        self.workspace.toggle_sidebar()

    def action_toggle_panel(self) -> None:
        self.workspace.toggle_panel()

    @on(Sidebar.Left)
    def _leave_sidebar(self) -> None:
        self.prompt.focus()

    # Named, not declared: the sidebar is filled after the first frame, and the picker imported then.

    async def on_conversation_picker_chosen(self, event: ConversationPicker.Chosen) -> None:
        self.prompt.focus()
        await self.open_found(event)

    async def on_conversation_picker_changed(self) -> None:
        await self.open_conversation(None)

    @on(PromptInput.Changed)
    def _on_typed(self) -> None:
        pair = self.session.pair
        self.included.look(self.prompt.text, self.prompt.pastes, pair.n_ctx if pair is not None else None)
        if self.tokens.on:
            self.refresh_bindings()
        if not self._draft_waits:
            self._draft_waits = True
            self.set_timer(_DRAFT_S, self._keep_draft)

    def _keep_draft(self) -> None:
        self._draft_waits = False
        self.keeper.draft(self.unsent)

    @property
    def unsent(self) -> str:
        """What was typed and has not been put to the model."""
        if self.steering.unsent is not None:
            return self.steering.unsent
        if self.session.waiting is None:
            return self.prompt.whole
        return as_typed(joined(self.session.waiting, self.prompt.whole))

    @property
    def last_answer(self) -> str:
        """The newest answer, as far as it is there; empty without one."""
        shown = self.messages.answer.text.strip() if self.messages.answer is not None else ""
        said = (message.content for message in reversed(self.session.said) if message.role is Role.ASSISTANT)
        return shown or next(said, "")

    def action_toggle_drafting(self) -> None:
        session = self.session
        if not session.can_draft:
            self.hint.say(session.why_plain)
            return
        session.drafting = not session.drafting
        self.show_source()
        if session.phase is Phase.ANSWERING:
            self.hint.say(f"The next answer is {'drafted' if session.drafting else 'decoded plainly'}.")

    def action_pairs(self) -> None:
        for line in self.query(DownloadLine):
            line.stop()
        self.post_message(self.PairsWanted())

    def action_settings(self) -> None:
        self.post_message(self.SettingsWanted())

    async def change_pair(self, choice: Choice) -> None:
        """Load another pair; a running answer is stopped first, and the conversation stays."""
        self._changes.want(choice)
        if self.session.phase is Phase.ANSWERING:
            self.action_stop()
        else:
            await self.load_next()

    def watch_downloads(self) -> None:
        """Show how downloads go, until they have ended."""
        for line in self.query(DownloadLine):
            line.watch_downloads()

    async def load_next(self) -> None:
        """Load the pair that is wanted, if another one is."""
        title = self._changes.begin()
        if title is None:
            return
        await self.query(WayList).remove()
        await self.header.remove()
        await self.mount(HeaderLine(title), before=0)
        self.panel.show_pair(None)
        self.status.reading_models()
        self._listener.begin()
        self.refresh_bindings()

    def show_ways(self) -> None:
        """Let keys take a way out of a pair that does not fit, if there is one."""
        for ways in self.query(WayList):
            ways.focus()

    @on(WayList.Taken)
    async def _take_way(self, event: WayList.Taken) -> None:
        self.prompt.focus()
        await self.messages.notice(f"Taken: {event.way.what}.")
        await self.change_pair(event.choice)

    @on(WayList.Left)
    def _leave_ways(self, event: WayList.Left) -> None:
        self.prompt.focus()
        self.prompt.insert(event.text)

    def action_toggle_thinking(self) -> None:
        self.messages.open_thoughts()

    def action_toggle_tokens(self) -> None:
        self.call_later(self.tokens.toggle)

    def action_round(self, by: int) -> None:
        self.tokens.step(by)

    def action_suspend(self) -> None:
        self.app.action_suspend_process()

    def action_page(self, direction: int) -> None:
        self.messages.page(direction)

    def action_beginning(self) -> None:
        self.messages.go_to_beginning()

    def action_follow(self) -> None:
        self.messages.anchor()
        self.hint.unseen(False)

    def _on_scrolled(self) -> None:
        if self.messages.is_vertical_scroll_end:
            self.hint.unseen(False)

    @on(Hint.Followed)
    def _follow(self) -> None:
        self.action_follow()

    @on(Hint.Wanted)
    def _hint(self, event: Hint.Wanted) -> None:
        self.hint.say(event.text)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return in_order(super().active_bindings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        if action == "leave_task":
            return self.steering.has_task
        if action == "stop":
            return self.session.phase is Phase.ANSWERING or self.session.waiting is not None or None
        if action == "again":
            return self.session.can_ask_again or None
        if action == "round":
            # Elsewhere the keys move through what is typed.
            return self.tokens.on and self.prompt.has_focus and not self.prompt.text
        if action in ("page", "suspend"):
            # The sidebar has these keys for itself.
            return self.focused is None or not any(isinstance(each, Sidebar) for each in self.focused.ancestors)
        if action == "pairs":
            return self._pairs is not None
        if action in ("conversations", "toggle_sidebar"):
            return self.keeper.keeps
        if action == "settings":
            return self.own_settings.can_change
        return True

    # What the engine says is told to `app.ui.hearing`

    def lend_ears(self, guest: Ears | None) -> None:
        """Let a screen on top of this one hear what the engine says about its own requests; None ends it."""
        self._ears.guest = guest
        self._listener.begin()

    @on(EventsArrived)
    async def _on_events(self) -> None:
        await self._listener.listen()

    # What both lead to

    def ask(self, prompt: str) -> None:
        """Put a prompt to the engine."""
        request = self.session.ask(prompt)
        self.keeper.ask(prompt, self.session.said)
        self._start(request)

    def _start(self, request: AnswerRequest) -> None:
        self.hint.forget()
        self.tokens.begin()
        self.status.begin()
        self.attention.begin()
        self.session.started(self._engine.answer(request))
        self._listener.begin()
        self.sidebar.look_again()
        self.refresh_bindings()

    def cancel(self) -> None:
        """Stop the running answer, if there is one; what came of it stays."""
        if self.session.phase is Phase.ANSWERING:
            self._engine.cancel()

    async def take_back(self) -> None:
        """Return a prompt that waits for the models, if there is one, to the user."""
        prompt, self.session.waiting = self.session.waiting, None
        if prompt is not None:
            await self.messages.take_back()
            self.prompt.give_back(prompt)
            self.refresh_bindings()

    def show_ready(self) -> None:
        """Say that a prompt may come, if it may."""
        if self.session.pair is not None:
            self.status.ready(self.session.pair.n_ctx)

    def show_source(self) -> None:
        """Say what the next answer is drafted by."""
        self.status.source(self.session.source, drafting=self.session.is_drafting, n_max=self.session.n_max)
