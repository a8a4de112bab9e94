"""OpenAI's responses API, without stored state: the client sends the whole conversation each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from app.conversations.message import Message, Role
from app.engine.text.tool_calls import ToolCall
from app.server.answer import Answer, CallPart, Delta, End, Part, PrefillProgress
from app.server.chat import as_logprob, with_answer_fields
from app.server.content import content_text, result_text
from app.server.conversation import (
    ChatInput,
    arguments_of,
    custom_arguments,
    custom_names,
    listed_tools,
    new_call_id,
    read_custom_tool,
    read_tool,
    request_for,
    with_tools,
)
from app.server.errors import RequestError
from app.server.fields import MOST_TOP, Fields, read_guidance, read_thinking, refuse
from app.server.format import Format, Names, sse
from app.session.chat_settings import ChatSettings
from app.worker.request import AnswerRequest

_ECHOED_FIELDS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "reasoning": {"effort": None, "summary": None},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "top_logprobs": 0,
    "parallel_tool_calls": True,
    "metadata": {},
}
"""Fields of the request that a response repeats, with their defaults."""
_FIXED_FIELDS: dict[str, Any] = {
    "error": None,
    "max_tool_calls": None,
    "previous_response_id": None,
    "store": False,
    "background": False,
    "service_tier": "default",
    "truncation": "disabled",
    "safety_identifier": None,
    "prompt_cache_key": None,
    "user": None,
}
"""Fields of services that this server does not offer."""
_CALL_EVENTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
"""Events and text field of each kind of call."""
_SKIPPED_SUFFIXES = ("_call", "_output", "reference", "snapshot", "compaction", "_trigger", "_update")
"""Ends of the types of items that say nothing to a model: those of OpenAI's own tools, and of Codex's own records."""


def read_response(fields: Fields, settings: ChatSettings) -> AnswerRequest:
    """Return the request of the engine."""
    if "previous_response_id" in fields or "conversation" in fields:
        raise RequestError("The server stores no responses.", "Send the whole conversation as input.")
    if fields.flag("background"):
        raise RequestError("The server answers no requests in the background.", param="background")
    conversation = _read_conversation(fields)
    reasoning, text = (fields.object(name) or Fields({}) for name in ("reasoning", "text"))
    thinking = read_thinking(fields, reasoning.text("effort"), settings.thinking)
    request = request_for(conversation, settings, read_guidance(fields, text.object("format")), thinking)
    wants_top = "top_logprobs" in fields or "message.output_text.logprobs" in fields.array("include")
    n_top = fields.whole("top_logprobs", 0, MOST_TOP) or 0
    request = with_answer_fields(request, fields, settings, "max_output_tokens")
    return replace(request, n_top=n_top if wants_top else None)


def _read_conversation(fields: Fields) -> ChatInput:
    messages = [Message(Role.SYSTEM, text)] if (text := fields.text("instructions")) else []
    value = fields.raw("input")
    if isinstance(value, str):
        messages.append(Message(Role.USER, value))
    else:
        messages += _read_items(fields.objects("input"), {own: shown for shown, own in _names_of(fields).items()})
    # Other types of tools run on OpenAI's servers.
    kinds: dict[str, Callable[[Fields], dict[str, Any]]]
    kinds = {"function": partial(read_tool, schema="parameters"), "custom": read_custom_tool}
    tools = []
    for shown, _, one in listed_tools(fields):
        if (kind := one.text("type")) in kinds:
            tools.append(kinds[kind](one))
            tools[-1]["function"]["name"] = shown
    return with_tools(messages, tools, fields)


def _names_of(fields: Fields) -> dict[str, tuple[str, str]]:
    """Return namespace and name of the tools in namespaces, by the name for the model."""
    return {shown: (space, one.text("name")) for shown, space, one in listed_tools(fields) if space}


def _read_items(items: list[Fields], names: Mapping[tuple[str, str], str]) -> Iterator[Message]:
    """Yield the messages of input items; attach reasoning to the message or call after it."""
    reasoning = ""
    for item in items:
        match item.text("type", "message"):
            case "message":
                role = item.text("role")
                if role not in ("system", "developer", "user", "assistant"):
                    refuse(item.at("role"), item.raw("role"), "system, developer, user or assistant")
                kind = {"user": Role.USER, "assistant": Role.ASSISTANT}.get(role, Role.SYSTEM)
                yield Message(kind, content_text(item), reasoning if kind is Role.ASSISTANT else "")
                reasoning = ""
            case "reasoning":
                parts = [*item.objects("content"), *item.objects("summary")]
                reasoning = "".join(part.text("text") for part in parts[: len(item.array("content")) or None])
            case "function_call" | "custom_tool_call" as kind:
                name, id_ = item.text("name"), item.text("call_id") or new_call_id()
                name = names.get((item.text("namespace"), name), name)
                is_custom = kind == "custom_tool_call"
                arguments = custom_arguments(item) if is_custom else arguments_of(item, "arguments")
                yield Message(Role.ASSISTANT, "", reasoning, (ToolCall(name, arguments, id_),))
                reasoning = ""
            case "function_call_output" | "custom_tool_call_output":
                yield Message(Role.USER, result_text(item, "output"), tool_call_id=item.text("call_id", "0"))
            case "agent_message":
                # Codex passes a text from one of its agents to another.
                yield Message(Role.USER, result_text(item))
            case kind if not kind.endswith(_SKIPPED_SUFFIXES):
                refuse(item.at("type"), kind, "message, reasoning, function_call or function_call_output")


class ResponseFormat(Format):
    """Write an answer as a response: its reasoning, its message and its calls are items.

    It repeats some fields of the request.
    """

    def __init__(self, names: Names, fields: Fields) -> None:
        super().__init__(names)
        self._fields = fields
        self._names_of = _names_of(fields)
        self._n_events = 0
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._text = ""
        self._logprobs: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Any]] = []

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        response = self._response()
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def keep_alive(self) -> str:
        # Codex closes a stream without events for five minutes; comments do not count.
        return self._event("response.in_progress", response=self._response())

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, reasoning, probabilities):
                self._fresh += map(as_logprob, probabilities)
                return self._delta(text, reasoning=reasoning) if text else []
            case CallPart():
                return self._call(part)
            case End():
                return self._end(part)

    def _delta(self, text: str, *, reasoning: bool) -> list[str]:
        kind = "reasoning" if reasoning else "message"
        out = []
        if self._open is None or self._open["type"] != kind:
            out += self._close()
            self._open, self._text, self._logprobs = self._new_item(kind), "", []
            out.append(self._of_item("response.output_item.added", item=self._open))
            if not reasoning:
                out.append(self._of_part("response.content_part.added", part=_text_part("")))
        self._text += text
        fresh, self._fresh = self._fresh, []
        if reasoning:
            return [*out, self._of_part("response.reasoning_text.delta", delta=text)]
        self._logprobs += fresh
        return [*out, self._of_part("response.output_text.delta", delta=text, logprobs=fresh)]

    def _close(self, status: str = "completed") -> list[str]:
        """Return the events that end the open item."""
        item, self._open = self._open, None
        if item is None:
            return []
        text = self._text
        if item["type"] == "message":
            self._logprobs, self._fresh = [*self._logprobs, *self._fresh], []
        done = {**self._finished(item, text), "status": status}
        out = []
        if item["type"] == "reasoning":
            out.append(self._of_part("response.reasoning_text.done", done, text=text))
        elif item["type"] == "message":
            out.append(self._of_part("response.output_text.done", done, text=text, logprobs=self._logprobs))
            out.append(self._of_part("response.content_part.done", done, part=done["content"][0]))
        else:
            event, key = _CALL_EVENTS[item["type"]]
            named = {"item_id": done["id"], "name": done["name"], key: text}
            out.append(self._of_item(f"response.{event}.done", **named))
        out.append(self._of_item("response.output_item.done", item=done))
        self._items.append(done)
        return out

    def _call(self, part: CallPart) -> list[str]:
        out = []
        if part.begins:
            out += self._close()
            self._open, self._text = self._call_item(part.call), ""
            out.append(self._of_item("response.output_item.added", item=self._open))
        if self._open is not None and (text := part.call.arguments):
            self._text += text
            event, _ = _CALL_EVENTS[self._open["type"]]
            out.append(self._of_item(f"response.{event}.delta", item_id=self._open["id"], delta=text))
        return [*out, *(self._close() if part.ends else [])]

    def _end(self, end: End) -> list[str]:
        out = self._close("incomplete" if end.reason == "length" else "completed")
        response = self._response(end)
        return [*out, self._event(f"response.{response['status']}", response=response)]

    def whole(self, answer: Answer) -> dict[str, Any]:
        self._logprobs = list(map(as_logprob, answer.probabilities))
        for kind, text in (("reasoning", answer.reasoning.strip()), ("message", answer.text)):
            if text:
                self._items.append(self._finished(self._new_item(kind), text))
        for call in answer.calls:
            self._items.append(self._finished(self._call_item(call), call.arguments))
        if answer.end.reason == "length" and self._items and (answer.is_call_cut or not answer.calls):
            self._items[-1]["status"] = "incomplete"
        return self._response(answer.end)

    def _new_item(self, kind: str) -> dict[str, Any]:
        prefix, n = {"reasoning": "rs", "message": "msg"}[kind], len(self._items)
        item: dict[str, Any] = {"id": f"{prefix}_{self._names.token}_{n}", "type": kind, "status": "in_progress"}
        return {**item, "content": [], **({"summary": []} if kind == "reasoning" else {"role": "assistant"})}

    def _call_item(self, call: ToolCall) -> dict[str, Any]:
        kind = "custom_tool_call" if call.name in custom_names(self._fields) else "function_call"
        named = {"call_id": call.id, "name": call.name, _CALL_EVENTS[kind][1]: ""}
        if call.name in self._names_of:
            named["namespace"], named["name"] = self._names_of[call.name]
        return {"id": f"fc_{self._names.token}_{len(self._items)}", "type": kind, "status": "in_progress", **named}

    def _finished(self, item: dict[str, Any], text: str) -> dict[str, Any]:
        if item["type"] in _CALL_EVENTS:
            return {**item, "status": "completed", _CALL_EVENTS[item["type"]][1]: text}
        is_reasoning = item["type"] == "reasoning"
        part = {"type": "reasoning_text", "text": text} if is_reasoning else _text_part(text, self._logprobs)
        return {**item, "status": "completed", "content": [part]}

    def _response(self, end: End | None = None) -> dict[str, Any]:
        fields = self._fields
        status, usage = "in_progress", None
        if end is not None:
            status = "incomplete" if end.reason == "length" else "completed"
            usage = {
                "input_tokens": end.prompt_tokens,
                "input_tokens_details": {"cached_tokens": end.stats.cache_n},
                "output_tokens": end.stats.predicted_n,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": end.prompt_tokens + end.stats.predicted_n,
            }
        echoed = {
            name: value if (value := fields.raw(name)) is not None else _ECHOED_FIELDS[name] for name in _ECHOED_FIELDS
        }
        return {
            "id": self._names.id,
            "object": "response",
            "created_at": self._names.created,
            "completed_at": self._names.created if end is not None else None,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self._names.model,
            "output": list(self._items),
            "tools": [{"strict": None, **one} for one in fields.array("tools")],
            "usage": usage,
            **echoed,
            **_FIXED_FIELDS,
        }

    def _of_item(self, kind: str, **more: Any) -> str:
        return self._event(kind, output_index=len(self._items), **more)

    def _of_part(self, kind: str, item: dict[str, Any] | None = None, **more: Any) -> str:
        shown = item or self._open
        assert shown is not None
        return self._event(kind, item_id=shown["id"], output_index=len(self._items), content_index=0, **more)

    def _event(self, kind: str, **more: Any) -> str:
        self._n_events += 1
        return sse({"type": kind, "sequence_number": self._n_events - 1, **more}, kind)


def _text_part(text: str, logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}
