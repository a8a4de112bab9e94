"""OpenAI's responses API, without stored state: the client sends the whole conversation each time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.engine.text.tool_calls import CallPart, ToolCall
from app.server.answer import Answer, Delta, End, Format, Names, Part, PrefillProgress, sse
from app.server.chat import as_logprob
from app.server.conversation import request_for
from app.server.errors import RequestError
from app.server.fields import MOST_TOP, FieldNames, Fields, refuse
from app.server.tools import read_tools
from app.settings.layers import Resolved
from app.worker.request import AnswerRequest

_FIELD_NAMES = FieldNames(
    ("max_output_tokens",), format="text.format", effort="reasoning.effort", messages="input", nested=False
)
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
_TEXT_EVENTS = {
    "message": "output_text",
    "reasoning": "reasoning_text",
    "function_call": "function_call_arguments",
    "custom_tool_call": "custom_tool_call_input",
}
"""Text events by type of item."""
_CALL_TEXTS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The text field by type of call."""


def read_response(fields: Fields, settings: Resolved) -> AnswerRequest:
    """Return the request of the engine."""
    for name in ("previous_response_id", "conversation"):
        if name in fields:
            raise RequestError("The server stores no responses.", "Send the whole conversation as input.", param=name)
    if fields.flag("background"):
        raise RequestError("The server answers no requests in the background.", param="background")
    given = fields.raw("input")
    if not isinstance(given, str | list | None):
        refuse("input", given, "a string or an array of items")
    items = [Fields({"role": "user", "content": given})] if isinstance(given, str) else fields.objects("input")
    request = request_for(
        fields, settings, _FIELD_NAMES, items, read_tools(fields, _FIELD_NAMES), fields.text("instructions")
    )
    wants_top = "top_logprobs" in fields or "message.output_text.logprobs" in fields.array("include")
    n_top = fields.whole("top_logprobs", 0, MOST_TOP) or 0
    return replace(request, n_top=n_top if wants_top else None)


class ResponseFormat(Format):
    """Writes an answer as a response: its reasoning, its message and its calls are items.

    It repeats some fields of the request.
    """

    def __init__(self, names: Names, fields: Fields, index: int, asked: AnswerRequest) -> None:
        super().__init__(names, fields, index, asked)
        self._n_events = 0
        self._items: list[dict[str, Any]] = []
        self._open: dict[str, Any] | None = None
        self._text = ""
        self._logprobs: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Any]] = []

    def begin(self, prompt: PrefillProgress | None) -> list[str]:
        response = self._response()
        return [self._event(f"response.{name}", response=response) for name in ("created", "in_progress")]

    def keep_alive(self) -> str:
        # Codex closes a stream after five minutes without events, and comments do not count. Its tools are long.
        return self._event("response.in_progress", response={**self._response(), "instructions": None, "tools": []})

    def part(self, part: Part) -> list[str]:
        match part:
            case Delta(text, reasoning, probabilities):
                self._fresh += map(as_logprob, probabilities)
                kind = "reasoning" if reasoning else "message"
                begins = text and (self._open is None or self._open["type"] != kind)
                return [*(self._begin(self._text_item(kind)) if begins else []), *self._add(text)]
            case CallPart(_, call, begins, ends):
                out = [*(self._begin(self._call_item(call)) if begins else []), *self._add(call.arguments)]
                return [*out, *(self._close() if ends else [])]
            case End(reason):
                out = self._close("incomplete" if reason == "length" else "completed")
                response = self._response(part)
                return [*out, self._event(f"response.{response['status']}", response=response)]

    def whole(self, answer: Answer) -> dict[str, Any]:
        self.part(Delta(answer.reasoning.strip(), reasoning=True))
        self.part(Delta(answer.text, probabilities=tuple(answer.probabilities)))
        for part in answer.calls:
            self.part(replace(part, begins=True))
        self.part(answer.end)
        return self._response(answer.end)

    def _begin(self, item: dict[str, Any]) -> list[str]:
        out = self._close()
        self._open, self._text, self._logprobs = item, "", []
        out.append(self._event("response.output_item.added", output_index=len(self._items), item=item))
        if item["type"] == "message":
            out.append(self._of_item("response.content_part.added", item, part=_text_part("")))
        return out

    def _add(self, text: str) -> list[str]:
        item = self._open
        if item is None or not text:
            return []
        self._text += text
        more = {}
        if item["type"] == "message":
            more, self._fresh = {"logprobs": self._fresh}, []
            self._logprobs += more["logprobs"]
        return [self._of_item(f"response.{_TEXT_EVENTS[item['type']]}.delta", item, delta=text, **more)]

    def _close(self, status: str = "completed") -> list[str]:
        item, self._open = self._open, None
        if item is None:
            return []
        kind, text = item["type"], self._text
        done = {**item, "status": status}
        named: dict[str, Any] = {"text": text}
        if kind in _CALL_TEXTS:
            done[_CALL_TEXTS[kind]] = text
            named = {"name": done["name"], _CALL_TEXTS[kind]: text}
        elif kind == "reasoning":
            done["content"] = [{"type": "reasoning_text", "text": text}]
        else:
            self._logprobs, self._fresh = [*self._logprobs, *self._fresh], []
            done["content"] = [_text_part(text, self._logprobs)]
            named["logprobs"] = self._logprobs
        out = [self._of_item(f"response.{_TEXT_EVENTS[kind]}.done", done, **named)]
        if kind == "message":
            out.append(self._of_item("response.content_part.done", done, part=done["content"][0]))
        out.append(self._event("response.output_item.done", output_index=len(self._items), item=done))
        self._items.append(done)
        return out

    def _text_item(self, kind: str) -> dict[str, Any]:
        is_reasoning = kind == "reasoning"
        id_ = f"{'rs' if is_reasoning else 'msg'}_{self._names.token}_{len(self._items)}"
        more: dict[str, Any] = {"summary": []} if is_reasoning else {"role": "assistant"}
        return {"id": id_, "type": kind, "status": "in_progress", "content": [], **more}

    def _call_item(self, call: ToolCall) -> dict[str, Any]:
        tool = self._tools[call.name]
        kind = "custom_tool_call" if "custom" in tool else "function_call"
        named = {"call_id": call.id, "name": call.name, _CALL_TEXTS[kind]: ""}
        if "namespace" in tool:
            named["namespace"], named["name"] = tool["namespace"]
        return {"id": f"fc_{self._names.token}_{len(self._items)}", "type": kind, "status": "in_progress", **named}

    def _response(self, end: End | None = None) -> dict[str, Any]:
        status = "in_progress" if end is None else "incomplete" if end.reason == "length" else "completed"
        return {
            "id": self._names.id,
            "object": "response",
            "created_at": self._names.created,
            "completed_at": self._names.created if end is not None else None,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "model": self._names.model,
            "output": list(self._items),
            "tools": [{"strict": None, **one} for one in self._fields.array("tools")],
            "usage": _usage(end) if end is not None else None,
            **{name: _or_in_use(self._fields.raw(name), value) for name, value in _in_use(self.asked).items()},
            **_FIXED_FIELDS,
        }

    def _of_item(self, kind: str, item: dict[str, Any], **more: Any) -> str:
        at = {"item_id": item["id"], "output_index": len(self._items)}
        return self._event(kind, **at, **({} if item["type"] in _CALL_TEXTS else {"content_index": 0}), **more)

    def _event(self, kind: str, **more: Any) -> str:
        self._n_events += 1
        return sse({"type": kind, "sequence_number": self._n_events - 1, **more}, kind)


def _in_use(asked: AnswerRequest) -> dict[str, Any]:
    """Return the fields that a response repeats from its request, with the values of a request that leaves them out."""
    sampling, thinking = asked.sampling, asked.thinking
    # OpenAI has no effort "max".
    effort = "none" if thinking.enabled is False else "xhigh" if thinking.effort == "max" else thinking.effort
    return {
        "instructions": None,
        "max_output_tokens": asked.max_tokens,
        "reasoning": {"effort": effort, "summary": None},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "top_logprobs": asked.n_top or 0,
        "parallel_tool_calls": True,
        "metadata": {},
    }


def _or_in_use(given: Any, in_use: Any) -> Any:
    if isinstance(given, dict) and isinstance(in_use, dict):
        return in_use | {name: value for name, value in given.items() if value is not None}
    return in_use if given is None else given


def _text_part(text: str, logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": list(logprobs)}


def _usage(end: End) -> dict[str, Any]:
    return {
        "input_tokens": end.prompt_tokens,
        "input_tokens_details": {"cached_tokens": end.stats.cache_n, "cache_write_tokens": 0},
        "output_tokens": end.stats.predicted_n,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": end.prompt_tokens + end.stats.predicted_n,
    }
