"""The chat screen: its keys, and the screens that it opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea

from app.core.errors import AppError
from app.session.session import Session
from app.session.state import Phase
from app.ui.actions import bindings
from app.ui.base_screen import BaseScreen
from app.ui.chat.controller import ChatController
from app.ui.chat.view import ChatView
from app.ui.composer.input import PromptInput
from app.ui.event_queue import EventQueue, OverlayHandler
from app.ui.keys import KeyBar, in_order
from app.ui.models.downloads import DownloadLines
from app.ui.models.fit_options import FitOptionList
from app.ui.models.opener import Opener
from app.ui.models.service import PairService
from app.ui.models.state import FitOption, LoadRequest
from app.ui.themes import apply_appearance
from app.ui.tools.question import ToolQuestion
from app.ui.transcript.list import MessageList
from app.ui.transcript.message import MessageItem

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker

_T = TypeVar("_T")


class ChatScreen(BaseScreen[None]):
    """A conversation with a pair. Other screens are imported when they are opened."""

    AUTO_FOCUS = "PromptInput"
    BINDINGS: ClassVar[list[BindingType]] = bindings("chat.", runner="do")

    def __init__(self, session: Session, queue: EventQueue, opener: Opener, pairs: PairService) -> None:
        super().__init__()
        self.session = session
        self.event_queue = queue
        self.view = ChatView(session, pairs)
        self.controller = ChatController(self.view, opener, queue, self._action)
        self.shows_tokens = False
        self._opener = opener
        self._pairs = pairs

    def compose(self) -> ComposeResult:
        yield self.view
        yield KeyBar()

    def on_mount(self) -> None:
        self.session.library.say = lambda text: self.call_later(self._warn, text)
        self.watch(self.view.messages, "scroll_y", self.view.see_end, init=False)
        if self.session.phase is Phase.LOADING:
            self.view.status.reading_models()

    @on(events.ScreenResume)
    async def _catch_up(self) -> None:
        # A screen below another is notified neither of a resize nor of changes.
        self.view.apply_widths()
        await self.controller.renderer.render()

    def _warn(self, text: str) -> None:
        self.view.messages.notice(text)
        # A long answer hides its notices.
        if self.view.messages.answer is not None:
            self.view.hint.ask(text)

    # Keys and slash commands

    def focus_for(self, event: events.Key | events.Paste) -> None:
        """Focus the prompt before text arrives that the focused widget does not use."""
        if isinstance(self.focused, Input | TextArea):
            return
        if isinstance(event, events.Paste) or (
            (event.is_printable or event.key == "backspace") and event.key not in self.active_bindings
        ):
            self.set_focus(self.view.prompt, scroll_visible=False)

    def watch_focused(self) -> None:
        super().watch_focused()
        self.view.say_what_keys_do(self.focused)

    def action_do(self, name: str, *arguments: object) -> None:
        """Run an action among the screen's own messages, while keys arrive."""
        self.call_later(self.do, name, *arguments)

    async def do(self, name: str, *arguments: object) -> None:
        """Run an action, or say why it cannot be done."""
        action, controller = self._action(name), self.controller
        changes_session = action.__self__ in (controller, controller.commands)
        await (controller.command if changes_session else controller.attempt)(action, *arguments)

    def _action(self, name: str) -> MethodType:
        """Return the action of the controller, its commands, the widgets, this screen or the program."""
        owners = (self.controller, self.controller.commands, self.view, self, self.app)
        found: MethodType = next(filter(None, (getattr(owner, f"action_{name}", None) for owner in owners)))
        return found

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        await self._read_files(event.text, self.controller.command(self.controller.send, event.text))

    async def _read_files(self, text: str, action: Awaitable[None]) -> None:
        """Run an action; if it reads the files of a text, run it in parallel to the screen's messages.

        Reading a document takes seconds, in which the screen draws, and keys work.
        """
        if "@" in text:
            self.run_worker(action, group="files")
        else:
            await action

    @on(MessageList.ActionRequested)
    async def _on_message_action(self, event: MessageList.ActionRequested) -> None:
        await self.controller.command(self.controller.perform, event.message, event.requested)

    def action_leave_task(self) -> None:
        if self._clicked is not None:
            self.view.messages.choose(None)
        else:
            self.controller.line.leave()

    @property
    def _clicked(self) -> MessageItem | None:
        """Return the message that a click selected: the input line keeps the focus."""
        return self.view.messages.chosen if self.focused is self.view.prompt else None

    def action_choose(self) -> None:
        messages = self.view.messages
        if not messages.messages:
            raise AppError("There is no message to choose yet.")
        if self._clicked is not None:
            messages.choose(self._clicked)
        else:
            messages.action_step(-1)

    @on(PromptInput.Changed)
    def _on_typed(self) -> None:
        if self.shows_tokens:
            self.refresh_bindings()
        if self._clicked is not None and self.view.prompt.text:
            self.view.messages.choose(None)
        if self.view.question.display and not self.view.prompt.text:
            self.view.question.focus()
        self.controller.line.store_soon()
        self.controller.line.typed()

    # Other screens

    def _open(self, screen: Screen[_T], then: Callable[[_T | None], Awaitable[None]] | None = None) -> None:
        # A key pressed twice opens one screen. `is_current` is also true below a screen that is not drawn yet.
        if self.app.screen is self:
            self.app.push_screen(screen, then)

    def action_conversations(self, words: str = "") -> None:
        """Open the list of conversations, optionally searched for words."""
        if self.session.library.is_open:
            from app.ui.conversations.picker import ConversationsScreen

            controller = self.controller
            self._open(ConversationsScreen(self.session, words), partial(controller.attempt, controller.open_found))

    # Found by name: the sidebar is filled after the first frame, and the picker is imported then.

    async def on_conversation_picker_chosen(self, event: ConversationPicker.Chosen) -> None:
        self.view.prompt.focus()
        await self.controller.attempt(self.controller.open_found, event)

    async def on_conversation_picker_deleted_or_restored(self) -> None:
        try:
            await self.controller.open_conversation(None)
        except AppError as error:
            self.view.refuse(error)

    def action_pairs(self, words: str = "") -> None:
        """Open the list of pairs, optionally filtered by words."""
        from app.ui.models.setup_screen import SetupScreen

        if self.app.screen is not self:
            return
        # On the first run there is no widget yet.
        for lines in self.query(DownloadLines):
            lines.stop()
        self._open(SetupScreen(self._pairs, self.session, words), self._take_pair)

    async def _take_pair(self, choice: LoadRequest | None) -> None:
        if choice is not None:
            await self.controller.load_pair(choice)
        self.query_one(DownloadLines).watch_downloads()

    def action_settings(self, query: str = "") -> None:
        """Open the settings, optionally filtered by a query."""
        from app.ui.settings.screen import SettingsScreen

        themes = sorted(self.app.available_themes)
        live, pair = self._opener.live, self.session.pair
        # Loading again may restore a draft model that was left out after failures.
        can_load = self.session.phase is Phase.UNLOADED or (pair is not None and pair.draft_failed)
        screen = SettingsScreen(live, themes, self._apply_settings, pair, query, can_load=can_load)
        self._open(screen, partial(self.controller.command, self._leave_settings))

    def _apply_settings(self) -> None:
        """Apply changed settings immediately, because the user may quit from there."""
        apply_appearance(self.app, self._opener.live)
        self.session.settings_changed()

    async def _leave_settings(self, reload: bool | None) -> None:
        self.session.settings_changed()
        if reload:
            try:
                await self.controller.load_pair(self._opener.again())
            except AppError as error:
                self.session.library.say(error.sentences)

    def action_tools(self) -> None:
        from app.ui.tools.screen import ToolsScreen

        self._open(ToolsScreen(self.session.tools, self._opener.live, self._apply_settings))

    @on(ToolQuestion.Answered)
    async def _permit(self, event: ToolQuestion.Answered) -> None:
        await self.controller.command(self.session.permit, event.permission)

    async def action_compare(self, prompt: str = "") -> None:
        """Compare a prompt, by default the typed or else the last prompt."""
        typed = prompt or ("" if self.controller.line.is_borrowed else self.view.prompt.whole.strip())
        self.session.refuse_if_blocked()
        await self._read_files(typed, self.controller.attempt(self._compare, typed))

    async def _compare(self, typed: str) -> None:
        request = self.session.comparable(await self.controller.line.read(typed) if typed else "")
        from app.ui.compare.screen import CompareScreen

        self._open(CompareScreen(self.session, request, self.route_events))

    @on(FitOptionList.OptionTaken)
    async def _take_option(self, event: FitOptionList.OptionTaken) -> None:
        await self.controller.attempt(self._apply, event.option)

    async def _apply(self, option: FitOption) -> None:
        if option.apply is not None:
            request = option.apply()
            self.view.prompt.focus()
            self.view.messages.notice(f"Applied: {option.offer.what}.")
            await self.controller.load_pair(request)

    # The view

    def action_toggle_tokens(self) -> None:
        self.shows_tokens = not self.shows_tokens
        # Probabilities are computed only while they are visible.
        self.session.engine.inspect(self.shows_tokens)
        self.view.inspector.open(self.shows_tokens)
        self.refresh_bindings()
        self.view.messages.show_tokens(self.shows_tokens)
        if self.session.phase is not Phase.ANSWERING:
            self.view.mark_step()

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        active, is_unloaded = super().active_bindings, self.session.phase is Phase.UNLOADED
        needed = ("chat.pairs", "chat.settings") if is_unloaded else ("chat.take_back", "chat.stop")
        first: tuple[str, ...] = ("prompt.dismiss", "chat.leave_task", *needed)
        cannot_draft = is_unloaded or not self.session.drafting.is_available
        idle = {
            "chat.stop": not (self.session.is_answering or self.controller.line.is_reading),
            "chat.again": not self.session.can_regenerate,
            "chat.drafting": cannot_draft,
            "chat.compare": cannot_draft or not self.session.can_regenerate,
            "message.next_code": not self.view.messages.has_next_code,
        }
        if self._clicked is not None:
            first = (*first, "chat.choose")
            for name, one in active.items():
                if one.binding.id == "chat.choose":
                    shown = replace(one.binding, show=True, description="act on this message")
                    active[name] = one._replace(binding=shown)
        return in_order(active, {key for key, is_idle in idle.items() if is_idle}, first=first)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return None to dim a key that would do nothing, False to hide it."""
        session, prompt = self.session, self.view.prompt
        match parameters[0] if action == "do" else None:
            case "leave_task":
                is_task = self.controller.line.is_borrowed or self._clicked is not None
                return is_task and not self.controller.line.is_reading
            case "take_back":
                return bool(session.conversation.queued) and not self.controller.line.is_reading
            case "stop":
                return session.phase is Phase.ANSWERING or self.controller.line.is_reading
            case "round":
                # Elsewhere these keys move the cursor.
                return bool(self.shows_tokens and self.view.inspector.steps) and prompt.has_focus and not prompt.text
            case "edit_last":
                # In typed text, the key goes to the end of the line.
                return prompt.has_focus and not (prompt.text or prompt.is_searching or prompt.awaits_chord)
            case "undelete":
                elsewhere = isinstance(self.focused, Input) or (prompt.has_focus and prompt.text)
                return session.conversation.can_undelete and not elsewhere
            case "conversations" | "toggle_sidebar":
                return session.library.has_history
        return super().check_action(action, parameters)

    # Events of the worker

    def receive_events(self) -> None:
        """Show events of the worker from now on."""
        queue = self.event_queue
        queue.connect(lambda: self.call_later(queue.dispatch), self.controller.renderer, self._call_if_running)
        queue.start()

    def _call_if_running(self, call: Callable[[], Awaitable[None]]) -> None:
        if self.app.is_running:
            self.call_next(call)

    def route_events(self, overlay: OverlayHandler | None) -> None:
        """Give a screen on top the events of its own requests; None ends that."""
        self.event_queue.overlay = overlay
        self.event_queue.start()
