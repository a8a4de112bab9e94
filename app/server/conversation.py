"""Convert the messages of every API to the engine's request."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.conversations.message import Message, Prefill, Role
from app.core.pictures import Picture
from app.engine.text.tool_calls import ToolCall
from app.server.content import RequestPictures, part_text, parts_of, result_text
from app.server.errors import RequestError
from app.server.fields import FieldNames, Fields, read_answer, refuse
from app.server.tools import arguments_of, chosen, custom_arguments
from app.settings.layers import Resolved
from app.worker.request import AnswerRequest

_ID_LENGTH = 9
"""Mistral's templates refuse call ids of any other length."""
_ROLE_BY_NAME = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_SKIPPED_SUFFIXES = ("_call", "_output", "reference", "snapshot", "compaction", "_trigger", "_update")
"""Suffixes of item types without content for a model: OpenAI's own tools, and Codex's own records."""


def new_call_id() -> str:
    """Return an id for a tool call."""
    return secrets.token_hex(_ID_LENGTH)[:_ID_LENGTH]


def _read_messages(
    items: Sequence[Fields], pictures: RequestPictures, tools: Sequence[Mapping[str, Any]]
) -> Iterator[Message]:
    """Yield the messages in messages or items of any API.

    Args:
        items: Messages, and the other items of OpenAI's responses API. Reasoning belongs to the next item.
        tools: Tools of the request; tools in namespaces have other names for the model.
    """
    names = {tool["namespace"]: tool["function"]["name"] for tool in tools if "namespace" in tool}
    reasoning = ""
    for item in items:
        match item.text("type", "message"):
            case "message":
                for message in _read_message(item, pictures):
                    is_answer = message.role is Role.ASSISTANT
                    yield replace(message, reasoning=reasoning + message.reasoning) if is_answer else message
                reasoning = ""
            case "reasoning":
                parts = [*item.objects("content"), *item.objects("summary")]
                reasoning = "\n\n".join(part.text("text") for part in parts[: len(item.array("content")) or None])
            case "function_call" | "custom_tool_call":
                call = _read_call(item)
                call = replace(call, name=names.get((item.text("namespace"), call.name), call.name))
                yield Message(Role.ASSISTANT, "", reasoning, (call,))
                reasoning = ""
            case "function_call_output" | "custom_tool_call_output":
                yield _result(item, pictures, item.text("call_id", "0"), "output")
            case "agent_message":
                # Codex forwards a text between its agents.
                yield _result(item, pictures, "")
            case kind if not kind.endswith(_SKIPPED_SUFFIXES):
                refuse(item.at("type"), kind, "message, reasoning, function_call or function_call_output")


def _result(fields: Fields, pictures: RequestPictures, call: str, name: str = "content") -> Message:
    text = result_text(fields, pictures, name)
    role = Role.TOOL if call else Role.USER
    return Message(role, text, tool_call_id=call, pictures=pictures.take())


def _read_message(message: Fields, pictures: RequestPictures) -> Iterator[Message]:
    """Yield the messages in a message: the tool results in it, then its text and its calls."""
    role = message.text("role")
    if role in ("tool", "function"):
        id_ = message.text("tool_call_id") or message.text("name", "0")
        yield _result(message, pictures, id_)
        return
    if role not in _ROLE_BY_NAME:
        refuse(message.at("role"), message.raw("role"), "system, developer, user, assistant or tool")
    reasoning = message.text("reasoning_content") or message.text("reasoning")
    texts, calls, has_results = [], [], False
    readable = pictures if role == "user" else RequestPictures(reader=f"a message of the role {role} takes")
    shown: list[Picture] = []
    for part in parts_of(message):
        match part.text("type"):
            case "thinking":
                thought = part.text("thinking")
                reasoning = f"{reasoning}\n\n{thought}" if reasoning else thought
            case "redacted_thinking":
                pass
            case "tool_use":
                calls.append(_read_call(part))
            case "tool_result":
                has_results = True
                yield _result(part, pictures, part.text("tool_use_id", "0"))
            case _:
                texts.append(part_text(part, readable))
                shown += pictures.take()
    calls += map(_read_call, message.objects("tool_calls"))
    if texts or reasoning or calls or not has_results:
        yield Message(_ROLE_BY_NAME[role], "\n".join(texts), reasoning, tuple(calls), pictures=tuple(shown))


def _read_call(call: Fields) -> ToolCall:
    kind = call.text("type", "function")
    custom = call.object("custom") or (call if kind == "custom_tool_call" else None)
    function = custom or call.object("function") or call
    if "name" not in function:
        is_nested = function is call and kind in ("function", "custom")
        refuse(function.at(f"{kind}.name" if is_nested else "name"), None, "the name of a tool")
    given = "arguments" if "arguments" in function else "input"
    arguments = custom_arguments(custom.text("input")) if custom is not None else arguments_of(function, given)
    return ToolCall(function.text("name"), arguments, call.text("call_id") or call.text("id") or new_call_id())


def _arranged(messages: Sequence[Message]) -> tuple[list[Message], Prefill | None]:
    """Return messages in the order that chat templates accept, and a prefill if the assistant's message is last.

    System messages are merged into one at the beginning; consecutive messages of the assistant are merged too.
    """
    system = "\n\n".join(message.content for message in messages if message.role is Role.SYSTEM)
    out: list[Message] = [Message(Role.SYSTEM, system)] if system else []
    for message in messages:
        before = out[-1] if out else None
        if before is not None and before.role is message.role is Role.ASSISTANT:
            content = "\n\n".join(filter(None, (before.content, message.content)))
            reasoning = "\n\n".join(filter(None, (before.reasoning, message.reasoning)))
            out[-1] = Message(Role.ASSISTANT, content, reasoning, (*before.tool_calls, *message.tool_calls))
        elif message.role is not Role.SYSTEM:
            out.append(message)
    last = out[-1] if out else None
    if last is not None and last.role is Role.ASSISTANT and not last.tool_calls:
        return out[:-1], Prefill(last.content, last.reasoning)
    return out, None


def request_for(
    fields: Fields,
    settings: Resolved,
    names: FieldNames,
    items: Sequence[Fields],
    tools: Sequence[Mapping[str, Any]],
    system: str = "",
) -> AnswerRequest:
    """Return the engine's request; disable reasoning under a grammar, which applies from the first token.

    Args:
        items: See `_read_messages`.
        system: A system prompt outside the messages.

    Raises:
        RequestError: There are no messages.
    """
    offered, must_call, one_call = chosen(tools, fields, names)
    pictures = RequestPictures.of(settings)
    messages = [Message(Role.SYSTEM, system)] if system else []
    messages += _read_messages(items, pictures, tools)
    if not messages:
        raise RequestError(f"{names.messages} is missing or empty.", param=names.messages)
    request = read_answer(fields, AnswerRequest.of(settings, messages), names)
    arranged, prefill = _arranged(request.messages)
    guidance = replace(request.guidance, must_call=must_call, one_call=one_call)
    if guidance.has_grammar:
        request = replace(request, thinking=replace(request.thinking, enabled=False))
    return replace(request, messages=tuple(arranged), prefill=prefill, tools=offered, guidance=guidance)
