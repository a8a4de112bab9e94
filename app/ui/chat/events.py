"""Worker events on the chat screen: to the session first, then to the widgets."""

from __future__ import annotations

from dataclasses import replace

from app.session.snapshot import Phase
from app.session.turn import Outcome
from app.ui.chat.base import ChatBase
from app.ui.chat.error_hints import in_chat
from app.ui.chat.input_mode import InputMode
from app.ui.chat.renderer import Renderer, branches_beside
from app.ui.event_queue import Batch, SingleEvent
from app.ui.garbage_collection import COLLECT_DELAY_S, collect
from app.ui.models.fit_options import FitOptionList, NoRoomError
from app.ui.transcript.ended import in_vain
from app.ui.transcript.message import AnswerMessage
from app.worker.events import Event, Failed, Finished, Loaded, Measuring, Notice

_PURGE_S = 0.3
"""Seconds between two steps of removing deleted conversations; keys go first."""
_MEASURED_ONCE = "measures what drafts cost here, once, and then answers"
_MEASURED_AGAIN = "measures once more whether drafts pay, and then answers"


class ChatEvents:
    """Handles the worker's events; see `app.ui.event_dispatcher.EventHandler`.

    Args:
        screen: The chat.
        renderer: Draws the session.
        input_mode: Gets an unanswered prompt back.
    """

    def __init__(self, screen: ChatBase, renderer: Renderer, input_mode: InputMode) -> None:
        self._screen = screen
        self._session = screen.session
        self._renderer = renderer
        self._input_mode = input_mode
        self._noted: tuple[AnswerMessage, str] | None = None

    @property
    def expects_events(self) -> bool:
        return self._session.expects_events

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to this chat as it is now."""
        return self._session.expects(event)

    def rest(self, next_s: float) -> None:
        self._screen.status.catch_up()
        self._note_reading()
        self._session.tick(next_s)

    async def show(self, batch: Batch) -> None:
        screen = self._screen
        # A pair may be loaded again for a comparison, which shows that itself.
        if self.expects_events:
            screen.status.follow(batch.latest)
        self._session.add(batch.segments)
        answer = screen.messages.answer
        self._note_progress(batch)
        if answer is None:
            return
        if batch.segments:
            screen.hint.unseen(not screen.messages.following)
            await answer.add(batch.segments)
        screen.inspector.add(batch.details)
        if screen.shows_tokens and not answer.shows_tokens:
            await answer.show_tokens(True)

    def _note_progress(self, batch: Batch) -> None:
        """Say below an answer without text that its pair is measured or its prompt is read."""
        latest, answer = batch.latest, self._screen.messages.answer
        if isinstance(latest, Measuring) and self._screen.status.keeps_waiting(latest):
            self._note(answer, _MEASURED_AGAIN if latest.again else _MEASURED_ONCE)
        elif not self._note_reading():
            self._note(answer, "")

    def _note_reading(self) -> bool:
        line = self._screen.status.reading_line
        if line:
            self._note(self._screen.messages.answer, line)
        return bool(line)

    def _note(self, answer: AnswerMessage | None, text: str) -> None:
        """Replace the progress below an answer; "" leaves other remarks alone."""
        noted = self._noted
        if answer is None or noted == (answer, text) or (not text and (noted is None or noted[0] is not answer)):
            return
        self._noted = (answer, text) if text else None
        answer.note(text)

    async def handle(self, event: SingleEvent) -> None:
        match event:
            case Notice(text):
                await self._screen.messages.notice(text)
            case Finished():
                await self._finished(event)
            case Failed(request=None):
                await self._load_failed(event)
            case Failed():
                await self._failed(event)
            case _:
                self._session.handle(event)
                await self._renderer.render()
                if isinstance(event, Loaded):
                    self._purge()
        self._screen.refresh_bindings()

    def _purge(self) -> None:
        """Remove long-deleted conversations bit by bit while nothing is asked."""
        if self._session.phase is Phase.READY and self._session.library.purge():
            self._screen.set_timer(_PURGE_S, self._purge)

    async def _finished(self, event: Finished) -> None:
        screen = self._screen
        outcome = self._session.handle(event)
        if event.stats.predicted_n:
            screen.status.measured(event.stats, event.drafting, live=False)
        else:
            screen.status.in_vain()
        if outcome is not None:
            await self._ended(outcome)

    async def _failed(self, event: Failed) -> None:
        error, is_idle = in_chat(event.error, self._screen), self._is_idle
        outcome = self._session.handle(replace(event, error=error))
        if outcome is None:
            return
        await self._ended(outcome)
        if self._session.phase is not Phase.READY:
            return
        self._screen.status.in_vain()
        if isinstance(error, NoRoomError) and error.options:
            # They hold for now; the stored answer says only why it failed.
            await self._screen.messages.offer(error.options)
            if is_idle:
                self.focus_ways()

    async def _load_failed(self, event: Failed) -> None:
        self._session.handle(event)
        if self._session.phase is not Phase.UNLOADED:
            return
        is_idle = self._is_idle
        waiting = self._session.take_back()
        await self._renderer.render()
        if waiting is not None:
            self._input_mode.give_back_message(waiting)
        await self._screen.messages.fail(event.error)
        if is_idle:
            self.focus_ways()

    async def _ended(self, outcome: Outcome) -> None:
        screen = self._screen
        self._noted = None
        screen.attention.end()
        screen.set_timer(COLLECT_DELAY_S, collect)
        screen.hint.forget()
        await self._renderer.render()
        if outcome.reverted:
            screen.hint.ask(in_vain(outcome.ending, thought=outcome.thought))
        elif not outcome.counts:
            self._input_mode.give_back_unanswered(outcome.prompt)
        elif beside := branches_beside(self._session.conversation.tree):
            screen.workspace.tell_about_last(beside)

    def focus_ways(self) -> None:
        """Let keys take a way out of a pair that does not fit."""
        for ways in self._screen.query(FitOptionList):
            ways.focus()

    @property
    def _is_idle(self) -> bool:
        """Return whether the user types nothing, so that the ways out may take the keys."""
        return not self._screen.prompt.text and self._screen.focused in (None, self._screen.prompt)
