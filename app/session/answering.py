"""Requests to the engine: answers, titles of conversations, and measurements while the engine is idle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from app.conversations.message import Compaction, Message, Prefill, Role, with_bytes
from app.conversations.titles import title_of
from app.conversations.tree import Node, State, as_message, as_messages
from app.core.errors import AppError, ContextOverflowError
from app.engine.events import PromptProgress, Step
from app.engine.types import SamplingParams
from app.session.active_conversations import ActiveConversations
from app.session.conversation import Conversation
from app.session.state import Change
from app.session.tool_use import ToolUse
from app.settings.layers import Origin, Resolved, Thinking, drafting
from app.worker.events import Event, Failed, JobEnded
from app.worker.jobs import MeasureJob, PromptSize, Query, TitleJob, picture_sizes, prompt_size
from app.worker.request import AnswerRequest

if TYPE_CHECKING:
    from app.worker.engine_worker import Engine

_SUMMARY_TITLE = "Summary of the earlier conversation:"
_NAME_IT = "Write a title for this conversation, at most six words. Write only the title."
_TITLE_START = 'Title: "'
"""Beginning of the model's answer, so that the title follows without a preamble."""
_TITLE_ENDS = ('"', "\n")
_LONGEST_TITLE = 24
"""Limit for a title in tokens."""
_ANSWER_TOKENS = 1024
"""Room in the context for an answer without a limit."""
_N_MESSAGES_FOR_TITLE = 6
"""A longer conversation keeps the title of its first prompt, since naming it would take long."""
_SUMMARY_INSTRUCTION = (
    "Stop here. List the facts of this conversation in short sentences: what I said about myself, what I asked for, "
    "and what you answered. Keep names and numbers."
)
"""Best of four wordings: a model of 1.5 billion parameters kept every fact and the cached prefix."""
_LONGEST_SUMMARY = 512
"""Limit for a summary in tokens."""
_SOLVED_BY_COMPACTION = ("conversation", "answer")
"""Values of `ContextOverflowError.whose` for which leaving out earlier messages helps."""


def _shortened(request: AnswerRequest, max_tokens: int) -> AnswerRequest:
    return replace(request, max_tokens=max_tokens, stops=(), thinking=Thinking(enabled=False))


class Answering:
    """Asks the engine for answers, summaries and titles of conversations.

    Args:
        settings: Returns the settings for the next answer in a conversation.

    Attributes:
        number: Number of the running answer, or of the summary that it needs, if any.
        can_switch: Whether the running answer can be drafted.
        n_kept: While earlier messages are summarized, the number of unchanged messages before the prompt; else None.
        title_job: Number of the job that names a conversation, if any.
        measure_job: Number of the job that measures the pair, if any.
        count_job: Number of the job that counts the tokens of a typed prompt, if any.
        typed: Size of the conversation with the typed prompt, if counted.
        picture_tokens: Tokens of each counted picture by its digest.
    """

    def __init__(
        self,
        engine: Engine,
        active: ActiveConversations,
        settings: Callable[[Conversation], Resolved],
        tools: ToolUse,
    ) -> None:
        self._engine = engine
        self._tools = tools
        self._active = active
        self._library = active.library
        self._settings_of = settings
        self.number: int | None = None
        self.can_switch = False
        self.n_kept: int | None = None
        self.title_job: int | None = None
        self._titled: int | None = None
        self.measure_job: int | None = None
        self.count_job: int | None = None
        self.typed: PromptSize | None = None
        self.picture_tokens: dict[str, int] = {}

    def _settings(self) -> Resolved:
        return self._settings_of(self._active.answered)

    def request_for(
        self, conversation: Conversation, text: str, read: tuple[str, Sequence[Node]], after: Sequence[Message] = ()
    ) -> AnswerRequest:
        """Return the request for an answer to a text in a conversation.

        Args:
            read: The messages that the model reads before the text, and the summary of those before, which joins the
                system prompt.
            after: Tool calls and results that follow it.
        """
        summary, nodes = read
        settings, before = self._settings_of(conversation), as_messages(nodes)
        # An imported conversation may begin with a system message; templates take one, in front.
        is_chosen = settings.origin("answer.system") in (Origin.FLAG, Origin.CONVERSATION) and settings["answer.system"]
        own = before[:1] if before and before[0].role is Role.SYSTEM and not is_chosen else ()
        turns = (message for message in before if message.role is not Role.SYSTEM)
        request = AnswerRequest.of(settings, (*own, *turns, as_message(Role.USER, text), *after))
        if summary:
            system = [message.content for message in request.messages if message.role is Role.SYSTEM]
            joined = "\n\n".join([*system, f"{_SUMMARY_TITLE}\n{summary}"])
            request = replace(request, messages=(as_message(Role.SYSTEM, joined), *request.messages[len(system) :]))
        request = replace(request, conversation=self._library.state_name(conversation.number))
        digests = [picture.digest for message in request.messages for picture in message.pictures]
        if not digests:
            return request
        known = self._library.pictures(digests)
        return replace(request, messages=tuple(with_bytes(message, known) for message in request.messages))

    def start(self) -> None:
        """Ask for the answer that is running in the answered conversation."""
        conversation = self._active.answered
        prompt = conversation.turn.prompt
        assert prompt is not None
        # A prompt ends both jobs.
        self.title_job = self.measure_job = self.n_kept = None
        request = replace(
            self.request_for(conversation, prompt.text, conversation.read_before(prompt), conversation.since_prompt),
            prefill=conversation.prefill,
            beside=conversation.similar_answers,
            with_details=True,
        )
        if self.can_compact:
            request = replace(request, n_room=request.max_tokens or _ANSWER_TOKENS)
        request = self._tools.completed(request)
        self.can_switch = request.drafting is not None
        if not self.picture_tokens.keys() >= {each.digest for each in request.pictures}:
            self.count_job = self._engine.run(Query(partial(picture_sizes, request.pictures), loads=False))
        self.number = self._engine.answer(request)

    def expects(self, event: Event) -> bool:
        """Return whether an event belongs to a request or to loading; the text of a summary is not shown."""
        is_hidden = self.n_kept is not None and isinstance(event, Step | PromptProgress)
        return not is_hidden and getattr(event, "request", None) in (
            None,
            self.number,
            self.title_job,
            self.measure_job,
            self.count_job,
        )

    def take_job(self, event: JobEnded | Failed) -> Change:
        """Handle the end of a job; return the change."""
        result = event.result if isinstance(event, JobEnded) else None
        if event.request == self.count_job:
            # The error will appear when the prompt is sent.
            self.typed = result if isinstance(result, PromptSize) else None
            sizes = result.pictures if isinstance(result, PromptSize) else result
            self.picture_tokens |= sizes if isinstance(sizes, tuple) else ()
            return Change.COUNTED
        if event.request == self.measure_job:
            self.measure_job = None
            return Change.MEASURED
        if event.request == self.title_job and isinstance(result, str):
            self.title_job = None
            if result and (number := self._titled) is not None:
                self._library.do(lambda store: store.name(number, result))
        return Change.NOTHING

    def end(self) -> None:
        """Ignore further events of the running request."""
        self.number = self.n_kept = None

    @property
    def can_compact(self) -> bool:
        """Return whether messages before the last prompt may be left out."""
        _, before = self._active.answered.read_before(self._active.answered.turn.prompt)
        return bool(before) and self._settings()["answer.context_full"] != "stop"

    def compact(self, error: AppError, n_ctx: int) -> bool:
        """Summarize earlier messages, or leave them out, if an answer failed because the context is full.

        Returns whether the answer continues, so that it has not failed.
        """
        prompt = self._active.answered.turn.prompt
        if prompt is None or not self.can_compact:
            return False
        summary, before = self._active.answered.read_before(prompt)
        begun = self._active.answered.prefill
        written = len(prompt.text) + (len(begun.text) if begun is not None else 0)
        self.n_kept = _n_kept_after(error, before, written, n_ctx)
        if self.n_kept is None:
            return False
        if self._settings()["answer.context_full"] == "drop":
            self.go_on("")
        else:
            left_out = summary, before[: len(before) - self.n_kept]
            # It begins like the conversation, so the KV cache is reused.
            request = self.request_for(self._active.answered, _SUMMARY_INSTRUCTION, left_out)
            self.number = self._engine.answer(_shortened(request, _LONGEST_SUMMARY))
        return True

    def go_on(self, summary: str) -> None:
        """Ask for the answer again, with a summary of earlier messages; an empty summary leaves them out."""
        prompt = self._active.answered.turn.prompt
        assert prompt is not None
        assert self.n_kept is not None
        self._active.answered.set_numbers(prompt, Compaction(self.n_kept, summary.strip()).numbers)
        self.start()

    # Jobs that end when a prompt comes

    def begin_title(self) -> None:
        """Let the model name the conversation, if its title still comes from its first prompt."""
        conversation, library = self._active.answered, self._library
        path, number = conversation.tree.path, conversation.number
        is_short = 2 <= len(path) <= _N_MESSAGES_FOR_TITLE
        if not (self._settings()["answer.titles"] and is_short and path[-1].state is State.COMPLETE):
            return
        summary = library.do(lambda store: store.load(number or 0).summary)
        if summary is not None and not summary.named and summary.title == title_of(conversation.tree.first_prompt):
            # It begins like the conversation, so the KV cache is reused.
            request = self.request_for(conversation, _NAME_IT, ("", path))
            request = replace(_shortened(request, _LONGEST_TITLE), stops=_TITLE_ENDS, prefill=Prefill(_TITLE_START))
            request = replace(request, sampling=SamplingParams(temperature=0), drafting=None, tools=self._tools.offered)
            self.title_job = self._engine.run(TitleJob(request))
            self._titled = number

    def begin_count(self, conversation: Conversation, text: str) -> None:
        """Count the tokens of a conversation with another prompt."""
        request = self.request_for(conversation, text, conversation.read_before(None))
        request = replace(request, tools=self._tools.offered)
        self.count_job = self._engine.run(Query(partial(prompt_size, request), loads=False))

    def begin_measuring(self) -> None:
        """Let the engine measure the pair until a prompt comes, if automatic drafting needs that."""
        self.measure_job = self._engine.run(MeasureJob(drafting(self._settings())))


def _n_kept_after(error: AppError, before: Sequence[Node], written: int, n_ctx: int) -> int | None:
    """Return how many of the last messages before a prompt stay; None if leaving out earlier messages does not help.

    They fill about half of the context. Only an error about a full context compacts it; `written` counts the characters
    of the prompt and of the answer so far.
    """
    if not isinstance(error, ContextOverflowError) or error.whose not in _SOLVED_BY_COMPACTION:
        return None
    lengths = [len(node.text) for node in before]
    left = n_ctx // 2 * (sum(lengths) + written) / max(1, error.n_tokens) - written
    n_kept = 0
    for n, node in enumerate(reversed(before), start=1):
        left -= lengths[-n]
        if left < 0:
            break
        # Keep whole turns.
        if node.role is Role.USER:
            n_kept = n
    return n_kept if n_kept < len(before) else None
