"""Worker events on the chat screen: to the session first, then to the widgets."""

from __future__ import annotations

import gc
from dataclasses import replace

from app.session.snapshot import Phase
from app.session.turn import Outcome
from app.ui.chat.base import ChatBase
from app.ui.chat.error_hints import with_keys
from app.ui.chat.input_mode import InputMode
from app.ui.chat.renderer import Renderer
from app.ui.commands.table import COMMANDS
from app.ui.event_queue import Batch, SingleEvent
from app.ui.models.fit_options import FitOptionList, NoRoomError
from app.ui.transcript.message import AnswerMessage, in_vain
from app.worker.events import Event, Failed, Finished, Notice

COLLECT_DELAY_S = 1.0
"""From the end of an answer to the full garbage collection, which takes a tenth of a second."""
LONG_S = 20.0
"""The end of a longer answer rings the bell if another window has the focus."""


class ChatEvents:
    """Handles the worker's events; see `app.ui.event_queue.EventHandler`.

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
        self._noted: tuple[AnswerMessage | None, str] = (None, "")

    @property
    def expects_events(self) -> bool:
        return self._session.expects_events

    def expects(self, event: Event) -> bool:
        return self._session.expects(event)

    def rest(self, next_s: float) -> None:
        self._screen.status.catch_up()
        self._note_activity()
        self._session.tick(next_s)

    async def show(self, batch: Batch) -> None:
        screen = self._screen
        # A pair may be loaded again for a comparison, which shows that itself.
        if self.expects_events:
            screen.status.follow(batch.latest)
        self._session.add(batch.segments)
        self._note_activity()
        answer = screen.messages.answer
        if answer is None:
            return
        if batch.segments:
            screen.hint.unseen(not screen.messages.following)
            await answer.add(batch.segments)
        screen.inspector.add(batch.details)
        if screen.shows_tokens and not answer.shows_tokens:
            await answer.show_tokens(True)

    def _note_activity(self) -> None:
        """Show a long activity, such as reading the prompt, where the answer will be."""
        answer, activity = self._screen.messages.answer, self._screen.status.long_activity
        if answer is not None and self._session.phase is Phase.ANSWERING and self._noted != (answer, activity):
            self._noted = answer, activity
            answer.note(activity)

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
        self._screen.refresh_bindings()

    async def _finished(self, event: Finished) -> None:
        outcome = self._session.handle(event)
        if event.stats.predicted_n:
            self._screen.status.measured(event.stats, event.drafting, live=False)
        else:
            self._screen.status.in_vain()
        await (self._ended(outcome) if outcome is not None else self._renderer.render())

    async def _failed(self, event: Failed) -> None:
        if self._session.compact(event.error):
            await self._renderer.render()
            return
        error, can_focus = with_keys(event.error, self._session.pair), self._can_focus_options
        outcome = self._session.handle(replace(event, error=error))
        if outcome is None:
            await self._renderer.render()
            return
        await self._ended(outcome)
        if self._session.phase is not Phase.READY:
            return
        self._screen.status.in_vain()
        if isinstance(error, NoRoomError) and error.options:
            # They hold for now; the stored answer says only why it failed.
            await self._screen.messages.offer(error.options)
            if can_focus:
                self._focus_options()

    async def _load_failed(self, event: Failed) -> None:
        self._session.handle(event)
        if self._session.phase is not Phase.UNLOADED:
            return
        can_focus, waiting = self._can_focus_options, self._session.take_back()
        await self._renderer.render()
        if waiting is not None:
            self._input_mode.give_back(COMMANDS.as_typed(waiting))
        await self._screen.messages.fail(event.error)
        if can_focus:
            self._focus_options()

    async def _ended(self, outcome: Outcome) -> None:
        screen = self._screen
        # A short answer calls no one back from another window.
        if screen.status.seconds >= LONG_S and not screen.app.app_focus:
            screen.app.bell()
        screen.set_timer(COLLECT_DELAY_S, _collect)
        screen.hint.forget()
        await self._renderer.render()
        if outcome.reverted:
            screen.hint.ask(in_vain(outcome.ending, thought=outcome.thought))
        elif not outcome.counts:
            self._input_mode.offer_again(outcome.prompt)

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
