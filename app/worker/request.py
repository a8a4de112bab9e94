"""Requests for answers, their prompts and limits for a pair, and the refusal of a long prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from app.conversations.message import Message, Prefill, Role, pictures_as_text, pictures_in
from app.conversations.tree import as_message
from app.core.errors import ContextOverflowError, UsageError
from app.core.fixes import fix
from app.core.pictures import PictureData
from app.core.units import counted
from app.engine.text.segments import Segment
from app.engine.types import Drafting, Guidance, SamplingParams
from app.models.pair_info import or_longer
from app.settings.layers import AS_TRAINED, Resolved, Thinking, drafting, sampling, thinking

if TYPE_CHECKING:
    from app.engine.text.reasoning import RenderedPrompt
    from app.engine.types import PlainPrompt
    from app.llama.pair import NativePair

_CONTEXT_PER_ROOM = 4
"""At most a quarter of a short context is kept free for an answer."""
_SUBJECT_AND_FIX = {
    "prompt": ("The prompt has", "Shorten it"),
    "pictures": ("The prompt has", "Use smaller or fewer pictures"),
    "system": ("The system prompt and this prompt have", "Shorten the system prompt (⟨answer.system⟩)"),
    "answer": ("With the answer so far there are", "Shorten what comes before"),
    "tools": ("The tools have", "Use fewer tools (⟨answer.tools⟩)"),
    "conversation": ("With this prompt the conversation has", "Start a new conversation"),
}
"""Subject of the sentence about a long text, and how to shorten it."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A request for an answer.

    Attributes:
        messages: The conversation, ending with the user.
        max_tokens: Limit of generated tokens; 0 only reads the prompt; None for as many as fit.
        beside: Earlier answers to the same prompt, newest first, for n-gram drafting.
        with_details: Whether every step has `StepDetails`, which takes time.
        stop_on_repeat: Whether a loop ends the answer; see `app.engine.text.stream`.
        conversation: Name of the caches' state, or ""; None leaves the caches unchanged.
        n_room: Tokens of the context that the answer needs, if earlier messages can make room for it.
        tools: Tools that the model may call, as in OpenAI's API; calls are no text of the answer.
        n_top: Most probable tokens that every step reports; None reports no probabilities.
        max_predict_ms: Time after the first token after which the end of a line ends the answer; 0 or less is no limit.
        cache_prompt: Whether to reuse the cached beginning of the last prompt.
    """

    messages: tuple[Message, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    drafting: Drafting = None
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    prefill: Prefill | None = None
    beside: tuple[str, ...] = ()
    thinking: Thinking = AS_TRAINED
    with_details: bool = False
    stop_on_repeat: bool = False
    conversation: str | None = ""
    n_room: int = 0
    tools: tuple[Mapping[str, Any], ...] = ()
    guidance: Guidance = field(default_factory=Guidance)
    n_top: int | None = None
    text: PlainPrompt | None = None
    max_predict_ms: int | None = None
    cache_prompt: bool = True

    @property
    def pictures(self) -> tuple[PictureData, ...]:
        """The pictures of the messages, in order."""
        return pictures_in(self.messages)

    @classmethod
    def of(cls, settings: Resolved, messages: Iterable[Message] = ()) -> AnswerRequest:
        """Return what the settings ask for; their system prompt comes first, unless the messages have their own."""
        given = tuple(messages)
        system = settings["answer.system"]
        if system and not any(message.role is Role.SYSTEM for message in given):
            given = (as_message(Role.SYSTEM, system), *given)
        return cls(
            given,
            sampling(settings),
            drafting(settings),
            max_tokens=settings["answer.max_tokens"],
            stops=settings["answer.stop"],
            thinking=thinking(settings),
            stop_on_repeat=settings["answer.stop_on_repeat"] is True,
        )


LoadedPair: TypeAlias = "NativePair"
"""A target, perhaps with a draft model, ready to answer."""


def readable_by(pair: LoadedPair, request: AnswerRequest) -> AnswerRequest:
    """Return a request that the pair can read. Raises UsageError if the prompt has a picture and the pair reads none.

    Text replaces the pictures of earlier messages, which another model has read.
    """
    if pair.info.projector is not None or not request.pictures:
        return request
    *before, last = request.messages
    if last.pictures:
        raise UsageError(
            f"{pair.info.target.name} cannot read pictures here: it is loaded without a projector.",
            f"Name its projector ({fix('model.mmproj')}), or load a model that has one.",
        )
    return replace(request, messages=(*map(pictures_as_text, before), last))


def written(request: AnswerRequest, segments: Sequence[Segment]) -> Prefill:
    """Return the text and the reasoning of an answer with its given beginning; calls belong to neither."""
    begun = request.prefill or Prefill("")
    text = "".join(segment.text for segment in segments if not (segment.reasoning or segment.call))
    return Prefill(begun.text + text, begun.reasoning + "".join(each.text for each in segments if each.reasoning))


def prompt_of(pair: LoadedPair, request: AnswerRequest) -> RenderedPrompt:
    """Return the prompt of a request."""
    if request.text is not None:
        return pair.build_plain(request.text)
    return pair.prompts.build(request.messages, request.prefill, request.thinking, request.tools)


def with_seed(sampling: SamplingParams, seed: int | None = None) -> SamplingParams:
    """Return the sampling with a seed: its own, else this seed, else a random seed."""
    if sampling.is_greedy or sampling.seed is not None:
        return sampling
    from secrets import randbelow

    return replace(sampling, seed=seed if seed is not None else randbelow(1 << 31))


def refuse_overflow(pair: LoadedPair, request: AnswerRequest, n_tokens: int) -> None:
    """Raise ContextOverflowError if the context is too short for a rendered prompt."""
    n_ctx, n_prompt = pair.target.n_ctx, n_tokens
    if n_tokens + min(request.n_room, n_ctx // _CONTEXT_PER_ROOM) <= n_ctx:
        return
    messages = request.messages
    # Tool calls and their results belong to the prompt above them.
    asked = max((at for at, message in enumerate(messages) if message.role is Role.USER), default=len(messages) - 1)
    system, last = [message for message in messages[:asked] if message.role is Role.SYSTEM], messages[asked:]

    def build(*messages: Message, tools: Sequence[Mapping[str, Any]] = request.tools) -> tuple[int, ...]:
        return pair.prompts.build(messages, None, request.thinking, tools).tokens

    alone = build(*system, *last)
    n_alone = len(alone)
    n_tools = n_alone - len(build(*system, *last, tools=())) if request.tools else 0
    if 2 * n_tools > n_ctx:
        whose, n_tokens = "tools", n_tools
    elif request.prefill is not None:
        whose = "answer"
    elif n_alone <= n_ctx:
        whose = "conversation"
    else:
        n_tokens = n_alone
        whose = "system" if 2 * (len(build(*last)) - n_tools) < n_alone - n_tools else "prompt"
        # The cells of pictures have negative ids.
        whose = "pictures" if 2 * sum(token < 0 for token in alone) > n_alone else whose
    subject, shorter = _SUBJECT_AND_FIX[whose]
    if whose == "tools":
        largest = max(request.tools, key=lambda tool: len(json.dumps(tool)))["function"]["name"]
        subject = f"The definitions of {counted(len(request.tools), 'tool')}, of which {largest} is the largest, have"
    message = f"{subject} {n_tokens:,} tokens and the context holds {n_ctx:,}."
    longer = or_longer(pair.info, n_tokens, lambda enough: f"set a longer context ({fix('model.ctx', enough)})")
    hint = f"{shorter}{longer}."
    raise ContextOverflowError(message, hint, whose=whose, n_tokens=n_tokens, n_prompt=n_prompt, n_ctx=n_ctx)
