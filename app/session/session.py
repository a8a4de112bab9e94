"""The one owner of a chat: commands and worker events in, a snapshot out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.message import Prefill, Role
from app.conversations.tree import Node, State
from app.core.errors import AppError
from app.engine.types import FinishReason
from app.models.pair_info import PairInfo
from app.session.answering import Answering, Engine
from app.session.chat_settings import ChatSettings, Comparable, chat_settings
from app.session.conversation import Conversation
from app.session.library import Library, StoreOpener
from app.session.snapshot import DraftState, Phase, Snapshot
from app.session.turn import Outcome, model_names
from app.settings.kinds import Value
from app.settings.live import LiveSettings
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, PairChanged, PromptProgress, Step

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader

_WAITING_PROMPT, _WAITING_ANSWER = -1, -2
"""Ids of messages that are in no conversation yet."""


class Session:
    """A chat with one pair and one open conversation.

    Every command returns at once. Events come from the worker, in order, on the thread that gives the commands.

    Args:
        title: Name of the pair, shown until it is loaded.
        open_store: Opens the conversations; None keeps them in memory only.
        is_loading: Whether the engine was told to load a pair.
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
        self.conversation = Conversation(self.library)
        self.phase = Phase.LOADING if is_loading else Phase.UNLOADED
        self.pair: PairInfo | None = None
        self.waiting: str | None = None
        """A prompt sent while the models load."""
        self._live = live
        self._title = title
        self._mode = self.settings.drafting
        self._drafting = self._mode is not None
        self._answering = Answering(engine, self.conversation, lambda: self.settings)
        self._loads = self._n_loading = int(is_loading)
        self._switches = 0
        self._next: tuple[Loader, str] | None = None

    # What readers see

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            phase=self.phase,
            title=self._title,
            loads=self._loads,
            pair=self.pair,
            switches=self._switches,
            tree=self.conversation.tree,
            messages=self.conversation.messages if self.waiting is None else self._with_waiting(self.waiting),
            running=self.conversation.running,
            waiting=self.waiting,
            drafting=self.drafting,
            is_compacting=self._answering.n_kept is not None,
            titles=self._answering.n_titles,
        )

    def _with_waiting(self, text: str) -> tuple[Node, ...]:
        turn, tree = self.conversation.turn, self.conversation.tree
        path, prompt = tree.path_to(turn.parent), turn.prompt
        if turn.is_answered or prompt is None or prompt.text != text:
            prompt = Node(_WAITING_PROMPT, turn.parent, Role.USER, text)
        return (*path, prompt, Node(_WAITING_ANSWER, prompt.id, Role.ASSISTANT, "", state=State.WRITING))

    @property
    def settings(self) -> ChatSettings:
        """Return how the next answer is asked for."""
        return chat_settings(self._title, self._live.resolved())

    @property
    def drafting(self) -> DraftState:
        return DraftState.of(self.settings.drafting, self.pair, switched_on=self._drafting)

    @property
    def can_switch_running(self) -> bool:
        """Return whether turning drafting on or off takes effect in the running answer."""
        return self.phase is Phase.ANSWERING and self._answering.can_switch

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt was sent that has no answer yet."""
        return self.phase is Phase.ANSWERING or self.waiting is not None

    @property
    def can_send(self) -> bool:
        """Return whether a prompt can be sent now, or can wait for the models."""
        return self.phase in (Phase.READY, Phase.LOADING) and self.waiting is None

    @property
    def can_regenerate(self) -> bool:
        return self.phase is Phase.READY and self.conversation.turn.prompt is not None

    # Commands: answers

    def send(self, text: str) -> bool:
        """Ask a prompt, or let it wait for the models; return whether it was taken."""
        if not self.can_send:
            return False
        if self.phase is Phase.LOADING:
            self.waiting = text
            return True
        return self.conversation.ask(text) and self._start()

    def take_back(self) -> str | None:
        """Withdraw and return the prompt that waits for the models."""
        text, self.waiting = self.waiting, None
        return text

    def edit(self, prompt: int, text: str) -> bool:
        """Ask another text as a branch beside a prompt; the same text is answered again."""
        old = self.conversation.tree.nodes.get(prompt)
        if not self._can_answer or old is None or old.role is not Role.USER:
            return False
        if old.text == text:
            return self.regenerate(prompt)
        return self.conversation.ask(text, instead_of=prompt) and self._start()

    def regenerate(self, prompt: int | None = None) -> bool:
        """Answer a prompt again, by default the last one."""
        last = self.conversation.turn.prompt
        number = prompt if prompt is not None or last is None else last.id
        return self._can_answer and number is not None and self.conversation.regenerate(number) and self._start()

    def resume(self, answer: int) -> bool:
        """Continue an answer that ended early."""
        if not self._can_answer or not self.conversation.switch(answer):
            return False
        prefill = self.conversation.resume(answer)
        return prefill is not None and self._start(prefill)

    def stop(self) -> bool:
        """Stop the running answer, whose text stays; return whether there is one."""
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
        return self.phase is Phase.READY and self.can_send

    def _start(self, prefill: Prefill | None = None) -> bool:
        self._answering.start(prefill)
        self.phase = Phase.ANSWERING
        return True

    def compact(self, error: AppError) -> bool:
        """Make room for an answer that failed because the context is full; return whether it goes on."""
        return self.pair is not None and self._answering.compact(error, self.pair.n_ctx)

    @property
    def summary(self) -> str | None:
        """Return the summary that the model reads in place of earlier messages; None without one."""
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
        return self._answering.comparable(typed, self.pair, self.drafting)

    # Commands: conversations and branches

    def switch(self, message: int) -> bool:
        """Make the branch through a message the active one."""
        return not self.is_busy and self.conversation.switch(message)

    def rewrite(self, answer: int, text: str) -> bool:
        """Add the user's own answer beside one."""
        return not self.is_busy and self.conversation.rewrite(answer, text)

    def new_conversation(self, draft: str = "") -> None:
        """Begin an empty conversation; `draft` is stored with the one that is left."""
        self.conversation.leave(draft)
        self._enter()

    def open_conversation(self, conversation: int, draft: str = "") -> bool:
        """Open another conversation; return whether it exists."""
        if not self.conversation.open(conversation, draft):
            return False
        self._enter()
        return True

    def _enter(self) -> None:
        self._switches += 1
        self._answering.stop_title()
        self.stop()
        self._answering.end()
        self.waiting = None
        if self.phase is Phase.ANSWERING:
            self.phase = Phase.READY
        for problem in self._live.enter(self.conversation.settings):
            self.library.say(f"This conversation's settings: {problem.text}")
        self._apply_settings()
        self._load_next()

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
        mode = self.settings.drafting
        if mode != self._mode:
            self._mode, self._drafting = mode, mode is not None
        if self.phase is not Phase.LOADING:
            self.engine.draft(self.drafting.is_on)

    def set_drafting(self, on: bool) -> None:
        """Turn drafting on or off, also within the running answer."""
        self._drafting = on
        self.engine.draft(self.drafting.is_on)

    def load(self, loader: Loader, title: str) -> None:
        """Load another pair; a running answer is stopped first."""
        self._next = loader, title
        if not self.stop():
            self._load_next()

    def _load_next(self) -> None:
        if self._next is None:
            return
        (loader, self._title), self._next = self._next, None
        if self._n_loading:
            self.engine.cancel()
        self._mode = self.settings.drafting
        self.pair, self.phase, self._drafting = None, Phase.LOADING, self._mode is not None
        self._n_loading += 1
        self._loads += 1
        self.engine.load(loader)

    # Events of the worker

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to this chat as it is now; the text of a summary is not shown."""
        is_hidden = self._answering.n_kept is not None and isinstance(event, Step | PromptProgress)
        known = None, self._answering.number, self._answering.title_job
        return not is_hidden and getattr(event, "request", None) in known

    def is_behind(self, event: Event) -> bool:
        """Return whether an event shows that a request of another program is answered before the prompt."""
        is_progress = isinstance(event, Step | PromptProgress) and event.request != self._answering.number
        return is_progress and self.phase is Phase.ANSWERING

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come without a further command."""
        return self.phase in (Phase.LOADING, Phase.ANSWERING)

    def handle(self, event: Event) -> Outcome | None:
        """Take an event other than text; return how an answer ended."""
        match event:
            case PairChanged(pair) | Loaded(pair) if not self._n_loading:
                self._set_pair(pair)
            case Loaded() | Failed(request=None) if self._is_overtaken():
                pass
            case Loaded(pair):
                self._loaded(pair)
            case Failed(request=None):
                self.phase = Phase.UNLOADED
            case JobEnded(request=number, result=str(title)) if number == self._answering.title_job:
                self._answering.take_title(title)
            case Finished(reason=FinishReason.CANCELLED) if self._answering.n_kept is not None:
                return self._end(self.conversation.stop())
            case Finished() | Failed() if self._answering.n_kept is not None:
                self._answering.go_on(event.text if isinstance(event, Finished) else "")
            case Finished():
                running = self.conversation.running
                outcome = self._end(self.conversation.finish(event))
                is_full = event.reason is FinishReason.CONTEXT and self._answering.can_compact
                if is_full and running is not None and self.resume(running):
                    # Earlier messages make room for the rest.
                    return None
                # A recurrent model would read the conversation again after the title.
                if self._can_answer and self.pair is not None and self.pair.most_drafted is None:
                    self._answering.begin_title()
                return outcome
            case Failed():
                return self._end(self.conversation.fail(event.error))
        return None

    def _is_overtaken(self) -> bool:
        """Count a load that has ended; return whether another one was begun since."""
        self._n_loading = max(0, self._n_loading - 1)
        return self._n_loading > 0

    def _loaded(self, pair: PairInfo) -> None:
        self.phase = Phase.READY
        self._set_pair(pair)
        self._drafting = self._drafting and self.drafting.is_available
        self.engine.draft(self.drafting.is_on)
        text, self.waiting = self.waiting, None
        if text is not None and not self.send(text):
            self.waiting = text

    def _set_pair(self, pair: PairInfo) -> None:
        self.pair = pair
        self.conversation.models = model_names(pair)

    def _end(self, outcome: Outcome) -> Outcome:
        self._answering.end()
        self.phase = Phase.READY
        self._load_next()
        return outcome

    def close(self, draft: str | None = None) -> None:
        """Stop the answer and close the store; `draft` is the text of the input line."""
        self.engine.cancel()
        self.conversation.close(draft)
