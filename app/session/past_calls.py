"""The calls of a turn, and the request that makes a model answer instead of repeating them.

Small models repeat a call as long as they see tools or calls, but they use a text beside the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from app.conversations.message import Message, Role
from app.engine.text.tool_calls import ToolCall, argument_object, shown_call
from app.worker.events import Tool
from app.worker.request import AnswerRequest

REPEATED = "This call was made before; its result is above."
"""Result of a repeated call, which does not run."""
_MARKUP_START = re.compile(r"\s*(```\w*\s*)?[<{\[]")
"""Beginning of an answer that is markup: a tag, an object or a list, perhaps in a code block."""
_TAG_PATTERN = re.compile(r"<[^<>]*>")


@dataclass(frozen=True, slots=True)
class _PastCall:
    name: str
    arguments: dict[str, Any]
    text: str
    is_final: bool


class PastCalls:
    """The calls of a turn with their results."""

    def __init__(self) -> None:
        self._calls: list[_PastCall] = []

    def has(self, call: ToolCall) -> bool:
        """Return whether a call was made before and would have the same result."""
        last = self._last(call)
        return last is not None and last.is_final

    def add(self, call: ToolCall, tool: Tool | None, text: str, *, failed: bool) -> bool:
        """Add a completed call; return whether its result is new to the model.

        A tool that may change something, or that failed, runs again until two results are the same. The tool is None if
        the call did not run.
        """
        arguments, last = argument_object(call), self._last(call)
        is_new = True
        if tool is not None and tool.reads_only:
            is_new = failed or not any(_holds(one, call.name, arguments, text) for one in self._calls)
        elif tool is not None:
            # Earlier results may be out of date.
            self._calls = [one for one in self._calls if not one.is_final]
        can_change = tool is not None and (failed or not tool.reads_only)
        is_same = last is not None and last.text == text
        self._calls.append(_PastCall(call.name, arguments, text, is_same or not can_change))
        return is_new

    def _last(self, call: ToolCall) -> _PastCall | None:
        same = (call.name, argument_object(call))
        return next((one for one in reversed(self._calls) if (one.name, one.arguments) == same), None)


def _holds(earlier: _PastCall, name: str, arguments: dict[str, Any], text: str) -> bool:
    """Return whether an earlier result has the text of a call of the tool with added or missing arguments."""
    shared = earlier.arguments.keys() & arguments.keys()
    is_same = bool(shared) and all(earlier.arguments[key] == arguments[key] for key in shared)
    return is_same and earlier.name == name and text in earlier.text


def is_empty(answer: str, tools: Iterable[str]) -> bool:
    """Return whether an answer has no text, or only markup: tags, or a call or definition of a tool."""
    if _MARKUP_START.match(answer) and any(name in answer for name in tools):
        return True
    return not _TAG_PATTERN.sub("", answer).strip()


def with_results_as_text(request: AnswerRequest) -> AnswerRequest:
    """Return a request without calls, in which their results follow the prompts."""
    messages: list[Message] = []
    made: dict[str, ToolCall] = {}
    for message in request.messages:
        made |= {call.id: call for call in message.tool_calls}
        if message.role is Role.TOOL and message.content != REPEATED:
            result = f"Result of {shown_call(made[message.tool_call_id])}:\n{message.content}"
            asked = messages.pop() if messages and messages[-1].role is Role.USER else Message(Role.USER, "")
            messages.append(replace(asked, content=f"{asked.content}\n\n{result}".lstrip()))
        elif message.role is not Role.TOOL and not message.tool_calls:
            messages.append(message)
    return replace(request, messages=tuple(messages))
