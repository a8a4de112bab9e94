"""Reactions to worker events: answers begin and end, tool calls run, pairs are loaded."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import cast

from app.conversations.message import Ending
from app.core.errors import AppError
from app.engine.events import PromptProgress, Step
from app.engine.types import AutoDraft, FinishReason
from app.models.pair_info import PairInfo
from app.session.conversation import Conversation
from app.session.facts import ChatFacts
from app.session.state import Change, Changes, Outcome, Phase
from app.settings.layers import drafting
from app.worker.events import (
    Event,
    Failed,
    Finished,
    FrequentEvent,
    JobEnded,
    Loaded,
    PairChanged,
    ToolReturned,
    ToolsListed,
)


class ChatEvents(ChatFacts):
    """Handles every event of the worker, in order, on the thread that gives the commands."""

    def take_changes(self) -> Changes:
        """Return the changes by commands since the last call."""
        changes = Changes(self._what, self._ended)
        self._what, self._ended = Change.NOTHING, None
        return changes

    def save_due(self, next_s: float) -> None:
        """Store shown text that cannot wait `next_s` seconds for the next call."""
        self._active.answered.save_due(next_s)

    def handle(self, event: Event) -> Changes:
        """Handle an event; return the changes. An event of no request of this chat changes nothing."""
        if isinstance(event, FrequentEvent):
            return Changes(self._progress(event))
        if self.answering.expects(event):
            self._handle(event)
        return self.take_changes()

    def _progress(self, event: FrequentEvent) -> Change:
        if isinstance(event, PromptProgress | Step) and self.phase is Phase.ANSWERING:
            self.is_behind = event.request != self.answering.number
        if not self.answering.expects(event):
            return Change.NOTHING
        if isinstance(event, Step):
            self._active.answered.add(event.segments)
        # A comparison shows its own loading.
        is_seen = self.expects_events and self.answered_elsewhere is None
        return Change.PROGRESS if is_seen else Change.NOTHING

    def _handle(self, event: Event) -> None:
        match event:
            case PairChanged(pair) | Loaded(pair) if not self._pair.is_loading:
                self._pair.take(pair)
                self._what |= Change.PAIR
            case Loaded() | Failed(request=None) if self._pair.end_load():
                pass
            case Loaded(pair):
                self._loaded(pair)
            case Failed(request=None):
                self.phase = Phase.UNLOADED
                self._what |= Change.UNLOADED
                self._ended = Outcome(Ending(failure=event.error), "", returned=self._active.give_up_all())
            case JobEnded() | Failed() if event.request != self.answering.number:
                self._what |= (change := self.answering.take_job(event))
                is_interrupted = change is Change.MEASURED and isinstance(event, JobEnded) and event.result is False
                if is_interrupted and self.phase is Phase.READY:
                    # A request of another program interrupted the measurement.
                    self._go_on()
            case Finished(reason=FinishReason.CANCELLED) if self.answering.n_kept is not None:
                self._end(self._active.answered.stop())
            case Finished() | Failed() if self.answering.n_kept is not None:
                self.answering.go_on(event.text if isinstance(event, Finished) else "")
                self._what |= Change.COMPACTED
            case ToolsListed():
                is_ready = self.tools.take_list(event)
                if event.error is not None:
                    self.library.say(self.tools.failures_with(event.server))
                if is_ready:
                    self._begin_answer()
                self._what |= Change.CALLS
            case ToolReturned():
                self._run_calls(event)
            case Finished():
                self._finished(event)
            case Failed(error=error) if not self._compacts(error):
                self._end(self._active.answered.fail(error))

    def _compacts(self, error: AppError) -> bool:
        """Make room for an answer that failed because the context is full; return whether it continues."""
        return self.pair is not None and self.answering.compact(error, self.pair.n_ctx)

    def _finished(self, event: Finished) -> None:
        conversation = self._active.answered
        if self.tools.asks_again(event):
            conversation.discard()
            self._what |= Change.CALLS
            self._answer_results()
            return
        running, outcome = conversation.running, conversation.finish(event)
        if event.reason is FinishReason.CONTEXT and self.answering.can_compact and running is not None:
            # Earlier messages make room for the rest.
            with suppress(AppError):
                conversation.resume(conversation.tree.nodes[running])
                self.answering.start()
                return
        answer = conversation.tree.nodes.get(running or 0)
        if answer is not None and answer.calls and self.pair is not None:
            self.tools.begin(answer.calls, event.stats, self.pair.n_ctx)
            self._run_calls()
        else:
            self._end(outcome)

    def _loaded(self, pair: PairInfo) -> None:
        self.phase = Phase.READY
        self._what |= Change.LOADED
        self._pair.take(pair)
        self.engine.draft(self._pair.drafts)
        self._go_on()

    def _start(self, conversation: Conversation) -> None:
        self._active.answered = conversation
        self.phase, self.is_behind = Phase.ANSWERING, False
        self._what |= Change.ASKED if conversation is self.conversation else Change.NOTHING
        try:
            names = self._settings_of(conversation)["answer.tools"]
            waits = self.tools.connect(names)
        except AppError as error:
            self.library.say(f"{error.sentences} This answer has no tools.")
            waits = False
        if not waits:
            self._begin_answer()

    def _begin_answer(self) -> None:
        conversation = self._active.answered
        if conversation.running is not None:
            self.answering.start()
        elif self.pair is not None:
            self.tools.begin(conversation.tree.open_calls or (), None, self.pair.n_ctx)
            self._run_calls()

    def _run_calls(self, result: ToolReturned | None = None) -> None:
        """Store a call's result, if given, and run the next allowed calls; then let the model continue."""
        conversation, tools = self._active.answered, self.tools
        try:
            if result is not None and not tools.take_result(result, conversation):
                return
            self._what |= Change.CALLS
            limit = cast("int", self._settings_of(conversation)["answer.tool_rounds"])
            goes_on = tools.next(conversation, limit)
        except AppError as error:
            self._end(Outcome(Ending(failure=error), "", counts=True))
            return
        if goes_on:
            self._answer_results()

    def _answer_results(self) -> None:
        """Let the model answer the results of its calls, or end the turn with the error."""
        try:
            self._active.answered.go_on()
            self.answering.start()
        except AppError as error:
            self._end(Outcome(Ending(failure=error), "", counts=True))

    def _go_on(self) -> None:
        if self.phase is Phase.READY and (conversation := self._active.ask_next()) is not None:
            self._start(conversation)
            self._apply_settings()
        is_automatic = isinstance(drafting(self.settings), AutoDraft)
        if self.phase is Phase.READY and is_automatic and self.drafting.is_available:
            self.answering.begin_measuring()

    def _stop_running(self) -> bool:
        if self.phase is not Phase.ANSWERING:
            return False
        outcome = self.tools.stop(self._active.answered)
        if outcome is not None:
            self._end(outcome)
        else:
            self.engine.cancel(self.answering.number)
        return True

    def _apply_settings(self) -> None:
        self._pair.use_mode(drafting(self.settings))
        if self.phase is not Phase.LOADING and self.answered_elsewhere is None:
            self.engine.draft(self._pair.drafts)

    def load_next(self) -> None:
        """Load the pair that waits, if any."""
        if self._pair.load_next():
            self.phase = Phase.LOADING
            self._what |= Change.LOADING
            self._pair.use_mode(drafting(self.settings), again=True)

    def _end(self, outcome: Outcome) -> None:
        """End an answer; if it failed or was stopped, return the prompts that waited for it."""
        conversation = self._active.answered
        self.answering.end()
        self.phase = Phase.READY
        self._active.ended()
        if conversation is not self.conversation:
            self._apply_settings()
        ending, returned = outcome.ending, ""
        if ending.failure is not None or ending.reason is FinishReason.CANCELLED:
            returned = self._active.give_up(conversation)
        self.load_next()
        # A recurrent model would read the conversation again after the title.
        if self._can_answer and self.pair is not None and self.pair.most_drafted is None:
            self.answering.begin_title()
        self._go_on()
        is_open = conversation is self.conversation
        self._ended = replace(outcome, conversation=conversation.number, is_open=is_open, returned=returned)
