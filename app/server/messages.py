"""Anthropic's messages API."""

from typing import Any

from app.engine.text.tool_calls import CallPart, ToolCall, read_arguments
from app.server.answer import Answer, Delta, End, Format, Names, Part, PrefillProgress, sse
from app.server.content import RequestPictures, part_text, parts_of
from app.server.conversation import request_for
from app.server.errors import RequestError
from app.server.fields import FieldNames, Fields, refuse
from app.server.tools import read_tool
from app.settings.layers import Resolved
from app.worker.request import AnswerRequest

_FIELD_NAMES = FieldNames(
    ("max_tokens",), "stop_sequences", "output_config.format", "output_config.effort", nested=False
)
_INVALID_JSON_KEY = "INVALID_JSON"
"""Anthropic's documented key for arguments that are no JSON."""
_CLIENT_TOOLS = ("bash_", "text_editor_", "computer_", "memory_")
"""Types of Anthropic's client tools, whose schemas only Anthropic's models know."""
_TOOL_CHOICES = ("auto", "any", "tool", "none")
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def read_anthropic(fields: Fields, settings: Resolved) -> AnswerRequest:
    """Return the request of the engine."""
    if "max_tokens" not in fields:
        raise RequestError("max_tokens is missing.", param="max_tokens")
    return read_count(fields, settings)


def read_count(fields: Fields, settings: Resolved) -> AnswerRequest:
    """Read a request to count tokens, which has no token limit."""
    if (asked := fields.object("thinking")) is not None:
        kind = {"adaptive": "auto", "enabled": "on"}.get(asked.text("type"), "off")
        settings = settings.over({"answer.thinking": kind, "answer.reasoning_effort": "auto"})
    readable = RequestPictures(reader="system takes")
    system = "\n".join(part_text(part, readable) for part in parts_of(fields, "system"))
    return request_for(fields, settings, _FIELD_NAMES, _messages(fields), _tools(fields), system)


def _messages(fields: Fields) -> list[Fields]:
    messages, called = fields.objects("messages"), set()
    for block in (block for message in messages for block in parts_of(message)):
        if block.text("type") == "tool_use":
            called.add(block.text("id"))
        elif block.text("type") == "tool_result" and block.text("tool_use_id") not in called:
            refuse(block.at("tool_use_id"), block.raw("tool_use_id"), "the id of a tool_use block before it")
    return messages


def _tools(fields: Fields) -> list[dict[str, Any]]:
    choice = fields.object("tool_choice")
    if choice is not None and choice.text("type") not in _TOOL_CHOICES:
        refuse(choice.at("type"), choice.raw("type"), "auto, any, tool or none")
    tools, others = [], []
    for one in fields.objects("tools"):
        kind = one.text("type", "custom")
        if kind.startswith(_CLIENT_TOOLS):
            refuse(one.at("type"), kind, "custom; this server has no schema of Anthropic's own tools")
        elif kind != "custom":
            others.append(one)
        elif "input_schema" not in one:
            refuse(one.at("input_schema"), None, "a JSON schema")
        else:
            tools.append(read_tool(one, "input_schema"))
    # Tools that run on Anthropic's servers are left out, unless they are the whole request.
    if others and not tools:
        refuse(others[0].at("type"), others[0].raw("type"), "custom; this server runs no tools")
    return tools


class AnthropicFormat(Format):
    """Writes an answer as a message of content blocks."""

    waits = True

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._n_blocks = 0
        self._open = ""

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        total, cached = (prompt.total, prompt.cached) if prompt is not None else (0, 0)
        usage = {"input_tokens": total - cached, "cache_read_input_tokens": cached, "output_tokens": 0}
        message = {**self._message(), "content": [], "usage": usage}
        return [sse({"type": "message_start", "message": message}, "message_start")]

    def keep_alive(self) -> str:
        return sse({"type": "ping"}, "ping")

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, reasoning):
                kind = "thinking" if reasoning else "text"
                return [*self._begin_block(kind), self._delta({"type": f"{kind}_delta", kind: text})] if text else []
            case CallPart(_, call):
                begun = self._begin_block(f"tool_use {call.id}", _tool_use(call, {}))
                delta = {"type": "input_json_delta", "partial_json": call.arguments}
                return [*begun, *([self._delta(delta)] if call.arguments else [])]
            case End():
                last = {"type": "message_delta", "delta": _stopped(part), "usage": _usage(part)}
                stop = {"type": "message_stop"}
                return [*self._end_block(), sse(last, "message_delta"), sse(stop, "message_stop")]

    def _begin_block(self, kind: str, block: dict[str, Any] | None = None) -> list[str]:
        if self._open == kind:
            return []
        ended = self._end_block()
        self._open = kind
        block = block or {"type": kind, kind: "", **({"signature": ""} if kind == "thinking" else {})}
        value = {"type": "content_block_start", "index": self._n_blocks, "content_block": block}
        return [*ended, sse(value, "content_block_start")]

    def _end_block(self) -> list[str]:
        if not self._open:
            return []
        self._open = ""
        self._n_blocks += 1
        return [sse({"type": "content_block_stop", "index": self._n_blocks - 1}, "content_block_stop")]

    def _delta(self, delta: dict[str, Any]) -> str:
        return sse({"type": "content_block_delta", "index": self._n_blocks, "delta": delta}, "content_block_delta")

    def whole(self, answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.reasoning:
            content.append({"type": "thinking", "thinking": answer.reasoning.strip(), "signature": ""})
        if answer.text or not answer.calls:
            # Null breaks Vercel's AI SDK, and Anthropic's schema requires the field.
            content.append({"type": "text", "text": answer.text, "citations": []})
        # A part of the input could look complete.
        content += (_tool_use(part.call, _input_of(part.call) if part.ends else {}) for part in answer.calls)
        return {**self._message(), "content": content, **_stopped(answer.end), "usage": _usage(answer.end)}

    def _message(self) -> dict[str, Any]:
        head = {"id": self._names.id, "type": "message", "role": "assistant", "model": self._names.model}
        return {**head, "stop_reason": None, "stop_sequence": None, "stop_details": None, "container": None}


def _input_of(call: ToolCall) -> dict[str, Any]:
    found = read_arguments(call)
    return {_INVALID_JSON_KEY: call.arguments} if found is None else found


def _tool_use(call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
    named = {"id": call.id, "name": call.name, "input": arguments}
    return {"type": "tool_use", **named, "caller": {"type": "direct"}}


def _stopped(end: End) -> dict[str, Any]:
    found = end.finished.stop if end.reason == "stop" else None
    return {"stop_reason": "stop_sequence" if found else _STOP_REASONS[end.reason], "stop_sequence": found}


def _usage(end: End) -> dict[str, Any]:
    """Return the token counts; fields of unsupported services are null."""
    unused = ("cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier")
    return {
        "input_tokens": end.stats.prompt_n,
        "cache_read_input_tokens": end.stats.cache_n,
        "cache_creation_input_tokens": 0,
        "output_tokens": end.stats.predicted_n,
        **dict.fromkeys(unused),
    }
