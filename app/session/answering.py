"""Requests to the engine: answers, and titles of conversations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from app.conversations.message import Compaction, Prefill
from app.conversations.tree import Node, State, as_messages
from app.core.errors import AppError, UsageError
from app.engine.types import DraftParams, SamplingParams
from app.models.pair_info import PairInfo
from app.session.chat_settings import ChatSettings, Comparable, answer_request, shortened
from app.session.compaction import n_kept_after, summary_request
from app.session.conversation import Conversation
from app.session.snapshot import DraftState
from app.worker.events import Event
from app.worker.jobs import TitleJob
from app.worker.request import AnswerRequest, with_seed

if TYPE_CHECKING:
    from app.worker.engine_worker import Job, Loader

_NAME_IT = "Write a title for this conversation, at most six words. Write only the title."
_LONGEST_TITLE = 24
"""Most tokens of a title."""
_ANSWER_TOKENS = 1024
"""Room in the context for an answer without a limit."""
_COMPARED_TOKENS = 256
"""Enough for a steady speed, short enough to compare several times."""
_FIRST_EXCHANGE = 2
"""Messages of a conversation after its first answer."""


class Engine(Protocol):
    """The commands of `app.worker.engine_worker.EngineWorker`."""

    def load(self, loader: Loader) -> None: ...

    def answer(self, request: AnswerRequest) -> int: ...

    def run(self, job: Job) -> int: ...

    def cancel(self, number: int | None = None) -> None: ...

    def inspect(self, on: bool) -> None: ...

    def draft(self, on: bool) -> None: ...

    def close(self, timeout: float | None = None) -> bool: ...


EngineFactory = Callable[[Callable[[Event], None]], Engine]
"""Makes an engine that reports to the given callback, on any thread."""


class Answering:
    """Ask the engine for answers, summaries and titles of the open conversation.

    Args:
        settings: Returns how the next answer is asked for.

    Attributes:
        number: Number of the running answer, or of the summary that it needs; None without one.
        can_switch: Whether the running answer can be drafted.
        n_kept: While earlier messages are summarized, how many before the prompt stay as they are; else None.
        title_job: Number of the job that names the conversation; None without one.
        n_titles: How many titles the model has written.
    """

    def __init__(self, engine: Engine, conversation: Conversation, settings: Callable[[], ChatSettings]) -> None:
        self._engine = engine
        self._conversation = conversation
        self._library = conversation.library
        self._settings = settings
        self._prefill: Prefill | None = None
        self.number: int | None = None
        self.can_switch = False
        self.n_kept: int | None = None
        self.title_job: int | None = None
        self.n_titles = 0

    def _request_for(self, text: str, prompt: Node | None) -> AnswerRequest:
        """Return the request for an answer in the place of a prompt, or for None after the whole branch."""
        summary, before = self._conversation.read_before(prompt)
        return answer_request(self._settings(), text, as_messages(before), summary, self._library.state_name)

    def start(self, prefill: Prefill | None = None) -> None:
        """Ask for an answer to the last prompt."""
        prompt, settings = self._conversation.turn.prompt, self._settings()
        assert prompt is not None
        self.stop_title()
        self._prefill, self.n_kept = prefill, None
        request = replace(
            self._request_for(prompt.text, prompt),
            prefill=prefill,
            beside=self._conversation.similar_answers,
            with_details=True,
            n_room=(settings.max_tokens or _ANSWER_TOKENS) if self.can_compact else 0,
        )
        self.can_switch = request.drafting is not None
        self.number = self._engine.answer(request)

    def comparable(self, typed: str, pair: PairInfo | None, drafting: DraftState) -> Comparable:
        """Return the typed prompt, or else the last one, ready to be compared. Raises UsageError."""
        settings, last = self._settings(), self._conversation.turn.prompt
        if settings.drafting is None:
            raise UsageError("Drafting is off in the settings, so there is nothing to compare.")
        if not drafting.is_available:
            raise UsageError(f"There is nothing to compare. {drafting.reason}")
        prompt = typed.strip() or (last.text if last is not None else "")
        if not prompt or pair is None:
            raise UsageError("There is no prompt to compare yet; type one.")
        request = self._request_for(prompt, None if typed.strip() else last)
        most = min(request.max_tokens or _COMPARED_TOKENS, _COMPARED_TOKENS)
        request = replace(request, sampling=with_seed(request.sampling), drafting=None, max_tokens=most)
        fixed = settings.drafting if isinstance(settings.drafting, DraftParams) else None
        return Comparable(request, settings.automatic, fixed, pair)

    def end(self) -> None:
        """Expect no more events of the running request."""
        self.number = self.n_kept = None

    @property
    def can_compact(self) -> bool:
        """Return whether messages before the last prompt may be left out."""
        _, before = self._conversation.read_before(self._conversation.turn.prompt)
        return bool(before) and self._settings().context_full != "stop"

    def compact(self, error: AppError, n_ctx: int) -> bool:
        """Summarize earlier messages, or leave them out, if an answer failed because the context is full.

        Returns whether the answer goes on, so that it has not failed.
        """
        settings, prompt = self._settings(), self._conversation.turn.prompt
        # A summary that does not fit either is left out.
        if prompt is None or self.n_kept is not None or not self.can_compact:
            return False
        summary, before = self._conversation.read_before(prompt)
        written = len(prompt.text) + (len(self._prefill.text) if self._prefill is not None else 0)
        self.n_kept = n_kept_after(error, before, written, n_ctx)
        if self.n_kept is None:
            return False
        if settings.context_full == "drop":
            self.go_on("")
        else:
            left_out = before[: len(before) - self.n_kept]
            self.number = self._engine.answer(summary_request(settings, left_out, summary, self._library.state_name))
        return True

    def go_on(self, summary: str) -> None:
        """Ask for the answer again, with a summary in place of earlier messages; "" leaves them out."""
        prompt = self._conversation.turn.prompt
        assert prompt is not None
        assert self.n_kept is not None
        self._conversation.compact(prompt, Compaction(self.n_kept, summary.strip()))
        self.start(self._prefill)

    # Titles

    def begin_title(self) -> None:
        """Let the model name the conversation after its first answer, unless the user has named it."""
        path, settings, library = self._conversation.tree.path, self._settings(), self._library
        if not settings.titles or len(path) != _FIRST_EXCHANGE or path[-1].state is not State.COMPLETE:
            return
        summary = library.with_conversation(lambda store, number: store.load(number).summary)
        if summary is not None and not summary.named:
            # It begins like the conversation, whose cache it uses.
            request = answer_request(settings, _NAME_IT, as_messages(path), name=library.state_name)
            request = replace(request, sampling=SamplingParams(temperature=0), drafting=None)
            self.title_job = self._engine.run(TitleJob(shortened(request, _LONGEST_TITLE)))

    def stop_title(self) -> None:
        """Cancel the job; the title made from the first prompt stays."""
        if self.title_job is not None:
            self._engine.cancel(self.title_job)
            self.title_job = None

    def take_title(self, title: str) -> None:
        """Set the title that the job has written; "" if it failed."""
        self.title_job = None
        if title:
            self._library.name(title)
            self.n_titles += 1
