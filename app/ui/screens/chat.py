"""The chat screen: puts what the user does to the engine, and what the engine says on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import ActiveBinding, BindingType
from textual.message import Message

from app.session.chat_settings import ChatSettings
from app.session.keeper import Keeper
from app.settings.live import LiveSettings
from app.ui.base_screen import BaseScreen
from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.counting import Counting
from app.ui.chat.draft_switch import DraftSwitch
from app.ui.chat.elsewhere import Elsewhere
from app.ui.chat.file_reading import FileReading
from app.ui.chat.hearing import Hearing
from app.ui.chat.own_settings import OwnSettings
from app.ui.chat.pair_changes import PairChanges
from app.ui.chat.pair_loading import PairLoading
from app.ui.chat.pair_notice import PairNotice
from app.ui.chat.possible import Possible
from app.ui.chat.sending import Sending
from app.ui.chat.session import ChatSession, Phase
from app.ui.chat.steering import Steering
from app.ui.chat.tasks import Tasks
from app.ui.chat.token_mode import TokenMode
from app.ui.chat.unsent import Unsent
from app.ui.chat.wanted import ConversationsWanted, PairsWanted, SettingsWanted
from app.ui.chat.whereabouts import Whereabouts
from app.ui.composer.input import PromptInput
from app.ui.composer.past_prompts import kept_prompts
from app.ui.composer.suggestions import Suggestions
from app.ui.conversations.sidebar import Sidebar
from app.ui.keys.chat_keys import KEYS, SHOWN_FIRST, SHOWN_WITHOUT_MODELS
from app.ui.keys.order import in_order
from app.ui.listening.bridge import EventBridge
from app.ui.listening.listener import Ears, Listener
from app.ui.listening.shared_ears import SharedEars
from app.ui.models.fit_options import FitOptionList
from app.ui.models.state import PairService
from app.ui.terminal.attention import Attention
from app.ui.transcript.speech import Speech
from app.ui.widgets.even import Even
from app.ui.widgets.hint import Hint
from app.ui.widgets.near_draw import NearCompositor

if TYPE_CHECKING:
    from app.session.engine import Engine
    from app.ui.conversations.picker import ConversationPicker


class ChatScreen(BaseScreen[None], BareChatScreen, Even):
    """One conversation with one pair.

    Args:
        engine: Answers.
        bridge: Where its events wait.
        settings: How answers are asked for.
        keeper: Keeps what is said.
        pairs: The pairs to choose from, or None.
        loads: Whether a pair is being loaded already.
        live: The settings, or None.
    """

    AUTO_FOCUS = "PromptInput"
    BINDING_GROUP_TITLE = "Chat"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    class EventsArrived(Message):
        """The engine has said something that should not wait."""

    def __init__(
        self,
        engine: Engine,
        bridge: EventBridge,
        settings: ChatSettings,
        keeper: Keeper,
        pairs: PairService | None = None,
        *,
        loads: bool = True,
        live: LiveSettings | None = None,
    ) -> None:
        super().__init__(ChatSession(settings, live, has_pairs=pairs is not None), keeper, pairs)
        self._compositor = NearCompositor()
        self._bridge = bridge
        self.tokens = TokenMode(self, engine)
        self.draft_switch = DraftSwitch(self, engine)
        self.own_settings = OwnSettings(self, keeper, live, self.draft_switch)
        self.tasks = Tasks(self)
        self._unsent = Unsent(self, keeper, self.tasks)
        self.asking = Asking(self, engine, keeper, self.tasks, self._unsent)
        self._elsewhere = Elsewhere(self, keeper, self.tasks)
        self.reading = FileReading(self)
        self.sending = Sending(
            self,
            self.asking,
            self.tasks,
            self._elsewhere,
            self.reading,
            lambda command, argument: command.run(self, argument),
        )
        self.steering = Steering(self, keeper, self.asking, self.sending, self.tasks)
        changes = PairChanges(engine, self.session, loads=loads)
        self.pair_loading = PairLoading(self, changes, self.asking)
        pair_notice = PairNotice(self, keeper)
        self.whereabouts = Whereabouts(
            self,
            keeper,
            self.asking,
            self.tasks,
            self._unsent,
            self.own_settings,
            self.pair_loading,
            self.reading,
            pair_notice,
        )
        self._is_possible = Possible(self, keeper, self.tasks, self.tokens, self.own_settings)
        self._counting = Counting(self, engine)
        self._ears = SharedEars(
            Hearing(
                self,
                keeper,
                changes,
                self.asking,
                self.tokens,
                self.draft_switch,
                self.pair_loading,
                self._counting,
                pair_notice,
            )
        )
        self.listener = Listener(bridge, self._ears, self.set_timer)

    def on_mount(self) -> None:
        self.attention = Attention(self.app)
        self._bridge.connect(lambda: self.post_message(self.EventsArrived()))
        self.keeper.say = lambda text: self.call_later(self._warn, text)
        self.included.count = self._counting.ask
        self.prompt.past.source = lambda: kept_prompts(self.keeper)
        self.prompt.past.keep = self.keeper.set_aside
        self.watch(self.messages, "scroll_y", self._on_scrolled, init=False)
        self.watch(self.app, "app_focus", self._on_looked_at, init=False)
        if self.session.phase is Phase.LOADING:
            self.status.reading_models()
        else:
            self.status.unloaded()
        self.listener.begin()

    async def _warn(self, text: str) -> None:
        await self.messages.notice(text)
        # A long answer has its notices out of sight.
        if self.messages.answer is not None:
            self.hint.ask(text)

    # What the user does

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        await self.sending.send(event.text)

    def action_stop(self) -> None:
        if not (self.reading.take_back() or self.asking.stop()):
            self.call_later(self.asking.take_back)

    # Keys arrive beside the screen's own messages; what they change must wait its turn behind an answer's text.

    def action_again(self) -> None:
        self.call_later(self.asking.again)

    def action_edit_last(self) -> None:
        self.call_later(self.steering.edit_last)

    def action_go_on(self) -> None:
        self.call_later(self.steering.go_on)

    def action_leave_task(self) -> None:
        self.tasks.leave()

    def action_choose(self) -> None:
        self.call_later(self.messages.step, -1)

    @on(Speech.Clicked)
    def _choose(self, event: Speech.Clicked) -> None:
        self.messages.choose(event.speech)

    @on(Speech.Wished)
    async def _steer(self, event: Speech.Wished) -> None:
        await self.steering.grant(event.speech, event.wish)

    def action_restart(self) -> None:
        self.call_later(self.whereabouts.begin_anew)

    def action_conversations(self) -> None:
        if self.sidebar.has_focus_within or not self.sidebar.search():
            self.post_message(ConversationsWanted())

    def action_compare(self) -> None:
        self.call_later(self.sending.compare)

    async def open_conversation(self, conversation: int | None) -> None:
        """See `Whereabouts.open`."""
        await self.whereabouts.open(conversation)

    @on(Suggestions.Clicked)
    def _complete(self, event: Suggestions.Clicked) -> None:
        self.prompt.choose(event.suggestion)

    async def action_copy_answer(self) -> None:
        await self.sending.do("/copy")

    async def action_copy_code(self) -> None:
        await self.sending.do("/copy code")

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
        await self.whereabouts.open_found(event)

    async def on_conversation_picker_changed(self) -> None:
        await self.open_conversation(None)

    @on(PromptInput.Changed)
    def _on_typed(self) -> None:
        self.tell_included()
        if self.tokens.on:
            self.refresh_bindings()
        self._unsent.changed()

    @property
    def unsent(self) -> str:
        """Text that was typed and not sent."""
        return self._unsent.text

    def take_up(self, text: str) -> None:
        """Go on with what the last run left typed; what was typed since then stands behind it."""
        if text:
            self.prompt.put(f"{text}{self.prompt.whole}")

    def action_toggle_drafting(self) -> None:
        self.draft_switch.toggle()

    def action_pairs(self) -> None:
        self.pair_loading.stop_watching()
        self.post_message(PairsWanted())

    def action_settings(self) -> None:
        self.post_message(SettingsWanted())

    @on(FitOptionList.Taken)
    async def _take_way(self, event: FitOptionList.Taken) -> None:
        await self.pair_loading.take(event.option, event.request)

    @on(FitOptionList.Left)
    def _leave_ways(self, event: FitOptionList.Left) -> None:
        self.prompt.focus()
        self.prompt.insert(event.text)

    def action_toggle_thinking(self) -> None:
        self.messages.open_thoughts()

    def action_toggle_tokens(self) -> None:
        self.call_later(self.tokens.toggle)

    def action_round(self, by: int) -> None:
        self.tokens.step(by)

    def action_page(self, direction: int) -> None:
        self.messages.page(direction)

    def action_beginning(self) -> None:
        self.messages.go_to_beginning()

    def action_follow(self) -> None:
        self.messages.anchor()
        self.hint.unseen(False)

    def _on_looked_at(self, focus: bool) -> None:
        """The user comes back to this terminal, from another Tandem perhaps."""
        if focus:
            self.call_later(self._elsewhere.look)

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
        first = SHOWN_WITHOUT_MODELS if self.session.phase is Phase.UNLOADED else SHOWN_FIRST
        return in_order(super().active_bindings, first, self._is_possible.idle_keys)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        return self._is_possible(action)

    # What the engine says is told to `app.ui.chat.hearing`

    def lend_ears(self, guest: Ears | None) -> None:
        """Let a screen on top of this one hear what the engine says about its own requests; None ends it."""
        self._ears.guest = guest
        self.listener.begin()

    @on(EventsArrived)
    async def _on_events(self) -> None:
        await self.listener.listen()
