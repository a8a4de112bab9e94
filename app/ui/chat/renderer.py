"""Draws the session's snapshot on the chat screen, only what has changed, and the events of its worker."""

from __future__ import annotations

import gc

from app.conversations.message import Role
from app.conversations.titles import fit
from app.core.errors import AppError, ContextOverflowError
from app.core.printable import printable
from app.engine.sources import Source
from app.models.pair_info import PairInfo
from app.session.snapshot import Phase, Snapshot
from app.session.turn import Outcome
from app.ui.chat.base import ChatBase
from app.ui.chat.input_mode import InputMode
from app.ui.commands import COMMANDS
from app.ui.event_queue import EventBatch
from app.ui.key_names import CHOOSE, key
from app.ui.models.fit_options import FitOptionList, NoRoomError
from app.ui.transcript.message import AnswerMessage, in_vain
from app.worker.context_overflow import or_longer
from app.worker.events import Event, Failed, Finished, JobEnded, Notice

COLLECT_DELAY_S = 1.0
"""Time between the end of an answer and the full garbage collection, which takes a tenth of a second."""
_TITLE_COLUMNS = 30
LONG_S = 20.0
"""The end of a longer answer rings the bell if another window has the focus."""


class Renderer:
    """Every command and every event other than text is followed by one `render`.

    Events go to the session first, then to the widgets; see `app.ui.event_queue.EventHandler`. The input line gets an
    unanswered prompt back.
    """

    def __init__(self, screen: ChatBase, input_mode: InputMode) -> None:
        self._screen = screen
        self._session = screen.session
        self._input_mode = input_mode
        self._shown = screen.session.snapshot
        self._noted: tuple[AnswerMessage | None, str] = (None, "")
        self._session.explain = lambda error: with_keys(error, self._session.pair)
        self._session.library.as_typed = COMMANDS.as_typed

    async def render(self) -> None:
        """Draw what has changed."""
        screen, before, now = self._screen, self._shown, self._session.snapshot
        self._shown = now
        switched = now.switches != before.switches
        starts = now.running is not None and (before.running != now.running or switched)
        waits = now.waiting is not None and before.waiting is None
        if now.loads != before.loads:
            await self._announce_load(now)
        if now.pair is not None and now.pair is not before.pair:
            self._show_pair(now.pair, is_new=before.pair is None)
        if starts:
            self._begin_answer(is_new=not switched or before.answered_elsewhere is None)
        if now.queued != before.queued:
            screen.waiting.put(now.queued)
        screen.header.active = now.active
        if now.n_typed is not None and now.n_typed != before.n_typed and now.pair is not None:
            screen.hint.about(f"With this prompt: {now.n_typed:,} of {now.pair.n_ctx:,} tokens")
        self._show_status(before, now)
        if now.tree is not before.tree or now.pair is not before.pair:
            screen.messages.mark(now.tree, self._session.models.get("target", ""))
        if switched or now.messages != before.messages or now.running != before.running:
            await screen.messages.show(now.messages, now.running, replace=switched, follow=starts or waits or switched)
        if starts or waits:
            screen.hint.unseen(False)
            screen.hint.about("")
        if switched:
            self._begin_branch(now)
        if now.pair is not None and (switched or before.pair is None):
            await self._name_other_model(now)
        if (now.messages, now.titles, now.marks) != (before.messages, before.titles, before.marks):
            screen.sidebar.update_list()
        screen.refresh_bindings()

    async def render_branch(self) -> None:
        """Draw another branch, and forget what was shown of the last answer."""
        await self.render()
        self._begin_branch(self._shown)
        self._screen.hint.forget()

    def _show_status(self, before: Snapshot, now: Snapshot) -> None:
        status = self._screen.status
        if now.phase is Phase.UNLOADED and before.phase is not Phase.UNLOADED:
            status.unloaded()
        has_pair = now.phase in (Phase.READY, Phase.ANSWERING)
        if now.is_compacting:
            status.do("context full: summarizing", is_long=True)
        elif before.is_compacting and now.phase is Phase.ANSWERING:
            status.begin()
        if now.answered_elsewhere != before.answered_elsewhere:
            self._name_answered(now)
        if has_pair and (now.drafting != before.drafting or before.phase is Phase.LOADING):
            status.will_draft(now.drafting)

    def _name_answered(self, now: Snapshot) -> None:
        """Show the title of a conversation that is being answered and is not open."""
        if now.answered_elsewhere is not None:
            self._screen.status.do(f'answering "{self._title(now.answered_elsewhere)}"')

    def _begin_branch(self, now: Snapshot) -> None:
        screen = self._screen
        screen.inspector.begin()
        screen.hint.about("")
        if now.running is None and now.pair is not None:
            screen.status.ready(now.pair.n_ctx, is_empty=not now.messages)
            self._name_answered(now)
        screen.show_last_numbers(now.messages)

    async def _announce_load(self, now: Snapshot) -> None:
        screen = self._screen
        await screen.messages.end_failure()
        screen.header.announce(now.title)
        screen.panel.pair = None
        screen.status.reading_models()
        screen.event_queue.start()

    def _show_pair(self, pair: PairInfo, *, is_new: bool) -> None:
        screen = self._screen
        screen.header.pair = screen.panel.pair = pair
        screen.inspector.drafter = (pair.draft_kind or Source.MODEL).label
        if is_new:
            screen.status.ready(pair.n_ctx, is_empty=not self._session.conversation.messages_before(None))
        else:
            screen.status.holds(pair.n_ctx)

    async def _name_other_model(self, now: Snapshot) -> None:
        """Say that another model wrote the conversation that was opened; a draft model changes no answer."""
        loaded = self._session.models["target"]
        models = (node.model for node in reversed(now.messages) if node.role is Role.ASSISTANT and node.model)
        if (used := next(models, loaded)) != loaded:
            await self._screen.messages.notice(
                f"This conversation was answered by {used}. From now on {loaded} answers."
            )

    def _begin_answer(self, *, is_new: bool) -> None:
        """Show that an answer begins, or that a running one is in sight again."""
        screen = self._screen
        screen.hint.forget()
        screen.inspector.begin()
        if is_new:
            screen.status.begin()
        else:
            screen.status.do("")
        screen.event_queue.start()
        # A sent prompt is no longer in the input line.
        self._input_mode.store_soon()

    # Events of the worker

    @property
    def expects_events(self) -> bool:
        return self._session.expects_events

    def expects(self, event: Event) -> bool:
        if self._session.is_behind(event):
            self._screen.status.queue()
        return self._session.expects(event)

    def rest(self, next_s: float) -> None:
        self._screen.status.catch_up()
        self._note_activity()
        self._session.save_due(next_s)

    async def show(self, batch: EventBatch) -> None:
        screen = self._screen
        # A pair may be loaded again for a comparison, which shows that itself.
        is_here = self._session.answered_elsewhere is None
        if self.expects_events and is_here:
            screen.status.follow(batch.latest)
        self._session.add(batch.segments)
        self._note_activity()
        answer = screen.messages.answer
        if answer is None or not is_here:
            return
        if batch.segments:
            screen.hint.unseen(not screen.messages.following)
            answer.add(batch.segments)
        screen.inspector.add(batch.details)

    def _note_activity(self) -> None:
        """Show a long activity, such as reading the prompt, where the answer will be."""
        answer, activity = self._screen.messages.answer, self._screen.status.long_activity
        if answer is not None and self._session.conversation.running is not None and self._noted != (answer, activity):
            self._noted = answer, activity
            answer.note(activity)

    async def handle(self, event: Event) -> None:
        match event:
            case Notice(text):
                await self._screen.messages.notice(text)
            case Finished():
                await self._finished(event)
            case Failed(request=None):
                await self._load_failed(event)
            case Failed():
                await self._failed(event)
            case JobEnded():
                self._session.handle(event)
                self._screen.status.end_measuring()
                await self.render()
            case _:
                self._session.handle(event)
                await self.render()
        self._screen.refresh_bindings()

    async def _finished(self, event: Finished) -> None:
        outcome = self._session.handle(event)
        if outcome is not None and not outcome.is_open:
            await self._ended_elsewhere(outcome)
            return
        if event.stats.predicted_n:
            self._screen.status.measured(event.stats, event.drafting, live=False)
        else:
            self._screen.status.rest("ready")
        await self._ended(outcome)

    async def leave_queue(self) -> None:
        """End an answer that waits for a request of another program."""
        outcome = self._session.leave_queue()
        if outcome is not None:
            self._screen.status.rest("ready")
            await self._ended(outcome)

    async def _failed(self, event: Failed) -> None:
        can_focus = self._can_focus_options
        outcome = self._session.handle(event)
        if outcome is not None and not outcome.is_open:
            await self._ended_elsewhere(outcome)
            return
        await self._ended(outcome)
        if outcome is None or self._session.phase is not Phase.READY:
            return
        error = event.error
        self._screen.status.rest("ready")
        if isinstance(error, NoRoomError) and error.options:
            # They hold for now; the stored answer says only why it failed.
            await self._screen.messages.offer(error.options)
            if can_focus:
                self._focus_options()

    async def _load_failed(self, event: Failed) -> None:
        outcome = self._session.handle(event)
        if self._session.phase is not Phase.UNLOADED:
            return
        can_focus = self._can_focus_options
        await self.render()
        if outcome is not None and outcome.returned:
            self._input_mode.give_back(outcome.returned)
        await self._screen.messages.fail(event.error)
        if can_focus:
            self._focus_options()

    async def _ended(self, outcome: Outcome | None) -> None:
        """Draw the end of an answer; None if it goes on."""
        if outcome is None:
            await self.render()
            return
        screen = self._screen
        # A short answer calls no one back from another window.
        if screen.status.seconds >= LONG_S and not screen.app.app_focus:
            screen.app.bell()
        screen.set_timer(COLLECT_DELAY_S, _collect)
        screen.hint.forget()
        await self.render()
        if outcome.returned:
            self._input_mode.give_back(outcome.returned)
            screen.hint.say("The waiting prompts were not sent; they are back in the input line.")
        elif outcome.reverted:
            screen.hint.ask(in_vain(outcome.ending, thought=outcome.thought))
        elif not outcome.counts:
            self._input_mode.give_back(outcome.prompt, unless_typed=True)

    async def _ended_elsewhere(self, outcome: Outcome) -> None:
        """Report the end of an answer in a conversation that is not open."""
        screen, title = self._screen, self._title(outcome.conversation)
        if self._session.phase is Phase.READY:
            screen.status.rest("ready")
        await self.render()
        ended = "is answered" if outcome.ending.failure is None else "was not answered"
        screen.hint.say(f'"{title}" {ended}; {key("chat.open", "ctrl+o")} opens it.')
        if not screen.app.app_focus:
            screen.app.bell()

    def _title(self, conversation: int | None) -> str:
        return fit(printable(self._session.library.title(conversation)), _TITLE_COLUMNS) or "A new conversation"

    def _focus_options(self) -> None:
        """Let keys choose an option for a pair that does not fit."""
        for options in self._screen.query(FitOptionList):
            options.focus()

    @property
    def _can_focus_options(self) -> bool:
        """Return whether the user types nothing, so that the options may take the keys."""
        return not self._screen.prompt.text and self._screen.focused in (None, self._screen.prompt)


def _collect() -> None:
    # Textual cannot call a built-in function.
    gc.collect()


def with_keys(error: AppError, pair: PairInfo | None) -> AppError:
    """Return an error whose fix names keys of the chat instead of flags."""
    if not isinstance(error, ContextOverflowError):
        return error
    settings = key("chat.settings", "f4")
    if pair is None or not error.n_tokens:
        longer = f", or set a longer context ({settings}, ctx)"
    else:
        longer = or_longer(pair, error.n_tokens, lambda enough: f"set a longer context ({settings}, ctx {enough})")
    return AppError(error.message, f"{_shorter(error.whose)}{longer}.")


def _shorter(whose: str) -> str:
    """Return how to shorten the longest part of a prompt."""
    if whose == "system":
        return f"Shorten the system prompt ({key('chat.settings', 'f4')} or /system)"
    if whose == "prompt":
        return "Shorten it, or include a part of its files"
    choose, edit = key("chat.choose", CHOOSE), key("message.edit", "e")
    return f"Start a new conversation ({key('chat.new', 'ctrl+n')}) or edit an earlier prompt ({choose}, then {edit})"
