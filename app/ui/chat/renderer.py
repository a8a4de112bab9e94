"""Draws the session's changes on the chat screen."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.conversations.message import Role
from app.core.columns import fit
from app.core.errors import AppError, DoesNotFitError
from app.core.printable import printable
from app.engine.sources import Source
from app.engine.types import FinishReason
from app.models.pair_info import PairInfo
from app.session.session import Session
from app.session.state import Change, Changes, Outcome, Phase
from app.ui.chat.input_line import InputLine
from app.ui.chat.view import ChatView
from app.ui.commands import COMMANDS
from app.ui.event_queue import EventBatch, EventQueue
from app.ui.key_names import key
from app.ui.models.fit_options import FitOptionList
from app.ui.models.state import FitOption
from app.ui.transcript.answer import AnswerMessage, in_vain
from app.worker.events import Event, Finished, Notice

if TYPE_CHECKING:
    from app.hardware.offers import Offer

COLLECT_DELAY_S = 1.0
"""Time between the end of an answer and the full garbage collection, which takes a tenth of a second."""
_NEVER_COLLECTED = 1_000_000
_TITLE_COLUMNS = 30
LONG_S = 20.0
"""The end of a longer answer rings the bell if another window has the focus."""


class Renderer:
    """Draws the session's changes; it decides nothing.

    It is the `app.ui.event_queue.EventHandler` of the chat. An unanswered prompt returns to the input line.
    """

    def __init__(self, view: ChatView, line: InputLine, fix: Callable[[Offer], FitOption], queue: EventQueue) -> None:
        self._view = view
        self._session = view.session
        self._line = line
        self._fix = fix
        self._queue = queue
        self._named: tuple[int | None, bool] = (None, False)
        """The answered conversation that the status line names, and whether it asks about a tool."""
        self._noted: tuple[AnswerMessage | None, str | None] = (None, None)
        self._session.library.as_typed = COMMANDS.as_typed

    # Events of the worker

    @property
    def expects_events(self) -> bool:
        return self._session.expects_events

    def idle(self, next_s: float) -> None:
        self._session.save_due(next_s)
        self._view.status.catch_up()
        self._note_activity()

    async def show(self, batch: EventBatch) -> None:
        view = self._view
        batch = EventBatch([e for e in batch.events if Change.PROGRESS in self._session.handle(e).what])
        if self._session.is_behind:
            view.status.queue()
        if batch.events:
            view.status.follow(batch.latest)
        self._note_activity()
        answer = view.messages.answer
        if answer is None or not batch.events:
            return
        if batch.segments:
            view.hint.unseen(not view.messages.shows_end)
            view.messages.add(batch.segments)
        view.inspector.add(batch.details)

    async def handle(self, event: Event) -> None:
        changes = self._session.handle(event)
        if isinstance(event, Notice):
            self._view.messages.notice(event.text)
        await self._draw(changes, event)

    async def render(self) -> None:
        """Draw the changes of a command."""
        await self._draw(self._session.take_changes())

    async def _draw(self, changes: Changes, event: Event | None = None) -> None:
        ended, what, can_focus = changes.ended, changes.what, self._can_focus_options
        is_load = Change.UNLOADED in what
        if ended is not None and not is_load:
            self._begin_end(ended, event)
        await self._draw_state(what)
        if ended is None:
            return
        if ended.returned:
            self._line.give_back(ended.returned)
        if is_load:
            await self._show_failed_load(ended.ending.failure, can_focus=can_focus)
        elif ended.is_open:
            await self._show_end(ended, can_focus=can_focus)
        else:
            self._report(ended)

    async def _draw_state(self, what: Change) -> None:
        view, now = self._view, self._session
        if Change.LOADING in what:
            await view.end_failure()
            view.header.announce(now.title)
            view.panel.pair = None
            view.status.reading_models()
        if now.pair is not None and what & (Change.LOADED | Change.PAIR):
            self._show_pair(now.pair, is_new=Change.LOADED in what)
        if now.conversation.running is not None and what & (Change.ASKED | Change.OPENED):
            self._begin_answer(is_new=Change.ASKED in what)
        view.waiting.put(now.queued)
        if view.question.put(now.question) and self._can_focus_options:
            view.question.focus()
        elif view.question.has_focus and now.question is None:
            view.prompt.focus()
        view.header.active = now.active_settings
        if Change.COUNTED in what:
            view.count_pictures()
        typed = now.answering.typed if Change.COUNTED in what and not now.is_answering else None
        if typed is not None and now.pair is not None:
            n_shown = sum(n for _, n in typed.pictures)
            pictures = f", {n_shown:,} of them for pictures" if n_shown else ""
            view.hint.about(f"With this prompt: {typed.n_tokens:,} of {now.pair.n_ctx:,} tokens{pictures}")
        self._show_status(what, now)
        model = self._session.models.get("target", "")
        view.messages.mark(now.conversation.tree, now.pair, model, is_answering=now.is_answering)
        follows = bool(what & (Change.ASKED | Change.WAITING | Change.OPENED))
        view.messages.show(now.messages, now.conversation.running, replace=Change.OPENED in what, follow=follows)
        if what & (Change.ASKED | Change.WAITING | Change.OPENED | Change.BRANCH):
            await view.end_offer()
        if what & (Change.ASKED | Change.WAITING):
            view.hint.unseen(False)
            view.hint.about(None)
        if what & (Change.OPENED | Change.BRANCH):
            self._begin_branch(now)
        if Change.BRANCH in what:
            view.hint.forget()
        if now.pair is not None and what & (Change.OPENED | Change.LOADED):
            self._name_other_model(now)
        view.sidebar.update_list()
        self._queue.start()
        view.screen.refresh_bindings()

    def _show_status(self, what: Change, now: Session) -> None:
        status = self._view.status
        if now.phase is Phase.UNLOADED:
            status.unloaded()
        if Change.MEASURED in what:
            status.end_measuring()
        if now.is_compacting:
            status.do("context full: summarizing", is_long=True)
        elif Change.COMPACTED in what:
            self._begin_numbers()
        status.offer(now.tool_offer)
        if now.is_answering and what & (Change.CALLS | Change.ASKED | Change.OPENED):
            if now.tool_activity is not None:
                status.do(now.tool_activity, is_long=True)
            elif Change.CALLS in what:
                self._begin_numbers()
        if (now.answered_elsewhere, now.asks_elsewhere) != self._named:
            self._name_answered(now)
        if now.phase in (Phase.READY, Phase.ANSWERING):
            status.will_draft(now.drafting)

    def _begin_numbers(self) -> None:
        """Show that the models read the prompt; a continued answer already has numbers."""
        here = self._session.conversation
        running = here.tree.nodes.get(here.running) if here.running is not None else None
        self._view.status.begin(running.numbers if running is not None else None)

    def _name_answered(self, now: Session) -> None:
        self._named = now.answered_elsewhere, now.asks_elsewhere
        if now.answered_elsewhere is None:
            return
        title, view = self._title(now.answered_elsewhere), self._view
        if now.asks_elsewhere:
            view.status.do(f'"{title}" waits for your answer')
            view.hint.ask(f'"{title}" asks whether a tool may run; {key("chat.open")} opens it.')
            if not view.app.app_focus:
                view.app.bell()
        else:
            view.status.do(f'answering "{title}"')

    def _begin_branch(self, now: Session) -> None:
        view = self._view
        view.inspector.begin()
        view.hint.about(None)
        if not now.is_answering and now.pair is not None:
            view.status.ready(now.pair.n_ctx, self._n_used(now))
            self._name_answered(now)
        view.show_last_numbers(now.messages)

    def _n_used(self, now: Session) -> int | None:
        """Return the context tokens of the branch; None if the loaded model did not write its end."""
        last = now.messages[-1] if now.messages else None
        if last is None:
            return 0
        return last.numbers.context_n if last.model and last.model == now.models.get("target") else None

    def _show_pair(self, pair: PairInfo, *, is_new: bool) -> None:
        view = self._view
        view.header.pair = view.panel.pair = pair
        view.inspector.drafter = (pair.draft_kind or Source.MODEL).label
        if is_new:
            view.status.ready(pair.n_ctx, self._n_used(self._session))
        else:
            view.status.holds(pair.n_ctx)

    def _name_other_model(self, now: Session) -> None:
        """Say that another model wrote the opened conversation; a draft model changes no answer."""
        loaded = self._session.models["target"]
        models = (node.model for node in reversed(now.messages) if node.role is Role.ASSISTANT and node.model)
        if (used := next(models, loaded)) != loaded:
            self._view.messages.notice(f"This conversation was answered by {used}. From now on {loaded} answers.")

    def _begin_answer(self, *, is_new: bool) -> None:
        view, last = self._view, self._view.messages.answer
        view.hint.forget()
        if last is None or last.id != self._session.conversation.running:
            view.inspector.begin()
        if is_new:
            self._begin_numbers()
        else:
            view.status.do(None)
        # A sent prompt is no longer in the input line.
        self._line.store_soon()

    def _note_activity(self) -> None:
        """Show a long activity, such as reading the prompt, where the answer will be."""
        answer, activity = self._view.messages.answer, self._view.status.long_activity
        if answer is not None and self._session.conversation.running is not None and self._noted != (answer, activity):
            self._noted = answer, activity
            self._view.messages.note(answer, activity)

    # The end of an answer or of a load

    def _begin_end(self, ended: Outcome, event: Event | None) -> None:
        view = self._view
        if isinstance(event, Finished) and ended.is_open and event.stats.predicted_n:
            view.status.measured(event.stats, event.drafting, live=False)
        elif self._session.phase is Phase.READY:
            view.status.rest("ready")
        if not ended.is_open:
            return
        # A short answer does not call the user back from another window.
        if view.status.seconds >= LONG_S and not view.app.app_focus:
            view.app.bell()
        view.set_timer(COLLECT_DELAY_S, _collect)
        if not view.hint.confirms:
            view.hint.forget()

    async def _show_end(self, ended: Outcome, *, can_focus: bool) -> None:
        hint, failure = self._view.hint, ended.ending.failure
        if ended.returned:
            hint.say("The waiting prompts were not sent; they are back in the input line.")
        elif ended.reverted:
            hint.ask(in_vain(ended.ending, self._session.pair, thought=ended.thought))
        elif not ended.counts:
            self._line.give_back(ended.prompt, unless_typed=True)
        if isinstance(failure, DoesNotFitError) and failure.offers and self._session.phase is Phase.READY:
            # The options are valid now; the stored answer says only why it failed.
            await self._view.offer(AppError("Options that make it fit:"), tuple(map(self._fix, failure.offers)))
            if can_focus:
                self._focus_options()

    async def _show_failed_load(self, error: AppError | None, *, can_focus: bool) -> None:
        if isinstance(error, DoesNotFitError):
            hint = "" if error.offers else f"{key('chat.pairs')} chooses another pair."
            options = tuple(map(self._fix, error.offers))
            await self._view.fail(AppError(error.message, hint), options)
        elif error is not None:
            await self._view.fail(error, ())
        if can_focus:
            self._focus_options()

    def _report(self, ended: Outcome) -> None:
        if self._session.library.has_deleted(ended.conversation):
            return
        view, title = self._view, self._title(ended.conversation)
        outcome = "is answered" if ended.ending.failure is None else "was not answered"
        if ended.ending.reason is FinishReason.CANCELLED:
            outcome = "was stopped"
        view.hint.say(f'"{title}" {outcome}; {key("chat.open")} opens it.')
        if not view.app.app_focus:
            view.app.bell()

    def _title(self, conversation: int | None) -> str:
        return fit(printable(self._session.library.title(conversation)), _TITLE_COLUMNS) or "A new conversation"

    def _focus_options(self) -> None:
        for options in self._view.query(FitOptionList):
            options.focus(scroll_visible=False)

    @property
    def _can_focus_options(self) -> bool:
        """Return whether the user types nothing, so that the options may take the keys."""
        return not self._view.prompt.text and self._view.screen.focused in (None, self._view.prompt)


def collect_young_objects_only() -> None:
    """Leave the oldest generation to the end of an answer: a full collection would interrupt its drawing."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER_COLLECTED)


def _collect() -> None:
    # Textual cannot call a built-in function.
    gc.collect()
