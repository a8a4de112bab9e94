"""Other orders of turns, for chat templates that refuse the usual order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.conversations.message import Message, Role
from app.engine.text.call_format import CallFormat
from app.engine.text.call_formats import HERMES

_ID_LENGTH = 9
"""Mistral's templates refuse call ids of any other length."""
_FIRST_MARK = 6_183_047_295


def rearranged(messages: Sequence[Message], *, has_system: bool) -> Iterator[list[Message]]:
    """Yield a conversation in the forms that a template may need, first those that change the least.

    `has_system` says whether the template shows system messages.
    """
    first = list(messages) if has_system else without_system(messages)
    yield first
    yield without_system(first)
    short = _with_short_ids(first)
    yield short
    yield _with_one_call_a_turn(short)
    yield _alternating(short)
    yield _alternating(without_system(short))


def without_system(messages: Sequence[Message]) -> list[Message]:
    """Move system text to the beginning of the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role is Role.SYSTEM)
    rest = [m for m in messages if m.role is not Role.SYSTEM]
    first = next((i for i, m in enumerate(rest) if m.role is Role.USER), None)
    if system and first is not None:
        rest[first] = Message(Role.USER, f"{system}\n\n{rest[first].content}")
    elif system:
        rest.insert(0, Message(Role.USER, system))
    return rest


def with_marks(messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """Return a conversation of the same shape with short texts, and the texts that its prompt must have.

    Those are in calls and results, and in a system message beside them or alone. Capitals or JSON do not change their
    digits.
    """
    marks: list[str] = []
    has_calls = any(message.tool_calls or message.tool_call_id for message in messages)
    needs_system = has_calls or all(message.role is Role.SYSTEM for message in messages)

    def mark() -> str:
        marks.append(str(_FIRST_MARK + len(marks)))
        return marks[-1]

    out = []
    for message in messages:
        calls = tuple(replace(call, arguments=f'{{"a": "{mark()}"}}') for call in message.tool_calls)
        is_needed = message.tool_call_id or (needs_system and message.role is Role.SYSTEM)
        text = mark() if is_needed else message.content and "a"
        out.append(replace(message, content=text, reasoning=message.reasoning and "a", tool_calls=calls))
    return out, marks


def with_tools_as_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return a conversation with tools, calls and results as text, for a template that shows no tools."""
    system = [m.content for m in messages if m.role is Role.SYSTEM] + ([_instructions(tools)] if tools else [])
    out = [Message(Role.SYSTEM, "\n\n".join(system))] if system else []
    for message in with_calls_as_text(messages, HERMES):
        if message.tool_call_id:
            out.append(Message(Role.USER, f"<tool_response>\n{message.content}\n</tool_response>"))
        elif message.role is not Role.SYSTEM:
            out.append(message)
    return out


def _instructions(tools: Sequence[Mapping[str, Any]]) -> str:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    example = HERMES.call.replace("$JSON", '"..."').replace("$ARGUMENTS", "{...}")
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query. Their signatures are within "
        f"<tools></tools>:\n<tools>\n{listed}\n</tools>\n\nFor each function call, return a JSON object with its name "
        f"and arguments within <tool_call></tool_call>:\n{example}"
    )


def with_calls_as_text(messages: Sequence[Message], form: CallFormat) -> list[Message]:
    """Return a conversation whose calls belong to the text of answers, for a template that shows no calls."""
    return [
        replace(one, content=f"{one.content}\n{form.written(one.tool_calls)}".lstrip(), tool_calls=())
        if one.tool_calls
        else one
        for one in _with_short_ids(messages)
    ]


def _with_short_ids(messages: Sequence[Message]) -> list[Message]:
    used = dict.fromkeys(id_ for one in messages for id_ in (*(call.id for call in one.tool_calls), one.tool_call_id))
    ids = {old: f"{n:0{_ID_LENGTH}d}" for n, old in enumerate(used)}
    return [
        replace(
            one,
            tool_calls=tuple(replace(call, id=ids[call.id]) for call in one.tool_calls),
            tool_call_id=one.tool_call_id and ids[one.tool_call_id],
        )
        for one in messages
    ]


def _with_one_call_a_turn(messages: Sequence[Message]) -> list[Message]:
    """Put each call, and the text before it, into a turn of its own; a result follows its call."""
    out: list[Message] = []
    moved: set[int] = set()
    for at, message in enumerate(messages):
        if at in moved:
            continue
        if not message.tool_calls or message.content.strip():
            out.append(replace(message, tool_calls=(), reasoning="" if message.tool_calls else message.reasoning))
        for n, call in enumerate(message.tool_calls):
            out.append(Message(Role.ASSISTANT, "", "" if n else message.reasoning, (call,)))
            results = (later for later in range(at + 1, len(messages)) if messages[later].tool_call_id == call.id)
            if (found := next(results, None)) is not None:
                moved.add(found)
                out.append(messages[found])
    return out


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Merge consecutive user messages, drop empty answers, and begin with the user."""
    out: list[Message] = []
    for message in messages:
        before = out[-1].role if out else Role.SYSTEM
        if message.role is Role.ASSISTANT and not (message.content.strip() or message.tool_calls):
            continue
        if message.role is Role.ASSISTANT and before is Role.SYSTEM:
            out.append(Message(Role.USER, ""))
        elif message.role is Role.USER and before is Role.USER:
            asked = out.pop()
            message = replace(asked, content=f"{asked.content}\n\n{message.content}")
        out.append(message)
    return out
