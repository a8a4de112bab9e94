"""Convert messages and tools of every API to the engine's types."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from app.conversations.message import Message, Prefill, Role
from app.engine.text.tool_calls import ToolCall
from app.engine.types import Guidance
from app.server.content import content_text, result_text
from app.server.errors import RequestError
from app.server.fields import Fields, refuse
from app.session.chat_settings import ChatSettings
from app.settings.layers import AS_TRAINED, Thinking
from app.worker.request import AnswerRequest

_ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 9
"""Mistral's templates refuse ids of calls of any other length."""
_TOOL_CHOICES = {
    "auto": "auto",
    "none": "none",
    **dict.fromkeys(("any", "required", "function", "tool", "custom"), "required"),
}
"""Types of `tool_choice` in the APIs of OpenAI and Anthropic."""
_LONGEST_ESCAPE = len("\\u0000")
CUSTOM_INPUT = "input"
"""Parameter that holds the text for a custom tool."""


@dataclass(frozen=True, slots=True)
class ChatInput:
    """Messages, tools and the beginning of an answer; see `arranged` and `read_tool`."""

    messages: tuple[Message, ...]
    prefill: Prefill | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    must_call: bool = False
    one_call: bool = False


def new_call_id() -> str:
    """Return an id for a call of a tool."""
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))


def arranged(messages: Sequence[Message]) -> tuple[tuple[Message, ...], Prefill | None]:
    """Return messages in the order that chat templates accept, and a prefill if the last one is the assistant's.

    System messages are merged into one, in front; so are consecutive messages of the assistant.

    Raises:
        RequestError: There are none.
    """
    system = "\n\n".join(message.content for message in messages if message.role is Role.SYSTEM)
    out: list[Message] = [Message(Role.SYSTEM, system)] if system else []
    for message in messages:
        before = out[-1] if out else None
        if message.role is Role.SYSTEM:
            continue
        if before is not None and before.role is message.role is Role.ASSISTANT:
            out[-1] = Message(
                Role.ASSISTANT,
                before.content + message.content,
                before.reasoning + message.reasoning,
                (*before.tool_calls, *message.tool_calls),
            )
        else:
            out.append(message)
    if not messages:
        raise RequestError("There are no messages.", param="messages")
    last = out[-1]
    if last.role is Role.ASSISTANT and not last.tool_calls:
        return tuple(out[:-1]), Prefill(last.content, last.reasoning)
    return tuple(out), None


def arguments_of(fields: Fields, name: str) -> str:
    """Return the arguments of a call as the text of a JSON object."""
    value = fields.raw(name)
    if isinstance(value, str):
        try:
            parsed = json.loads(value or "{}")
        except (ValueError, RecursionError):
            # What a model wrote and nobody could parse comes back with the conversation.
            return json.dumps({"input": value}, ensure_ascii=False)
        return value or "{}" if isinstance(parsed, dict) else json.dumps({"input": parsed}, ensure_ascii=False)
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)


def read_tool(fields: Fields, schema: str) -> dict[str, Any]:
    """Return a tool in OpenAI's chat format; `schema` names the field with the schema of its parameters."""
    name, parameters = fields.text("name"), fields.object(schema)
    if not name:
        refuse(fields.at("name"), name, "the name of a function")
    values = {"type": "object", "properties": {}} if parameters is None else fields.raw(schema)
    function = {"name": name, "description": fields.text("description"), "parameters": values}
    return {"type": "function", "function": function}


def read_custom_tool(fields: Fields) -> dict[str, Any]:
    """Return a tool of OpenAI that takes any text, as a function with one parameter; see `custom_arguments`."""
    form = fields.object("format") or Fields({})
    # OpenAI's chat API nests the grammar once more.
    form = form.object("grammar") or form
    schema: dict[str, Any] = {"type": "string"}
    if definition := form.text("definition"):
        schema["description"] = f"It must match this {form.text('syntax', 'lark')} grammar: {definition}"
    parameters = {"type": "object", "properties": {CUSTOM_INPUT: schema}, "required": [CUSTOM_INPUT]}
    named = Fields({"name": fields.raw("name"), "description": fields.raw("description"), "parameters": parameters})
    return read_tool(named, "parameters")


def custom_arguments(fields: Fields) -> str:
    """Return the arguments of a call of a custom tool, whose input is text."""
    return json.dumps({CUSTOM_INPUT: fields.text("input")}, ensure_ascii=False)


def listed_tools(fields: Fields) -> Iterator[tuple[str, str, Fields]]:
    """Yield the tools of a request: name for the model, namespace or an empty text, and tool.

    A tool of a namespace has its own name, or, if that is taken, the namespace's in front of it.
    """
    taken: set[str] = set()
    tools = fields.objects("tools")
    groups = [("", [one for one in tools if one.text("type") != "namespace"])]
    groups += [(one.text("name"), one.objects("tools")) for one in tools if one.text("type") == "namespace"]
    for space, members in groups:
        for one in members:
            name = (one.object("custom") or one).text("name")
            shown = f"{space}__{name}" if space and name in taken else name
            taken.add(shown)
            yield shown, space, one


def custom_names(fields: Fields) -> frozenset[str]:
    """Return the names of the custom tools in a request."""
    # Anthropic calls its functions custom.
    tools = listed_tools(fields)
    return frozenset(name for name, _, one in tools if one.text("type") == "custom" and "input_schema" not in one)


def custom_input(arguments: str, *, is_cut: bool) -> str:
    """Return the input in the arguments of a call of a custom tool, and arguments that cannot be read as they are.

    Of a cut call, return as much of the input as there is.
    """
    escapes = range(_LONGEST_ESCAPE if is_cut else 1)
    for text in (
        arguments[: len(arguments) - n] + end for n in escapes for end in (("", '"}', "}") if is_cut else ("",))
    ):
        with suppress(ValueError, KeyError, TypeError):
            value = json.loads(text, strict=False)[CUSTOM_INPUT]
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "" if is_cut else arguments


def with_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], fields: Fields) -> ChatInput:
    """Return the conversation with the tools that `tool_choice` allows, in OpenAI's or Anthropic's format.

    Raises:
        RequestError: The choice is wrong, or there are no messages.
    """
    shown, prefill = arranged(messages)
    choice, names = fields.raw("tool_choice"), [""]
    # Anthropic's word, which its clients send in an object.
    must_call_word = "any" if isinstance(choice, dict) and choice.get("type") == "any" else "required"
    one_call = "parallel_tool_calls" in fields and not fields.flag("parallel_tool_calls")
    if isinstance(choice, dict):
        chosen = Fields.of(choice, "tool_choice")
        one_call = one_call or chosen.flag("disable_parallel_tool_use")
        kind = chosen.text("type", "function")
        # Other types of tools run on the servers of their providers.
        choice = _TOOL_CHOICES.get(kind, "auto")
        names = [_named(chosen)] if choice == "required" else [""]
        # A tool that is named is called once.
        one_call = one_call or bool(names[0])
        if kind == "allowed_tools":
            allowed = chosen.object(kind) or chosen
            choice = allowed.text("mode", "auto")
            names = [name for one in allowed.objects("tools") if (name := _named(one))]
    if choice not in (None, "auto", "none", "required"):
        refuse("tool_choice", choice, f"auto, none, {must_call_word} or a function")
    known = {one["function"]["name"]: one for one in tools}
    for name in filter(None, names):
        if name not in known:
            raise RequestError(f'tool_choice names "{name}", which is not one of the tools.', param="tool_choice")
    if choice == "none" or "" not in names:
        tools = [] if choice == "none" else [known[name] for name in dict.fromkeys(names)]
    if choice == "required" and not tools:
        raise RequestError(f"tool_choice is {must_call_word}, but there are no tools.", param="tool_choice")
    return ChatInput(shown, prefill, tuple(tools), must_call=choice == "required", one_call=one_call)


def _named(tool: Fields) -> str:
    """Return the name of a tool in a choice, in any API."""
    return (tool.object("function") or tool.object("custom") or tool).text("name")


def read_messages(fields: Fields, name: str = "messages") -> Iterator[Message]:
    """Yield messages of OpenAI's chat API."""
    for message in fields.objects(name):
        role = message.text("role")
        content = (result_text if role in ("tool", "function") else content_text)(message)
        match role:
            case "system" | "developer":
                yield Message(Role.SYSTEM, content)
            case "user":
                yield Message(Role.USER, content)
            case "assistant":
                reasoning = message.text("reasoning_content") or message.text("reasoning")
                yield Message(Role.ASSISTANT, content, reasoning, tuple(_read_calls(message)))
            case "tool" | "function":
                yield Message(
                    Role.USER, content, tool_call_id=message.text("tool_call_id") or message.text("name", "0")
                )
            case _:
                refuse(message.at("role"), message.raw("role"), "system, developer, user, assistant or tool")


def _read_calls(message: Fields) -> Iterator[ToolCall]:
    for call in message.objects("tool_calls"):
        custom = call.object("custom")
        function = custom or call.object("function")
        if function is None:
            refuse(call.at("function"), None, "an object")
        arguments = custom_arguments(custom) if custom is not None else arguments_of(function, "arguments")
        yield ToolCall(function.text("name"), arguments, call.text("id") or new_call_id())


def request_for(
    conversation: ChatInput, settings: ChatSettings, guidance: Guidance, thinking: Thinking = AS_TRAINED
) -> AnswerRequest:
    """Return the engine's request; disable reasoning under a grammar, which applies from the first token."""
    if guidance.has_grammar or conversation.must_call:
        thinking = replace(thinking, enabled=False)
    system = settings.system
    has_system = any(message.role is Role.SYSTEM for message in conversation.messages)
    own = (Message(Role.SYSTEM, system),) if system and not has_system else ()
    return AnswerRequest(
        messages=(*own, *conversation.messages),
        sampling=settings.sampling,
        drafting=settings.drafting,
        max_tokens=settings.max_tokens,
        stops=settings.stops,
        prefill=conversation.prefill,
        thinking=thinking,
        tools=conversation.tools,
        must_call=conversation.must_call,
        one_call=conversation.one_call,
        guidance=guidance,
    )
