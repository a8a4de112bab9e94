"""The chat screen: keys become commands of the session, its snapshot is drawn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import ActiveBinding, BindingType
from textual.message import Message

from app.core.errors import AppError
from app.session.session import Session
from app.session.snapshot import Phase
from app.ui.base_screen import BaseScreen
from app.ui.chat.actions import ChatActions
from app.ui.chat.base import ChatBase
from app.ui.chat.events import ChatEvents
from app.ui.chat.input_mode import InputMode
from app.ui.chat.prompt_sender import PromptSender
from app.ui.chat.renderer import Renderer
from app.ui.commands.table import COMMANDS
from app.ui.composer.completion import Suggestions
from app.ui.composer.input import PromptInput
from app.ui.conversations.sidebar import Sidebar
from app.ui.event_queue import EventDispatcher, EventHandler, EventQueue
from app.ui.keys import CHAT_KEYS, SHOWN_FIRST, SHOWN_WITHOUT_MODELS, in_order
from app.ui.models.downloads import DownloadLines
from app.ui.models.fit_options import FitOptionList
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, Tuning
from app.ui.themes import apply_appearance
from app.ui.transcript.message_view import MessageView
from app.ui.widgets.hint import Hint

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class ChatScreen(BaseScreen[None], ChatBase):
    """One conversation with one pair. Other screens are imported when they are opened.

    Args:
        session: The chat.
        queue: Holds the events of its worker.
        pairs: The pairs to choose from; None without a choice.
        tuning: The settings; None leaves them as at the start.
    """

    AUTO_FOCUS = "PromptInput"
    BINDING_GROUP_TITLE = "Chat"
    BINDINGS: ClassVar[list[BindingType]] = CHAT_KEYS

    class EventsArrived(Message):
        """An event arrived that should not wait."""

    def __init__(
        self, session: Session, queue: EventQueue, pairs: PairService | None = None, tuning: Tuning | None = None
    ) -> None:
        super().__init__(session, pairs)
        self.input_mode = InputMode(self)
        self.renderer = Renderer(self, self.input_mode.store_soon)
        self.sender = PromptSender(
            self, self.renderer, self.input_mode, lambda command, argument: command.run(self, argument)
        )
        self.actions = ChatActions(self, self.renderer, self.sender, self.input_mode)
        self._queue = queue
        self._tuning = tuning
        events = ChatEvents(self, self.renderer, self.input_mode)
        self.dispatcher = EventDispatcher(queue, events, self.set_timer)

    def on_mount(self) -> None:
        self._queue.connect(lambda: self.post_message(self.EventsArrived()))
        self.session.library.say = lambda text: self.call_later(self._warn, text)
        self.watch(self.messages, "scroll_y", self._on_scrolled, init=False)
        self.renderer.begin()

    @property
    def _is_on_top(self) -> bool:
        # `is_current` also holds below a screen that is not drawn yet.
        return self.app.screen is self

    async def _warn(self, text: str) -> None:
        await self.messages.notice(text)
        # A long answer has its notices out of sight.
        if self.messages.answer is not None:
            self.hint.ask(text)

    async def attempt(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run an action, or say why it cannot be done."""
        try:
            await action(*arguments)
        except AppError as error:
            self.hint.say(error.sentences)

    # Prompts and messages. Keys arrive beside the screen's own messages; what they change waits its turn.

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        await self.sender.send(event.text)

    def action_stop(self) -> None:
        if not self.stop_answer():
            self.call_later(self._take_back)

    def stop_answer(self) -> bool:
        """Stop the running answer, whose text stays; return whether there is one."""
        stops = self.session.stop()
        if stops:
            self.status.stopping()
        return stops

    async def _take_back(self) -> None:
        prompt = self.session.take_back()
        if prompt is not None:
            await self.renderer.render()
            self.input_mode.give_back(COMMANDS.as_typed(prompt))

    def action_again(self) -> None:
        self.call_later(self.attempt, self.actions.regenerate)

    def action_edit_last(self) -> None:
        self.call_later(self.attempt, self.actions.edit_last)

    def action_go_on(self) -> None:
        self.call_later(self.attempt, self.actions.resume)

    def action_leave_task(self) -> None:
        self.input_mode.leave()

    def action_choose(self) -> None:
        self.call_later(self.messages.step, -1)

    @on(MessageView.Clicked)
    def _choose(self, event: MessageView.Clicked) -> None:
        self.messages.choose(event.message_view)

    @on(MessageView.ActionRequested)
    async def _perform(self, event: MessageView.ActionRequested) -> None:
        await self.attempt(self.actions.perform, event.message_view, event.requested)

    async def action_copy_answer(self) -> None:
        await self.attempt(self.sender.run_line, "/copy")

    async def action_copy_code(self) -> None:
        await self.attempt(self.sender.run_line, "/copy code")

    @on(PromptInput.Changed)
    def _on_typed(self) -> None:
        if self.shows_tokens:
            self.refresh_bindings()
        self.input_mode.store_soon()

    @property
    def pending_text(self) -> str:
        """Typed text that was not sent."""
        return self.input_mode.pending_text

    def restore_typed(self, text: str) -> None:
        """Put what the last run left in the input line in front of what was typed since."""
        if text:
            self.prompt.put(f"{text}{self.prompt.whole}")

    @on(Suggestions.Clicked)
    def _complete(self, event: Suggestions.Clicked) -> None:
        self.prompt.choose(event.suggestion)

    # Conversations

    def action_restart(self) -> None:
        self.call_later(self.actions.new_conversation)

    def action_conversations(self) -> None:
        if self.sidebar.has_focus_within or not self.sidebar.search():
            self._find_conversation()

    def _find_conversation(self) -> None:
        if self.library.is_open and self._is_on_top:
            from app.ui.conversations.picker import ConversationsScreen

            self.app.push_screen(ConversationsScreen(self.library), self.open_found)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Open the conversation that was found, at the message that was found; None stays."""
        await self.attempt(self.actions.open_found, found)

    async def open_conversation(self, conversation: int | None) -> None:
        """Open another conversation; None stays, unless the open one was deleted."""
        await self.actions.open(conversation)

    def action_toggle_sidebar(self) -> None:
        if self.sidebar.has_focus_within:
            self.prompt.focus()
        self.workspace.toggle_sidebar()

    @on(Sidebar.Left)
    def _leave_sidebar(self) -> None:
        self.prompt.focus()

    # Named, not declared: the sidebar is filled after the first frame, and the picker imported then.

    async def on_conversation_picker_chosen(self, event: ConversationPicker.Chosen) -> None:
        self.prompt.focus()
        await self.open_found(event)

    async def on_conversation_picker_changed(self) -> None:
        await self.open_conversation(None)

    # Models and settings

    def action_toggle_drafting(self) -> None:
        self.actions.toggle_drafting()

    def action_pairs(self) -> None:
        if self._pairs is None or not self._is_on_top:
            return
        from app.ui.models.setup_screen import SetupScreen

        for lines in self.query(DownloadLines):
            lines.stop()
        can_leave = self.session.snapshot.loads > 0
        self.app.push_screen(SetupScreen(self._pairs, can_leave=can_leave), self._take_pair)

    async def _take_pair(self, choice: LoadRequest | None) -> None:
        if choice is not None:
            await self.load_pair(choice)
        for lines in self.query(DownloadLines):
            lines.watch_downloads()

    def action_settings(self) -> None:
        if self._tuning is None or not self._is_on_top:
            return
        from app.ui.settings.screen import SettingsScreen

        themes = sorted(self.app.available_themes)
        can_load = self.session.phase is Phase.UNLOADED or self.session.lacks_draft
        live, pair = self._tuning.live, self.session.pair
        self.app.push_screen(
            SettingsScreen(live, themes, self._apply_settings, pair, can_load=can_load), self._leave_settings
        )

    def _apply_settings(self) -> None:
        """Use changed settings at once, as the user may quit from there."""
        if self._tuning is not None:
            apply_appearance(self.app, self._tuning.live)
        self.actions.settings_changed()

    async def _leave_settings(self, reload: bool | None) -> None:
        self.actions.settings_changed()
        if reload and self._tuning is not None:
            try:
                await self.load_pair(self._tuning.reopen())
            except AppError as error:
                self.session.library.say(error.sentences)

    def action_compare(self) -> None:
        self.call_later(self.attempt, self._compare)

    async def _compare(self) -> None:
        what = await self.sender.comparison()
        if self._is_on_top:
            from app.ui.compare.screen import CompareScreen

            self.app.push_screen(CompareScreen(self.session.engine, what, self.route_events))

    @on(FitOptionList.Selected)
    async def _take_option(self, event: FitOptionList.Selected) -> None:
        self.prompt.focus()
        await self.messages.notice(f"Taken: {event.option.what}.")
        await self.load_pair(event.request)

    async def load_pair(self, choice: LoadRequest) -> None:
        """Load another pair; a running answer is stopped first."""
        if self.session.phase is Phase.ANSWERING:
            self.status.stopping()
        self.session.load(choice.loader, choice.settings)
        await self.renderer.render()

    @on(FitOptionList.Left)
    def _leave_options(self, event: FitOptionList.Left) -> None:
        self.prompt.focus()
        self.prompt.insert(event.text)

    # The view

    def action_toggle_panel(self) -> None:
        self.workspace.toggle_panel()

    def action_toggle_thinking(self) -> None:
        self.messages.open_thoughts()

    def action_toggle_tokens(self) -> None:
        self.call_later(self._toggle_tokens)

    async def _toggle_tokens(self) -> None:
        self.shows_tokens = not self.shows_tokens
        # Probabilities are computed only while somebody looks.
        self.session.engine.inspect(self.shows_tokens)
        self.inspector.open(self.shows_tokens)
        self.refresh_bindings()
        await self.messages.show_tokens(self.shows_tokens)

    def action_round(self, by: int) -> None:
        self.inspector.step(by)

    def action_page(self, direction: int) -> None:
        self.messages.page(direction)

    async def action_beginning(self) -> None:
        await self.messages.go_to_beginning()

    async def action_follow(self) -> None:
        await self.messages.follow_end()
        self.hint.unseen(False)

    def _on_scrolled(self) -> None:
        if self.messages.following:
            self.hint.unseen(False)

    @on(Hint.Followed)
    async def _follow(self) -> None:
        await self.action_follow()

    @on(Hint.Requested)
    def _hint(self, event: Hint.Requested) -> None:
        self.hint.say(event.text)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        first = SHOWN_WITHOUT_MODELS if self.session.phase is Phase.UNLOADED else SHOWN_FIRST
        idle = set() if self.sidebar.can_open else {"found.open"}
        if self.session.phase is Phase.UNLOADED or not self.session.drafting.is_available:
            idle |= {"chat.drafting", "chat.compare"}
        return in_order(super().active_bindings, first, idle)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return None to dim a key that would do nothing, False to hide it."""
        session, prompt = self.session, self.prompt
        match action:
            case "leave_task":
                return self.input_mode.is_active
            case "stop":
                return session.is_busy or None
            case "again":
                return session.can_regenerate or None
            case "round":
                # Elsewhere the keys move the cursor.
                return self.shows_tokens and prompt.has_focus and not prompt.text
            case "edit_last":
                # Where something is typed the key goes to the end of the line.
                return prompt.has_focus and not prompt.text and not prompt.is_searching
            case "page":
                # The sidebar has this key for itself.
                return self.focused is None or not any(isinstance(each, Sidebar) for each in self.focused.ancestors)
            case "pairs":
                return self.has_pairs
            case "conversations" | "toggle_sidebar":
                return session.library.has_history
            case "settings":
                return session.can_set
        return True

    # Events of the worker

    def route_events(self, overlay: EventHandler | None) -> None:
        """Give a screen on top of this one the events of its own requests; None ends it."""
        self.dispatcher.overlay = overlay
        self.dispatcher.start()

    @on(EventsArrived)
    async def _on_events(self) -> None:
        await self.dispatcher.dispatch()
