"""The one owner of a chat: commands and worker events in, a snapshot out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.message import Ending, Prefill, Role
from app.core.errors import AppError
from app.engine.text.segments import Segment
from app.engine.types import AutoDraft, FinishReason
from app.models.pair_info import PairInfo
from app.session.active_conversations import ActiveConversations
from app.session.answering import Answering, Engine
from app.session.chat_settings import ChatSettings, Comparable, chat_settings
from app.session.conversation import Conversation
from app.session.library import Library, Mark, StoreOpener
from app.session.pair_state import PairState
from app.session.snapshot import DraftState, Phase, Snapshot
from app.session.turn import Outcome
from app.settings.kinds import Value
from app.settings.live import LiveSettings
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, PairChanged, PromptProgress, Step

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader


class Session:
    """A chat with one pair and one open conversation; another one may be answered meanwhile.

    Every command returns at once. Events come from the worker, in order, on the thread that gives the commands.

    Args:
        title: Name of the pair, shown until it is loaded.
        open_store: Opens the conversations; None keeps them in memory only.
        is_loading: Whether the engine was told to load a pair.

    Attributes:
        explain: Words an error for the reader of the chat.
    """

    def __init__(
        self,
        engine: Engine,
        title: str,
        live: LiveSettings,
        open_store: StoreOpener | None = None,
        *,
        is_loading: bool = True,
    ) -> None:
        self.engine = engine
        self.library = Library(open_store)
        self.library.open_number = lambda: self.conversation.number
        self.library.marks = lambda: self.marks
        self.explain: Callable[[AppError], AppError] = lambda error: error
        self._active = ActiveConversations(self.library, lambda: self.models)
        self.phase = Phase.LOADING if is_loading else Phase.UNLOADED
        self._pair = PairState(engine, title, is_loading=is_loading)
        self._live = live
        self._pair.use_mode(self.settings.drafting, again=True)
        self._answering = Answering(engine, self._active, self._settings_of)
        self._switches = 0

    # What readers see

    @property
    def conversation(self) -> Conversation:
        """Return the open conversation."""
        return self._active.open

    @property
    def snapshot(self) -> Snapshot:
        here, queued = self.conversation, self.conversation.queued
        shown = queued[0] if self.phase is Phase.LOADING and queued and here.running is None else None
        return Snapshot(
            phase=self.phase,
            title=self._pair.title,
            loads=self._pair.n_loads,
            pair=self.pair,
            switches=self._switches,
            tree=here.tree,
            messages=here.messages if shown is None else here.messages_with(shown),
            running=here.running,
            waiting=shown,
            queued=queued if shown is None else queued[1:],
            answered_elsewhere=self.answered_elsewhere,
            marks=self.marks,
            active=self._active_settings,
            drafting=self.drafting,
            is_compacting=self._answering.n_kept is not None,
            titles=self._answering.n_titles,
            n_typed=self._answering.n_typed,
        )

    @property
    def _active_settings(self) -> tuple[str, ...]:
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
    def is_busy(self) -> bool:
        """Return whether a prompt was sent in the open conversation that has no answer yet."""
        return self.conversation.running is not None or bool(self.conversation.queued)

    @property
    def can_send(self) -> bool:
        """Return whether a prompt can be sent now, or can wait."""
        return self.phase is not Phase.UNLOADED

    @property
    def can_regenerate(self) -> bool:
        return self._can_answer and self.conversation.turn.prompt is not None

    # Commands: answers

    def send(self, text: str) -> bool:
        """Ask a prompt, or let it wait for the models or for other answers; return whether it was taken."""
        if not self.can_send:
            return False
        self.conversation.unsent_text = ""
        if self._can_answer:
            return self.conversation.ask(text) and self._start(self.conversation)
        self._active.add_prompt(text)
        self._go_on()
        return True

    def count(self, text: str) -> None:
        """Count the tokens of the open conversation with a typed prompt, unless an answer is being written."""
        if self.phase is Phase.READY:
            self._answering.begin_count(self.conversation, text)

    def forget_count(self) -> bool:
        """Forget the count of a typed prompt; return whether there was one."""
        had_count = self._answering.n_typed is not None
        self._answering.count_job = self._answering.n_typed = None
        return had_count

    def take_back(self) -> str | None:
        """Withdraw and return the last prompt that waits in the open conversation."""
        return self._active.take_back()

    def edit(self, prompt: int, text: str) -> bool:
        """Ask another text as a branch beside a prompt; the same text is answered again."""
        old = self.conversation.tree.nodes.get(prompt)
        if not self._can_answer or old is None or old.role is not Role.USER:
            return False
        if old.text == text:
            return self.regenerate(prompt)
        return self.conversation.ask(text, instead_of=prompt) and self._start(self.conversation)

    def regenerate(self, prompt: int | None = None) -> bool:
        """Answer a prompt again, by default the last one."""
        last = self.conversation.turn.prompt
        number = prompt if prompt is not None or last is None else last.id
        if not self._can_answer or number is None or not self.conversation.regenerate(number):
            return False
        return self._start(self.conversation)

    def resume(self, answer: int) -> bool:
        """Continue an answer that ended early."""
        if not self._can_answer or not self.conversation.switch(answer):
            return False
        prefill = self.conversation.resume(answer)
        return prefill is not None and self._start(self.conversation, prefill)

    def stop(self) -> bool:
        """Stop the running answer of the open conversation, whose text stays; return whether there is one."""
        return self.conversation.running is not None and self._stop_running()

    def _stop_running(self) -> bool:
        runs = self.phase is Phase.ANSWERING
        if runs:
            self.engine.cancel(self._answering.number)
        return runs

    def leave_queue(self) -> Outcome | None:
        """End an answer that waits for another program's request, without waiting for the engine."""
        if not self.stop():
            return None
        return self._end(self.conversation.stop())

    @property
    def _can_answer(self) -> bool:
        return self.phase is Phase.READY and not self._active.has_waiting

    def _start(self, conversation: Conversation, prefill: Prefill | None = None) -> bool:
        self._answering.start(conversation, prefill)
        self.phase = Phase.ANSWERING
        return True

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

    def set_summary(self, text: str) -> bool:
        """Change the summary; return whether there is one."""
        holder = next((node for node in reversed(self.conversation.tree.path) if node.compaction is not None), None)
        if self.is_busy or holder is None or holder.compaction is None:
            return False
        self.conversation.compact(holder, replace(holder.compaction, summary=text.strip()))
        return True

    def comparable(self, typed: str) -> Comparable:
        """Return the typed prompt, or else the last one, ready to be compared. Raises UsageError."""
        return self._answering.comparable(self.conversation, typed, self.pair, self.drafting)

    # Commands: conversations and branches

    def switch(self, message: int) -> bool:
        """Make the branch through a message the active one."""
        return not self.is_busy and self.conversation.switch(message)

    def rewrite(self, answer: int, text: str) -> bool:
        """Add the user's own answer beside one."""
        return not self.is_busy and self.conversation.rewrite(answer, text)

    def delete(self, message: int) -> bool:
        """Remove a message; see `Tree.without_message`."""
        is_known = message in self.conversation.tree.nodes
        return is_known and not self.is_busy and self.conversation.delete(message)

    def fork(self, message: int) -> int | None:
        """Copy the branch up to a message into a new conversation; return its id."""
        return self.conversation.fork(message) if message in self.conversation.tree.nodes else None

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
        self._switches += 1
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
            self._pair.use_mode(self.settings.drafting, again=True)

    # Events of the worker

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to this chat as it is now; the text of a summary is not shown."""
        return self._answering.expects(event)

    def is_behind(self, event: Event) -> bool:
        """Return whether an event shows that a request of another program is answered before the prompt."""
        is_progress = isinstance(event, Step | PromptProgress) and event.request != self._answering.number
        return is_progress and self.phase is Phase.ANSWERING

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come without a further command."""
        return self.phase in (Phase.LOADING, Phase.ANSWERING) or self._answering.measure_job is not None

    def add(self, segments: Iterable[Segment]) -> None:
        """Append text to the running answer."""
        self._active.answered.add(segments)

    def save_due(self, next_s: float) -> None:
        """Write text of the running answer that has waited long enough, if the next call comes in `next_s` seconds."""
        self._active.answered.save_due(next_s)

    def handle(self, event: Event) -> Outcome | None:
        """Take an event other than text; return how an answer ended."""
        match event:
            case PairChanged(pair) | Loaded(pair) if not self._pair.is_loading:
                self._pair.take(pair)
            case Loaded() | Failed(request=None) if self._pair.end_load():
                pass
            case Loaded(pair):
                self._loaded(pair)
            case Failed(request=None):
                self.phase = Phase.UNLOADED
                return Outcome(Ending(failure=event.error), "", returned=self._active.give_up_all())
            case JobEnded() | Failed() if event.request == self._answering.measure_job:
                self._answering.measure_job = None
                if isinstance(event, JobEnded) and event.result is False and self.phase is Phase.READY:
                    # A request of another program interrupted it.
                    self._go_on()
            case JobEnded() if event.request == self._answering.count_job:
                self._answering.n_typed = event.result if isinstance(event.result, int) else None
            case Failed() if event.request is not None and event.request == self._answering.count_job:
                # The same error is shown when the prompt is sent.
                pass
            case JobEnded(request=number, result=str(title)) if number == self._answering.title_job:
                self._answering.take_title(title)
            case Finished(reason=FinishReason.CANCELLED) if self._answering.n_kept is not None:
                return self._end(self._active.answered.stop())
            case Finished() | Failed() if self._answering.n_kept is not None:
                self._answering.go_on(event.text if isinstance(event, Finished) else "")
            case Finished():
                return self._finished(event)
            case Failed(error=error) if not self._compacts(error):
                return self._end(self._active.answered.fail(self.explain(error)))
        return None

    def _compacts(self, error: AppError) -> bool:
        """Make room for an answer that failed because the context is full; return whether it goes on."""
        return self.pair is not None and self._answering.compact(error, self.pair.n_ctx)

    def _finished(self, event: Finished) -> Outcome | None:
        conversation = self._active.answered
        running, outcome = conversation.running, conversation.finish(event)
        if event.reason is FinishReason.CONTEXT and self._answering.can_compact and running is not None:
            # Earlier messages make room for the rest.
            prefill = conversation.resume(running)
            if prefill is not None:
                self._start(conversation, prefill)
                return None
        return self._end(outcome)

    def _loaded(self, pair: PairInfo) -> None:
        self.phase = Phase.READY
        self._pair.take(pair)
        self._pair.switch(self.drafting.is_on)
        self.engine.draft(self.drafting.is_on)
        self._go_on()

    def _end(self, outcome: Outcome) -> Outcome:
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
        return replace(outcome, conversation=conversation.number, is_open=is_open, returned=returned)

    def close(self, unsent_text: str | None = None) -> None:
        """Stop the answer and close the store; `unsent_text` is the text of the input line, None for the stored one."""
        self.engine.cancel()
        if unsent_text is not None:
            self.conversation.set_unsent_text(unsent_text)
        self._active.answered.abandon()
        self.library.close()
