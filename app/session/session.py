"""The one owner of a chat: commands and worker events in, what changed out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.attached import with_marks
from app.conversations.message import Ending, Prefill
from app.conversations.tree import Node
from app.core.errors import AppError
from app.engine.events import PromptProgress, Step
from app.engine.types import AutoDraft, FinishReason
from app.models.pair_info import PairInfo
from app.session.active_conversations import ActiveConversations
from app.session.answering import Answering, Engine
from app.session.chat_settings import ChatSettings, Comparable, chat_settings
from app.session.conversation import Conversation
from app.session.library import Library, Mark, StoreOpener
from app.session.pair_state import PairState
from app.session.state import Blocked, BlockedError, Change, Changes, DraftState, Idle, Phase
from app.session.tool_use import Permission, Question, ToolUse
from app.session.turn import Outcome
from app.settings.kinds import Value
from app.settings.live import LiveSettings
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, LoadProgress, Measuring, PairChanged
from app.worker.jobs import PromptSize
from app.worker.tool_events import ToolReturned, ToolsListed

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader


class Session:
    """A chat with one pair and one open conversation; another one may be answered meanwhile.

    Every command returns at once. `handle` takes every event of the worker, in order, on the thread that gives the
    commands; it returns what changed, and `take_changes` does so after a command.

    Args:
        title: Name of the pair, shown until it is loaded.
        open_store: Opens the conversations; None keeps them in memory only.
        is_loading: Whether the engine was told to load a pair.
        tools: The tools that the model may call; None for none.

    Attributes:
        is_behind: Whether a request of another program is answered before the prompt.
    """

    def __init__(
        self,
        engine: Engine,
        title: str,
        live: LiveSettings,
        open_store: StoreOpener | None = None,
        *,
        is_loading: bool = True,
        tools: ToolUse | None = None,
    ) -> None:
        self.engine = engine
        self.library = Library(open_store)
        self.library.open_number = lambda: self.conversation.number
        self.library.marks = lambda: self.marks
        self.is_behind = False
        self._active = ActiveConversations(self.library, lambda: self.models)
        self.phase = Phase.LOADING if is_loading else Phase.UNLOADED
        self._pair = PairState(engine, title, is_loading=is_loading)
        self._live = live
        self._pair.use_mode(self.settings.drafting, again=True)
        self._answering = Answering(engine, self._active, self._settings_of)
        self.tools = tools
        self._prefill: Prefill | None = None
        self._what = Change.NOTHING
        self._ended: Outcome | None = None

    # What readers see

    @property
    def conversation(self) -> Conversation:
        """Return the open conversation."""
        return self._active.open

    @property
    def title(self) -> str:
        """Return the name of the pair that is loaded, or is being loaded."""
        return self._pair.title

    @property
    def waiting(self) -> str | None:
        """Return the prompt that waits for the models, at the end of the branch."""
        here = self.conversation
        return here.queued[0] if self.phase is Phase.LOADING and here.queued and here.running is None else None

    @property
    def queued(self) -> tuple[str, ...]:
        """Return further prompts of the open conversation that wait, first one first."""
        return self.conversation.queued[self.waiting is not None :]

    @property
    def messages(self) -> tuple[Node, ...]:
        """Return the active branch; a prompt that waits for the models stands at its end with negative ids."""
        waiting, here = self.waiting, self.conversation
        return here.messages if waiting is None else here.messages_with(waiting)

    @property
    def is_compacting(self) -> bool:
        """Return whether earlier messages are being summarized for the answer."""
        return self._answering.n_kept is not None

    @property
    def typed(self) -> PromptSize | None:
        """Return the size of the conversation with the typed prompt, if it was counted."""
        return self._answering.typed

    @property
    def picture_tokens(self) -> Mapping[str, int]:
        """Return the tokens of each counted picture by its digest."""
        return self._answering.picture_tokens

    @property
    def is_answering(self) -> bool:
        """Return whether an answer in the open conversation is being written, or waits for a tool."""
        return self.conversation.running is not None or (
            self.phase is Phase.ANSWERING and self._active.answered is self.conversation
        )

    @property
    def question(self) -> Question | None:
        """Return what the user must answer before the open conversation goes on, if anything."""
        return self.tools.question if self.tools is not None and self.is_answering else None

    @property
    def n_tools(self) -> int:
        """Return how many tools the last prompt offered the model."""
        return len(self._answering.tools)

    @property
    def tool_activity(self) -> str | None:
        """Return what the turn waits for, if it waits for a tool."""
        return self.tools.activity if self.tools is not None and self.is_answering else None

    @property
    def active_settings(self) -> tuple[str, ...]:
        """Return the settings in force that change answers, such as a preset."""
        preset = self._live.preset
        system = ("system prompt",) if self.settings.system else ()
        return system if preset is None else (*system, f"preset {preset}")

    @property
    def pair(self) -> PairInfo | None:
        """Return the loaded pair."""
        return self._pair.info

    @property
    def models(self) -> dict[str, str]:
        """Return the names of the loaded models by role."""
        return self._pair.models

    @property
    def has_asked_for_pair(self) -> bool:
        """Return whether a pair was loaded, is being loaded or could not be loaded."""
        return self._pair.was_requested

    @property
    def answered_elsewhere(self) -> int | None:
        """Return the conversation that is being answered, if it is not the open one."""
        answered = self._active.answered
        return answered.number if self.phase is Phase.ANSWERING and answered is not self.conversation else None

    @property
    def marks(self) -> dict[int, Mark]:
        """Return what happens in conversations that are not open, by id."""
        return self._active.marks(is_answering=self.phase is Phase.ANSWERING)

    @property
    def settings(self) -> ChatSettings:
        """Return how the next answer in the open conversation is asked for."""
        return self._settings_of(self.conversation)

    def _settings_of(self, conversation: Conversation) -> ChatSettings:
        is_open = conversation is self.conversation
        return chat_settings(self._pair.title, self._live.resolved(None if is_open else conversation.settings))

    @property
    def drafting(self) -> DraftState:
        return self._pair.drafting(self.settings.drafting)

    @property
    def can_switch_running(self) -> bool:
        """Return whether turning drafting on or off takes effect in the running answer."""
        return self.conversation.running is not None and self._answering.can_switch

    @property
    def _can_answer(self) -> bool:
        return self.phase is Phase.READY and not self._active.has_waiting

    @property
    def can_regenerate(self) -> bool:
        return self._can_answer and self.conversation.turn.prompt is not None

    @property
    def _blocked(self) -> Blocked | None:
        """Why the open conversation cannot be answered now."""
        phase, here = self.phase, self.conversation
        reasons = (
            (phase is Phase.UNLOADED, Blocked.UNLOADED),
            (bool(here.queued), Blocked.WAITING),
            (self.is_answering, Blocked.ANSWERING),
            (phase is Phase.ANSWERING or self._active.has_waiting, Blocked.ELSEWHERE),
            (phase is Phase.LOADING, Blocked.LOADING),
        )
        return next((why for holds, why in reasons if holds), None)

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt was sent in the open conversation that has no answer yet."""
        return self.is_answering or bool(self.conversation.queued)

    def refuse_if_blocked(self) -> None:
        """Raise BlockedError if no answer can begin in the open conversation now."""
        if (why := self._blocked) is not None:
            raise BlockedError(why)

    def refuse_if_busy(self) -> None:
        """Raise BlockedError if `is_busy`."""
        if self.is_busy:
            self.refuse_if_blocked()

    # Commands; they raise AppError if they are not possible

    def send(self, text: str) -> None:
        """Ask a prompt, or let it wait for the models or for other answers."""
        if self.phase is Phase.UNLOADED:
            raise BlockedError(Blocked.UNLOADED)
        self.conversation.unsent_text = ""
        if self._can_answer:
            self._ask(text)
            return
        self._active.add_prompt(text)
        if self.phase is Phase.LOADING:
            self._what |= Change.WAITING
        self._go_on()

    def _ask(self, text: str, instead_of: int | None = None) -> None:
        self.conversation.ask(text, instead_of)
        self._start(self.conversation)

    def count(self, text: str) -> None:
        """Count the tokens of the open conversation with a typed prompt, unless an answer is being written."""
        if self.phase is Phase.READY:
            self._answering.begin_count(self.conversation, text)

    def forget_count(self) -> bool:
        """Forget the count of a typed prompt; return whether there was one."""
        had_count = self._answering.typed is not None
        self._answering.count_job = self._answering.typed = None
        return had_count

    def take_back(self) -> str | None:
        """Withdraw and return the last prompt that waits in the open conversation."""
        return self._active.take_back()

    def edit(self, prompt: int, text: str) -> None:
        """Ask another text as a branch beside a prompt; the same text is answered again."""
        self.refuse_if_blocked()
        if with_marks(self._node(prompt).text) == with_marks(text):
            self.regenerate(prompt)
        else:
            self._ask(text, prompt)

    def regenerate(self, prompt: int | None = None) -> None:
        """Answer a prompt again, by default the last one."""
        self.refuse_if_blocked()
        self.conversation.regenerate(self.conversation.turn.prompt if prompt is None else self._node(prompt))
        self._start(self.conversation)

    def resume(self, answer: int) -> None:
        """Continue an answer that ended early."""
        self.refuse_if_blocked()
        node = self._node(answer)
        self.conversation.switch(answer)
        self._start(self.conversation, self.conversation.resume(node))

    def _node(self, message: int) -> Node:
        node = self.conversation.tree.nodes.get(message)
        if node is None:
            raise AppError("This message is not part of the conversation.")
        return node

    def stop(self) -> bool:
        """Stop the running answer of the open conversation, whose text stays; return whether there is one.

        An answer that waits for another program's request ends at once.
        """
        if not self.is_answering or not self._stop_running():
            return False
        if self.is_behind and self.conversation.running is not None:
            self._end(self.conversation.stop())
        return True

    def _stop_running(self) -> bool:
        if self.phase is not Phase.ANSWERING:
            return False
        outcome = self.tools.stop(self._active.answered) if self.tools is not None else None
        if outcome is not None:
            self._end(outcome)
        else:
            self.engine.cancel(self._answering.number)
        return True

    def _start(self, conversation: Conversation, prefill: Prefill | None = None) -> None:
        self._active.answered, self._prefill = conversation, prefill
        self.phase, self.is_behind = Phase.ANSWERING, False
        self._what |= Change.ASKED if conversation is self.conversation else Change.NOTHING
        try:
            waits = self.tools is not None and self.tools.connect(self._settings_of(conversation).tools)
        except AppError as error:
            self.library.say(f"{error.sentences} This answer has no tools.")
            waits = False
        if not waits:
            self._begin_answer()

    def _begin_answer(self) -> None:
        self._answering.tools = self.tools.offered if self.tools is not None else ()
        self._answering.start(self._active.answered, self._prefill)

    # Calls of tools

    def permit(self, permission: Permission) -> None:
        """Answer the question about a call."""
        if self.tools is None or self.question is None:
            raise AppError("No call of a tool waits for you.")
        goes_on = self.tools.answer(permission, self.conversation)
        self._what |= Change.CALLS
        if not goes_on:
            self._end(Outcome(Ending(FinishReason.CANCELLED), "", counts=True))
        elif self.tools.running is None:
            self._run_calls()

    def _run_calls(self, result: ToolReturned | None = None) -> None:
        """Store the result of a call, if given, and run the next calls that are allowed; then let the model go on."""
        conversation, tools = self._active.answered, self.tools
        assert tools is not None
        try:
            if result is not None and not tools.take_result(result, conversation):
                return
            self._what |= Change.CALLS
            if tools.next(conversation, self._settings_of(conversation).tool_rounds):
                conversation.go_on()
                self._answering.start(conversation)
        except AppError as error:
            self._end(Outcome(Ending(failure=error), "", counts=True))

    def _go_on(self) -> None:
        """Answer the next prompt that waits, else let the engine measure the pair."""
        if self.phase is Phase.READY and (conversation := self._active.ask_next()) is not None:
            self._start(conversation)
            self._apply_settings()
        if self.phase is Phase.READY and isinstance(self.settings.drafting, AutoDraft) and self.drafting.is_available:
            self._answering.begin_measuring()

    @property
    def summary(self) -> str | None:
        """Return the summary that the model reads in place of earlier messages, if any."""
        return self.conversation.read_before(None)[0] or None

    def set_summary(self, text: str) -> None:
        """Change the summary, if there is one."""
        self.refuse_if_busy()
        holder = next((node for node in reversed(self.conversation.tree.path) if node.compaction is not None), None)
        if holder is not None and holder.compaction is not None:
            self.conversation.set_numbers(holder, replace(holder.compaction, summary=text.strip()).numbers)

    def comparable(self, typed: str) -> Comparable:
        """Return the typed prompt, or else the last one, ready to be compared. Raises UsageError."""
        return self._answering.comparable(self.conversation, typed, self.pair, self.drafting)

    # Commands: conversations and branches

    def switch(self, message: int) -> None:
        """Make the branch through a message the active one."""
        self.refuse_if_busy()
        self.conversation.switch(self._node(message).id)
        self._what |= Change.BRANCH

    def rewrite(self, answer: int, text: str) -> None:
        """Add the user's own answer beside one."""
        self.refuse_if_busy()
        self.conversation.rewrite(self._node(answer), text)
        self._what |= Change.BRANCH

    def delete(self, message: int) -> None:
        """Remove a message; see `Tree.without_message`."""
        self.refuse_if_busy()
        self.conversation.delete(self._node(message))
        self._what |= Change.BRANCH

    def undelete(self) -> None:
        """Restore the message that was deleted last."""
        self.refuse_if_busy()
        self.conversation.undelete()
        self._what |= Change.BRANCH

    def fork(self, message: int) -> int:
        """Copy the branch up to a message into a new conversation; return its id."""
        return self.conversation.fork(self._node(message))

    def new_conversation(self, unsent_text: str = "") -> None:
        """Begin an empty conversation; store `unsent_text` with the previous one, whose answer goes on."""
        self._active.open_empty(unsent_text)
        self._enter()

    def open_conversation(self, number: int, unsent_text: str = "") -> bool:
        """Open another conversation; return whether it exists."""
        if not self._active.open_stored(number, unsent_text):
            return False
        self._enter()
        return True

    def _enter(self) -> None:
        self._what |= Change.OPENED
        for problem in self._live.enter(self.conversation.settings):
            self.library.say(f"This conversation's settings: {problem.text}")
        self._apply_settings()
        self.drop_deleted()

    def drop_deleted(self) -> None:
        """Stop the answers of deleted conversations that are not open; prompts that wait stay as unsent text."""
        self._active.give_up_deleted()
        elsewhere = self.answered_elsewhere
        if elsewhere is not None and self.library.has_deleted(elsewhere):
            self._stop_running()

    # Commands: settings and models

    def set_setting(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None removes it."""
        self._live.set_own(name, value)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Use changed settings from the next answer on, and store the conversation's own."""
        self.conversation.set_settings(self._live.document)
        self._apply_settings()

    def _apply_settings(self) -> None:
        self._pair.use_mode(self.settings.drafting)
        if self.phase is not Phase.LOADING and self.answered_elsewhere is None:
            self.engine.draft(self.drafting.is_on)

    def set_drafting(self, on: bool) -> None:
        """Turn drafting on or off, also within the running answer."""
        self._pair.switch(on)
        self.engine.draft(self.drafting.is_on)

    def load(self, loader: Loader, title: str, *, waits: bool = False) -> None:
        """Load another pair; a running answer is stopped first, or ends first if the pair `waits`."""
        self._pair.next = loader, title
        if self.phase is not Phase.ANSWERING:
            self._load_next()
        elif not waits:
            self._stop_running()

    def _load_next(self) -> None:
        if self._pair.load_next():
            self.phase = Phase.LOADING
            self._what |= Change.LOADING
            self._pair.use_mode(self.settings.drafting, again=True)

    # Events of the worker

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come without a further command."""
        return self.phase in (Phase.LOADING, Phase.ANSWERING) or self._answering.measure_job is not None

    def take_changes(self) -> Changes:
        """Return what the commands have changed since the last call."""
        changes = Changes(self._what, self._ended)
        self._what, self._ended = Change.NOTHING, None
        return changes

    def handle(self, event: Event | Idle) -> Changes:
        """Take an event; return what changed. An event that belongs to no request of this chat changes nothing."""
        match event:
            case Idle(next_s):
                self._active.answered.save_due(next_s)
                return Changes()
            case LoadProgress() | Measuring() | PromptProgress() | Step():
                return Changes(self._progress(event))
            case _ if self._answering.expects(event):
                self._handle(event)
        return self.take_changes()

    def _progress(self, event: LoadProgress | Measuring | PromptProgress | Step) -> Change:
        if isinstance(event, PromptProgress | Step) and self.phase is Phase.ANSWERING:
            self.is_behind = event.request != self._answering.number
        if not self._answering.expects(event):
            return Change.NOTHING
        if isinstance(event, Step):
            self._active.answered.add(event.segments)
        # A comparison that loads the pair again shows that itself.
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
            case JobEnded() | Failed() if event.request == self._answering.measure_job:
                self._answering.measure_job = None
                self._what |= Change.MEASURED
                if isinstance(event, JobEnded) and event.result is False and self.phase is Phase.READY:
                    # A request of another program interrupted it.
                    self._go_on()
            case JobEnded() | Failed() if event.request == self._answering.count_job:
                # An error is shown again when the prompt is sent.
                found = event.result if isinstance(event, JobEnded) else None
                self._answering.typed = found if isinstance(found, PromptSize) else None
                self._answering.picture_tokens |= found.pictures if isinstance(found, PromptSize) else {}
                self._what |= Change.COUNTED
            case JobEnded(request=number, result=str(title)) if number == self._answering.title_job:
                self._answering.take_title(title)
            case Finished(reason=FinishReason.CANCELLED) if self._answering.n_kept is not None:
                self._end(self._active.answered.stop())
            case Finished() | Failed() if self._answering.n_kept is not None:
                self._answering.go_on(event.text if isinstance(event, Finished) else "")
                self._what |= Change.COMPACTED
            case ToolsListed() if self.tools is not None:
                if event.error is not None:
                    self.library.say(event.error.sentences)
                if self.tools.take_list(event):
                    self._begin_answer()
                self._what |= Change.CALLS
            case ToolReturned():
                self._run_calls(event)
            case Finished():
                self._finished(event)
            case Failed(error=error) if not self._compacts(error):
                self._end(self._active.answered.fail(error))

    def _compacts(self, error: AppError) -> bool:
        """Make room for an answer that failed because the context is full; return whether it goes on."""
        return self.pair is not None and self._answering.compact(error, self.pair.n_ctx)

    def _finished(self, event: Finished) -> None:
        conversation = self._active.answered
        running, outcome = conversation.running, conversation.finish(event)
        if event.reason is FinishReason.CONTEXT and self._answering.can_compact and running is not None:
            # Earlier messages make room for the rest.
            with suppress(AppError):
                self._answering.start(conversation, conversation.resume(conversation.tree.nodes[running]))
                return
        answer = conversation.tree.nodes.get(running or 0)
        if answer is not None and answer.calls and self.tools is not None and self.pair is not None:
            self.tools.begin(answer.calls, event.stats, self.pair.n_ctx)
            self._run_calls()
            return
        self._end(outcome)

    def _loaded(self, pair: PairInfo) -> None:
        self.phase = Phase.READY
        self._what |= Change.LOADED
        self._pair.take(pair)
        self._pair.switch(self.drafting.is_on)
        self.engine.draft(self.drafting.is_on)
        self._go_on()

    def _end(self, outcome: Outcome) -> None:
        """End an answer; the prompts that waited for it come back if it failed or was stopped."""
        conversation = self._active.answered
        self._answering.end()
        self.phase = Phase.READY
        self._active.ended()
        if conversation is not self.conversation:
            self._apply_settings()
        ending, returned = outcome.ending, ""
        if ending.failure is not None or ending.reason is FinishReason.CANCELLED:
            returned = self._active.give_up(conversation)
        self._load_next()
        # A recurrent model would read the conversation again after the title.
        if self._can_answer and self.pair is not None and self.pair.most_drafted is None:
            self._answering.begin_title()
        self._go_on()
        is_open = conversation is self.conversation
        self._ended = replace(outcome, conversation=conversation.number, is_open=is_open, returned=returned)

    def close(self, unsent_text: str | None = None) -> None:
        """Stop the answer and close the store; `unsent_text` is the text of the input line, None for the stored one."""
        self.engine.cancel()
        if unsent_text is not None:
            self.conversation.set_unsent_text(unsent_text)
        self._active.answered.abandon()
        self.library.close()
