"""The chat screen: keys become commands of the session, its snapshot is drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import ActiveBinding, BindingType
from textual.message import Message

from app.core.errors import AppError
from app.core.printable import printable
from app.session.session import Session
from app.session.snapshot import Phase
from app.ui.actions import BY_ID, CHAT, Action, bindings
from app.ui.base_screen import BaseScreen
from app.ui.chat.actions import in_turn
from app.ui.chat.conversation_commands import ConversationCommands
from app.ui.chat.inspector import Inspector
from app.ui.chat.prompt_size import PromptSize
from app.ui.chat.token_steps import step_spans
from app.ui.commands import COMMANDS
from app.ui.composer.completion import Suggestions
from app.ui.composer.input import PromptInput
from app.ui.event_queue import EventHandler, EventQueue
from app.ui.keys import in_order
from app.ui.models.downloads import DownloadLines
from app.ui.models.fit_options import FitOptionList
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, Tuning
from app.ui.themes import apply_appearance
from app.ui.transcript.message_view import MessageView
from app.ui.transcript.parts import TokenView
from app.ui.widgets.hint import Hint

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class ChatScreen(BaseScreen[None], ConversationCommands):
    """One conversation with one pair. Other screens are imported when they are opened."""

    AUTO_FOCUS = "PromptInput"
    BINDING_GROUP_TITLE = "Chat"
    BINDINGS: ClassVar[list[BindingType]] = bindings(CHAT)

    class EventsArrived(Message):
        """An event arrived that should not wait."""

    def __init__(self, session: Session, queue: EventQueue, tuning: Tuning, pairs: PairService) -> None:
        super().__init__(session, pairs)
        self._tuning = tuning
        self.event_queue = queue
        self._prompt_size = PromptSize(self, self._message)

    def on_mount(self) -> None:
        self.event_queue.connect(lambda: self.post_message(self.EventsArrived()), self.renderer, self.call_if_running)
        self.header.active = self.session.snapshot.active
        self.session.library.say = lambda text: self.call_later(self._warn, text)
        self.watch(self.messages, "scroll_y", self._on_scrolled, init=False)
        if self.session.phase is Phase.LOADING:
            self.status.reading_models()
        else:
            self.status.unloaded()
        self.event_queue.start()

    @property
    def _is_on_top(self) -> bool:
        # `is_current` also holds below a screen that is not drawn yet.
        return self.app.screen is self

    async def _warn(self, text: str) -> None:
        await self.messages.notice(text)
        # A long answer has its notices out of sight.
        if self.messages.answer is not None:
            self.hint.ask(text)

    # Prompts and messages

    async def run_line(self, line: str) -> None:
        command, argument = COMMANDS.read(line)
        with_argument = command.argument is not None
        done = getattr(self, f"command_{command.run}")(argument) if with_argument else self.run_method(command)
        if isawaitable(done):
            await done

    def run_method(self, action: Action) -> object:
        """Do what an action without an argument does; it may say why it cannot be done."""
        owner = self if hasattr(self, f"action_{action.run}") else self.app
        return getattr(owner, f"action_{action.run}")()

    async def action_run_line(self, line: str) -> None:
        await self.attempt(self.run_line, line)

    def action_stop(self) -> None:
        if not self.stop_answer():
            elsewhere = self.session.answered_elsewhere is not None
            self.hint.say("The answer is in another conversation." if elsewhere else "No answer is being written.")

    def stop_answer(self) -> bool:
        """Stop the running answer, whose text stays; return whether there is one."""
        if self.status.is_queued and self.session.conversation.running is not None:
            self.call_later(self.renderer.leave_queue)
            return True
        stops = self.session.stop()
        if stops:
            self.status.do("stopping")
        return stops

    @in_turn
    async def action_take_back(self) -> None:
        prompt = self.session.take_back()
        if prompt is not None:
            self.hint.forget()
            await self.renderer.render()
            self.input_mode.give_back(prompt)

    def action_leave_task(self) -> None:
        if self._clicked is not None:
            self._clicked.choose(False)
        else:
            self.input_mode.leave()

    @property
    def _clicked(self) -> MessageView | None:
        """The message that a click selected: the input line keeps the focus."""
        chosen = self.messages.chosen
        return chosen if self.focused is self.prompt else None

    @in_turn
    async def action_choose(self) -> None:
        if not self.messages.message_views:
            raise AppError("There is no message to choose yet.")
        if self._clicked is not None:
            self.messages.choose(self._clicked)
        else:
            await self.messages.step(-1)

    @on(PromptInput.Changed)
    def _on_typed(self) -> None:
        if self.shows_tokens:
            self.refresh_bindings()
        if self._clicked is not None and self.prompt.text:
            self._clicked.choose(False)
        self.input_mode.store_soon()
        self._prompt_size.typed()

    @on(Suggestions.Clicked)
    def _complete(self, event: Suggestions.Clicked) -> None:
        self.prompt.choose(event.suggestion)

    # Conversations

    def action_conversations(self) -> None:
        if self.library.is_open and self._is_on_top:
            from app.ui.conversations.picker import ConversationsScreen

            self.app.push_screen(ConversationsScreen(self.library), self.open_found)

    # Named, not declared: the sidebar is filled after the first frame, and the picker imported then.

    async def on_conversation_picker_chosen(self, event: ConversationPicker.Chosen) -> None:
        self.prompt.focus()
        await self.open_found(event)

    async def on_conversation_picker_deleted_or_restored(self) -> None:
        self.session.drop_deleted()
        await self.open_conversation(None)

    # Models and settings

    def action_pairs(self) -> None:
        if not self._is_on_top:
            return
        from app.ui.models.setup_screen import SetupScreen

        # On the first run there is no widget yet.
        for lines in self.query(DownloadLines):
            lines.stop()
        can_leave = self.session.snapshot.loads > 0
        is_answering = partial(self._is_in, Phase.ANSWERING)
        self.app.push_screen(SetupScreen(self._pairs, can_leave=can_leave, is_answering=is_answering), self._take_pair)

    def _is_in(self, phase: Phase) -> bool:
        return self.session.phase is phase

    async def _take_pair(self, choice: LoadRequest | None) -> None:
        if choice is not None:
            await self.load_pair(choice)
        self.query_one(DownloadLines).watch_downloads()

    def action_settings(self, query: str = "") -> None:
        """Open the settings that match a query, or all."""
        if not self._is_on_top:
            return
        from app.ui.settings.screen import SettingsScreen

        themes = sorted(self.app.available_themes)
        live, pair = self._tuning.live, self.session.pair
        # Loading again may restore a draft model that was left out after failures.
        can_load = self.session.phase is Phase.UNLOADED or (pair is not None and pair.draft_failed)
        self.app.push_screen(
            SettingsScreen(live, themes, self._apply_settings, pair, query, can_load=can_load), self._leave_settings
        )

    def _apply_settings(self) -> None:
        """Use changed settings at once, as the user may quit from there."""
        apply_appearance(self.app, self._tuning.live)
        self.settings_changed()

    async def _leave_settings(self, reload: bool | None) -> None:
        self.settings_changed()
        if reload:
            try:
                await self.load_pair(self._tuning.reopen())
            except AppError as error:
                self.session.library.say(error.sentences)

    @in_turn
    async def action_compare(self) -> None:
        """Compare the typed message, or else the last one."""
        typed = "" if self.input_mode.is_active else self.prompt.whole.strip()
        self._refuse_if_blocked(while_loading=True)
        what = self.session.comparable(await self._message(typed) if typed else "")
        if self._is_on_top:
            from app.ui.compare.screen import CompareScreen

            self.app.push_screen(CompareScreen(self.session.engine, what, self.route_events))

    @on(FitOptionList.OptionTaken)
    async def _take_option(self, event: FitOptionList.OptionTaken) -> None:
        self.prompt.focus()
        await self.messages.notice(f"Applied: {event.option.offer.what}.")
        await self.load_pair(event.request)

    async def load_pair(self, choice: LoadRequest) -> None:
        """Load another pair; a running answer ends first, or is stopped if the request says so."""
        if self.session.phase is Phase.ANSWERING:
            if choice.stops:
                self.status.do("stopping")
            else:
                self.hint.say(f"{printable(choice.title)} is loaded when the answer has ended.")
        self.session.load(choice.loader, choice.title, waits=not choice.stops)
        await self.renderer.render()

    @on(FitOptionList.Dismissed)
    def _leave_options(self, event: FitOptionList.Dismissed) -> None:
        self.prompt.focus()
        self.prompt.insert(event.text)

    # The view

    def action_toggle_thinking(self) -> None:
        if not self.messages.open_thoughts():
            self.hint.say("No answer here has reasoning.")

    @in_turn
    async def action_toggle_tokens(self) -> None:
        self.shows_tokens = not self.shows_tokens
        # Probabilities are computed only while somebody looks.
        self.session.engine.inspect(self.shows_tokens)
        self.inspector.open(self.shows_tokens)
        self.refresh_bindings()
        await self.messages.show_tokens(self.shows_tokens)
        if self.session.phase is not Phase.ANSWERING:
            self._mark_step()

    @on(Inspector.StepSelected)
    def _mark_step(self) -> None:
        answer, index = self.messages.answer, self.inspector.index
        if answer is not None and answer.tokens is not None and index is not None:
            answer.tokens.mark(*step_spans(answer.tokens.plain, self.inspector.steps)[index])

    @on(TokenView.CharacterClicked)
    def _select_step(self, event: TokenView.CharacterClicked) -> None:
        """Choose the step of the clicked token, if the last answer has it."""
        answer = self.messages.answer
        if answer is not None and answer.tokens is event.view:
            spans = step_spans(event.view.plain, self.inspector.steps)
            found = next((index for index, (start, end) in enumerate(spans) if start <= event.at < end), None)
            if found is not None:
                self.inspector.select(found)

    def action_round(self, by: int) -> None:
        self.inspector.step(by)

    def action_page(self, direction: int) -> None:
        self.messages.page(direction)

    async def action_beginning(self) -> None:
        await self.messages.go_to_beginning()

    @on(Hint.Followed)
    async def action_follow(self) -> None:
        await self.messages.follow_end()
        self.hint.unseen(False)

    def _on_scrolled(self) -> None:
        if self.messages.following:
            self.hint.unseen(False)

    @on(Hint.Requested)
    def _hint(self, event: Hint.Requested) -> None:
        self.hint.say(event.text)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        active, is_unloaded = super().active_bindings, self.session.phase is Phase.UNLOADED
        of_widgets = [one.binding.id or "" for one in active.values() if one.binding.id not in BY_ID]
        first = ("prompt.dismiss", *(("chat.leave_task", "chat.pairs", "chat.settings") if is_unloaded else ()))
        idle = set()
        if self.session.conversation.running is None:
            idle.add("chat.stop")
        if not self.session.can_regenerate:
            idle.add("chat.again")
        if is_unloaded or not self.session.drafting.is_available:
            idle |= {"chat.drafting", "chat.compare"}
        if not self.messages.has_next_code:
            idle.add("message.next_code")
        if self._clicked is not None:
            first = (*first, "chat.choose")
            active = {
                name: one._replace(binding=replace(one.binding, show=True, description="act on this message"))
                if one.binding.id == "chat.choose"
                else one
                for name, one in active.items()
            }
        return in_order(active, (*first, *of_widgets, *BY_ID), idle)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return None to dim a key that would do nothing, False to hide it."""
        session, prompt = self.session, self.prompt
        match action:
            case "leave_task":
                return self.input_mode.is_active or self._clicked is not None
            case "take_back":
                return bool(session.conversation.queued)
            case "round":
                # Elsewhere the keys move the cursor.
                return bool(self.shows_tokens and self.inspector.steps) and prompt.has_focus and not prompt.text
            case "edit_last":
                # Where something is typed the key goes to the end of the line.
                return prompt.has_focus and not prompt.text and not prompt.is_searching
            case "conversations" | "toggle_sidebar":
                return session.library.has_history
        return True

    # Events of the worker

    def route_events(self, overlay: EventHandler | None) -> None:
        """Give a screen on top of this one the events of its own requests; None ends it."""
        self.event_queue.overlay = overlay
        self.event_queue.start()

    @on(EventsArrived)
    async def _on_events(self) -> None:
        await self.event_queue.dispatch()
