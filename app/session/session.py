"""The one owner of a chat: commands and worker events in, a snapshot out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.message import Compaction, Prefill, Role
from app.conversations.tree import Node, State, as_messages
from app.core.errors import AppError, ContextOverflowError, UsageError
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.models.model_names import file_type, known_as
from app.models.pair_info import PairInfo
from app.session.chat_settings import (
    ChatSettings,
    Comparable,
    answer_request,
    applied,
    comparable,
    summary_request,
    title_request,
)
from app.session.conversation import Conversation
from app.session.engine import Engine
from app.session.library import Library, StoreOpener
from app.session.snapshot import Blocked, DraftState, Phase, Snapshot
from app.session.turn import Outcome, n_kept_in
from app.settings.kinds import Value
from app.settings.live import LiveSettings
from app.worker.events import Event, Failed, Finished, JobEnded, Loaded, PairChanged, PromptProgress, Step
from app.worker.title import TitleJob

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader

_WAITING_PROMPT, _WAITING_ANSWER = -1, -2
"""Ids of messages that are in no conversation yet."""
_ANSWER_TOKENS = 1024
"""Room in the context for an answer without a limit."""
_FIRST_EXCHANGE = 2
"""Messages of a conversation after its first answer."""
_COMPACTED = ("conversation", "answer")
"""What is too long where shortening the earlier conversation helps; see `ContextOverflowError`."""


class Session:
    """A chat with one pair and one open conversation.

    Every command returns at once. Events come from the worker, in order, on the
    thread that gives the commands.

    Args:
        engine: Loads pairs and writes answers.
        settings: How answers are asked for at the start.
        open_store: Opens the conversations; None keeps them in memory only.
        live: Current settings; None leaves them as at the start.
        is_loading: Whether the engine was told to load a pair.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ChatSettings,
        open_store: StoreOpener | None = None,
        live: LiveSettings | None = None,
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
        self._base = settings
        self._mode = settings.drafting
        self._drafting = settings.drafting is not None
        self._request: int | None = None
        self._prefill: Prefill | None = None
        self._titling: int | None = None
        """Number of the job that names the open conversation."""
        self._n_titles = 0
        self._compacting: int | None = None
        """While earlier messages are summarized: how many before the prompt stay as they are."""
        self._can_switch = False
        self._loads = self._n_loading = int(is_loading)
        self._switches = 0
        self._next: tuple[Loader, ChatSettings] | None = None

    # What readers see

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            phase=self.phase,
            title=self._base.title,
            loads=self._loads,
            pair=self.pair,
            switches=self._switches,
            conversation=self.library.conversation,
            tree=self.conversation.tree,
            messages=self.conversation.messages if self.waiting is None else self._with_waiting(self.waiting),
            running=self.conversation.running,
            waiting=self.waiting,
            drafting=self.drafting,
            blocked=self.blocked,
            can_regenerate=self.can_regenerate,
            is_compacting=self._compacting is not None,
            titles=self._n_titles,
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
        return applied(self._base, self._live.resolved()) if self._live is not None else self._base

    @property
    def drafting(self) -> DraftState:
        return DraftState.of(self.settings.drafting, self.pair, switched_on=self._drafting)

    @property
    def can_switch_running(self) -> bool:
        """Return whether turning drafting on or off takes effect in the running answer."""
        return self.phase is Phase.ANSWERING and self._can_switch

    @property
    def is_busy(self) -> bool:
        """Return whether a prompt was sent that has no answer yet."""
        return self.phase is Phase.ANSWERING or self.waiting is not None

    @property
    def blocked(self) -> Blocked | None:
        if self.phase is Phase.ANSWERING:
            return Blocked.ANSWERING
        if self.phase is Phase.UNLOADED:
            return Blocked.UNLOADED
        return Blocked.WAITING if self.waiting is not None else None

    @property
    def can_regenerate(self) -> bool:
        return self.phase is Phase.READY and self.conversation.turn.prompt is not None

    @property
    def lacks_draft(self) -> bool:
        """Return whether the draft model was left out after repeated failures; loading again may restore it."""
        return self.pair is not None and self.pair.draft_failed

    # Commands: answers

    def send(self, text: str) -> bool:
        """Ask a prompt, or let it wait for the models; return whether it was taken."""
        if self.blocked is not None:
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
        if not self._can_answer:
            return False
        old = self.conversation.tree.nodes.get(prompt)
        if old is None or old.role is not Role.USER:
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
            self.engine.cancel()
        return runs

    @property
    def _can_answer(self) -> bool:
        return self.phase is Phase.READY and self.blocked is None

    def _start(self, prefill: Prefill | None = None) -> bool:
        prompt = self.conversation.turn.prompt
        assert prompt is not None
        self._stop_titling()
        self._prefill, self._compacting = prefill, None
        summary, before = self.conversation.read_before(prompt)
        can_compact = bool(before) and self.settings.context_full != "stop"
        request = replace(
            answer_request(self.settings, prompt.text, as_messages(before), summary),
            prefill=prefill,
            beside=self.conversation.similar_answers,
            with_details=True,
            conversation=self.library.state_name,
            n_room=(self.settings.max_tokens or _ANSWER_TOKENS) if can_compact else 0,
        )
        self._can_switch = request.drafting is not None
        self._request = self.engine.answer(request)
        self.phase = Phase.ANSWERING
        return True

    def compact(self, error: AppError) -> bool:
        """Summarize earlier messages, or leave them out, if an answer failed because the context is full.

        Returns:
            Whether the answer goes on, so that it has not failed.
        """
        prompt, pair = self.conversation.turn.prompt, self.pair
        if not isinstance(error, ContextOverflowError) or error.whose not in _COMPACTED or prompt is None:
            return False
        # A summary that does not fit either is left out.
        if pair is None or self.settings.context_full == "stop" or self._compacting is not None:
            return False
        summary, before = self.conversation.read_before(prompt)
        written = len(prompt.text) + (len(self._prefill.text) if self._prefill is not None else 0)
        n_kept = n_kept_in(before, written, error.n_tokens, pair.n_ctx // 2)
        if n_kept == len(before):
            return False
        if self.settings.context_full == "drop":
            self.conversation.compact(prompt.id, Compaction(n_kept))
            return self._start(self._prefill)
        request = summary_request(self.settings, as_messages(before[: len(before) - n_kept]), summary)
        self._compacting = n_kept
        self._request = self.engine.answer(replace(request, conversation=self.library.state_name))
        return True

    def _compacted(self, summary: str) -> None:
        prompt, n_kept = self.conversation.turn.prompt, self._compacting
        assert prompt is not None
        assert n_kept is not None
        self.conversation.compact(prompt.id, Compaction(n_kept, summary.strip()))
        self._start(self._prefill)

    @property
    def summary(self) -> str | None:
        """Return the summary that the model reads in place of earlier messages; None without one."""
        return self.conversation.read_before(None)[0] or None

    def set_summary(self, text: str) -> bool:
        """Change the summary; return whether there is one."""
        holder = next((node for node in reversed(self.conversation.tree.path) if node.compaction is not None), None)
        if self.is_busy or holder is None or holder.compaction is None:
            return False
        self.conversation.compact(holder.id, replace(holder.compaction, summary=text.strip()))
        return True

    def comparable(self, typed: str) -> Comparable:
        """Return the typed prompt, or else the last one, ready to be compared. Raises UsageError."""
        settings, last = self.settings, self.conversation.turn.prompt
        if settings.drafting is None:
            raise UsageError("Drafting is off in the settings, so there is nothing to compare.")
        if not self.drafting.is_available:
            raise UsageError(f"There is nothing to compare. {self.drafting.reason}")
        prompt = typed.strip() or (last.text if last is not None else "")
        if not prompt or self.pair is None:
            raise UsageError("There is no prompt to compare yet; type one.")
        summary, before = self.conversation.read_before(None if typed.strip() else last)
        request = answer_request(settings, prompt, as_messages(before), summary)
        return comparable(settings, self.pair, replace(request, conversation=self.library.state_name))

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
        self._stop_titling()
        self.stop()
        self._request = self.waiting = self._compacting = None
        if self.phase is Phase.ANSWERING:
            self.phase = Phase.READY
        if self._live is not None:
            for problem in self._live.enter(self.conversation.settings):
                self.library.say(f"This conversation's settings: {problem.text}")
            self._apply_settings()
        self._load_next()

    # Commands: settings and models

    @property
    def can_set(self) -> bool:
        return self._live is not None

    def set_setting(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None removes it. Needs live settings."""
        assert self._live is not None
        self._live.set_own(name, value)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Use changed settings from the next answer on, and store the conversation's own."""
        if self._live is not None:
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

    def load(self, loader: Loader, settings: ChatSettings) -> None:
        """Load another pair; a running answer is stopped first."""
        self._next = loader, settings
        if not self.stop():
            self._load_next()

    def _load_next(self) -> None:
        if self._next is None:
            return
        (loader, settings), self._next = self._next, None
        if self._n_loading:
            self.engine.cancel()
        self._base, self._mode = settings, settings.drafting
        self.pair, self.phase, self._drafting = None, Phase.LOADING, settings.drafting is not None
        self._n_loading += 1
        self._loads += 1
        self.engine.load(loader)

    # Events of the worker

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to this chat as it is now; the text of a summary is not shown."""
        if self._compacting is not None and isinstance(event, Step | PromptProgress):
            return False
        return getattr(event, "request", None) in (None, self._request, self._titling)

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come without a further command."""
        return self.phase in (Phase.LOADING, Phase.ANSWERING)

    def add(self, segments: Iterable[Segment]) -> None:
        """Append text to the running answer."""
        self.conversation.add(segments)

    def tick(self, next_s: float) -> None:
        """Save text that has waited long enough; call at least once a second while an answer runs.

        Args:
            next_s: Seconds until the next call.
        """
        self.conversation.tick(next_s)

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
            case JobEnded(request=number, result=str(title)) if number == self._titling:
                self._titled(title)
            case Finished(reason=FinishReason.CANCELLED) if self._compacting is not None:
                return self._end(self.conversation.stop())
            case Finished(text=text) if self._compacting is not None:
                self._compacted(text)
            case Failed() if self._compacting is not None:
                self._compacted("")
            case Finished():
                running = self.conversation.running
                outcome = self._end(self.conversation.finish(event))
                if running is not None and self._continues(event, running):
                    return None
                self._begin_titling()
                return outcome
            case Failed():
                return self._end(self.conversation.fail(event.error))
        return None

    def _continues(self, event: Finished, answer: int) -> bool:
        """Continue an answer that filled the context, if earlier messages can make room; return whether it goes on."""
        can_compact = self.settings.context_full != "stop" and bool(
            self.conversation.messages_before(self.conversation.turn.prompt)
        )
        return event.reason is FinishReason.CONTEXT and can_compact and self.resume(answer)

    def _begin_titling(self) -> None:
        """Let the model name the conversation after its first answer, unless the user has named it."""
        path, pair, library = self.conversation.tree.path, self.pair, self.library
        is_first = len(path) == _FIRST_EXCHANGE and path[-1].state is State.COMPLETE
        # A recurrent model would read the conversation again after the title.
        if not is_first or not self._can_answer or pair is None or pair.most_drafted is not None:
            return
        summary = library.summary(library.conversation)
        if self.settings.titles and summary is not None and not summary.named:
            request = title_request(self.settings, as_messages(path))
            self._titling = self.engine.run(TitleJob(replace(request, conversation=library.state_name)))

    def _stop_titling(self) -> None:
        if self._titling is not None:
            self._titling = None
            self.engine.cancel()

    def _titled(self, title: str) -> None:
        self._titling = None
        if title:
            self.library.name(title)
            self._n_titles += 1

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
        self.phase, self._request, self._compacting = Phase.READY, None, None
        self._load_next()
        return outcome

    def close(self, draft: str | None = None) -> None:
        """Stop the answer and close the store; `draft` is the text of the input line."""
        self.engine.cancel()
        self.conversation.close(draft)


def model_names(pair: PairInfo) -> dict[str, str]:
    """Return both models by role, each with its quantization."""
    models = {"target": pair.target} | ({"draft": pair.draft} if pair.draft is not None else {})
    return {
        role: f"{known_as(model.file, model.name)} {file_type(model.quantization)}".strip()
        for role, model in models.items()
    }
