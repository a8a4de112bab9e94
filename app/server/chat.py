"""OpenAI's chat completions API, with the fields that llama-server adds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from app.engine.text.tool_calls import ToolCall
from app.server.answer import Answer, Calls, Delta, End, Part
from app.server.conversation import Conversation, read_messages, read_tool, request_for, with_tools
from app.server.fields import (
    Fields,
    read_guidance,
    read_max_tokens,
    read_n_top,
    read_sampling,
    read_stops,
    read_thinking,
)
from app.server.format import Format, Names, sse
from app.session.chat_settings import ChatSettings
from app.worker.events import Finished, TokenProbability
from app.worker.request import AnswerRequest

DONE = "data: [DONE]\n\n"
Report: TypeAlias = Callable[[Finished], dict[str, Any]]
_LEAST = 1e-30


def read_chat(fields: Fields, settings: ChatSettings) -> tuple[AnswerRequest, tuple[str, ...]]:
    """Return the request and the names of its tools."""
    fields.whole("n", 1, 1)
    conversation = read_conversation(fields)
    request = request_for(
        conversation,
        settings,
        read_guidance(fields, fields.object("response_format")),
        read_thinking(fields, fields.text("reasoning_effort"), settings.thinking),
    )
    return with_answer_fields(request, fields, settings, "max_completion_tokens", "max_tokens", "n_predict"), (
        conversation.tool_names
    )


def with_answer_fields(request: AnswerRequest, fields: Fields, settings: ChatSettings, *lengths: str) -> AnswerRequest:
    """Return a request with sampling, length, stop strings and probabilities; `lengths` name the longest answer."""
    stops = read_stops(fields)
    return replace(
        request,
        sampling=read_sampling(fields, settings.sampling),
        max_tokens=read_max_tokens(fields, *lengths) or settings.max_tokens,
        stops=stops or settings.stops,
        n_top=read_n_top(fields),
    )


def read_conversation(fields: Fields) -> Conversation:
    """Return messages, tools and their choice."""
    tools = []
    for one in fields.objects("tools"):
        function = one.object("function")
        # Other types of tools run on the servers of their providers.
        if one.text("type", "function") == "function" and function is not None:
            tools.append(read_tool(function, "parameters"))
    return with_tools(list(read_messages(fields)), tools, fields)


class CompletionFormat(Format):
    """Write an answer as a completion of any kind, whose stream ends with the tokens used if the request asks for it.

    Args:
        names: Id, model and time.
        fields: Of the request.
        report: Returns more about an answer, under the key "tandem"; None for nothing more.
    """

    def __init__(self, names: Names, fields: Fields, report: Report | None = None) -> None:
        super().__init__(names)
        self._include_usage = (fields.object("stream_options") or Fields({})).flag("include_usage")
        self._report = report

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._names.id, "object": kind, "created": self._names.created, "model": self._names.model}

    def _numbers(self, end: End) -> dict[str, Any]:
        more = {"tandem": self._report(end.finished)} if self._report is not None else {}
        return {"timings": end.stats.timings, **more}

    def _ended(self, last: str, kind: str, end: End) -> list[str]:
        """Return the last events of a stream."""
        usage = sse({**self._head(kind), "choices": [], "usage": end.usage})
        return [last, *([usage] if self._include_usage else []), DONE]


class ChatFormat(CompletionFormat):
    """Write an answer as a chat completion."""

    def begin(self) -> list[str]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, reasoning, probabilities):
                return [
                    self._chunk({"reasoning_content" if reasoning else "content": text}, probabilities=probabilities)
                ]
            case Calls(calls):
                return [self._chunk({"tool_calls": [{"index": n, **as_call(call)}]}) for n, call in enumerate(calls)]
            case End():
                return self._ended(self._chunk({}, part.reason, **self._numbers(part)), "chat.completion.chunk", part)

    def whole(self, answer: Answer) -> dict[str, Any]:
        content = answer.text or (None if answer.calls else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": []}
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning.strip()
        if answer.calls:
            message["tool_calls"] = [as_call(call) for call in answer.calls]
        choice = {"index": 0, "message": message, "finish_reason": answer.end.reason, "logprobs": None}
        if answer.probabilities:
            choice["logprobs"] = {"content": [as_logprob(one) for one in answer.probabilities]}
        end = answer.end
        return {**self._head("chat.completion"), "choices": [choice], "usage": end.usage, **self._numbers(end)}

    def _chunk(
        self,
        delta: dict[str, Any],
        reason: str | None = None,
        *,
        probabilities: tuple[TokenProbability, ...] = (),
        **more: Any,
    ) -> str:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if probabilities:
            choice["logprobs"] = {"content": [as_logprob(one) for one in probabilities]}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice], **more})


def as_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as the chat API writes it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def as_logprob(one: TokenProbability) -> dict[str, Any]:
    """Return the probability of a token as the chat API writes it."""
    top = [_logprob(piece, probability) for piece, probability in one.top]
    return {**_logprob(one.piece, one.probability), "top_logprobs": top}


def _logprob(piece: bytes, probability: float) -> dict[str, Any]:
    return {"token": piece.decode(errors="replace"), "logprob": log_of(probability), "bytes": list(piece)}


def log_of(probability: float) -> float:
    """Return the logarithm of a probability; JSON has no infinity for that of 0."""
    return math.log(max(probability, _LEAST))
