"""Read the JSON of Tandem and of other programs, which differ only in their field names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.conversations.export import FORMAT, VERSION
from app.conversations.importing.checks import list_of, refuse, typed

_ROLE_NAMES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "chatgpt", "ai"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
_LEFT_OUT = ("tool", "function", "function_call", "observation", "root", "ipython")
"""Roles of messages that are neither prompts nor answers."""
_MAX_SECONDS = 1e11
"""Latest time in seconds (the year 5138); larger numbers are milliseconds."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Field names of a program's export: paths with dots, and alternatives with "|".

    Attributes:
        mark: Field that identifies its conversations.
        messages: List of messages, or object with a message for each id.
        leaf: Id of the last message of the active branch.
    """

    program: str
    mark: str
    messages: str
    role: str = "role"
    text: str = "content"
    reasoning: str = "reasoning_content|reasoning|thinking|reasoningContent"
    id: str = "id"
    parent: str = "parent"
    created: str = "timestamp|created_at"
    model: str = "model"
    title: str = "title|name"
    leaf: str = "leaf"


_EXPORT_SHAPES = (
    _Shape(
        "ChatGPT",
        mark="mapping",
        messages="mapping",
        role="message.author.role",
        text="message.content",
        created="message.create_time",
        model="message.metadata.model_slug",
        leaf="current_node",
    ),
    _Shape(
        "Claude",
        mark="chat_messages",
        messages="chat_messages",
        role="sender",
        text="content|text",
        id="uuid",
        parent="parent_message_uuid",
        leaf="current_leaf_message_uuid",
    ),
    _Shape(
        "Open WebUI",
        mark="chat",
        messages="chat.history.messages|chat.messages",
        parent="parentId",
        title="title|chat.title",
        leaf="chat.history.currentId",
    ),
    _Shape("LM Studio", mark="messages.0.versions", messages="messages", created="createdAt"),
    _Shape("llama.cpp's web UI", mark="conv", messages="messages", title="conv.name", leaf="conv.currNode"),
    _Shape("ShareGPT", mark="conversations", messages="conversations", role="from|role", text="value|content"),
    _Shape("OpenAI's API", mark="messages", messages="messages", text="text|content"),
)
PROGRAMS = f"{', '.join(shape.program for shape in _EXPORT_SHAPES)} and llm"


def as_list(text: str) -> str:
    """Return lines of JSON as the text of a list."""
    return f"[{','.join(line for line in text.splitlines() if line.strip())}]"


def read(text: str) -> list[Any]:
    """Return the conversations of a JSON text, in the shape of Tandem's JSON and unchecked."""
    raw = json.loads(text, parse_constant=lambda name: refuse(f"{name} is not a number"))
    if isinstance(raw, dict) and "format" in raw:
        if raw["format"] != FORMAT:
            refuse("it is of another format")
        if type(raw.get("version")) is not int or raw["version"] > VERSION:
            refuse("a newer Tandem wrote it")
        return list_of(raw.get("conversations"), "conversations")
    items = raw if isinstance(raw, list) else [raw]
    if items and all(isinstance(one, dict) and {"prompt", "response"} <= one.keys() for one in items):
        return from_llm(items)
    if items and all(_shape_of(one) is not None for one in items):
        return [found for one in items if (found := _conversation(one))["messages"]]
    if isinstance(raw, dict):
        refuse(f"its fields match no known program ({', '.join(list(raw)[:5]) or 'none'})")
    # A list of messages is one conversation.
    messages = [typed(one, dict, "a message is not an object") for one in list_of(raw, "messages")]
    found = _conversation({"messages": messages})
    return [found] if found["messages"] else []


def chain(messages: Iterable[dict[str, Any]], /, **fields: Any) -> dict[str, Any]:
    """Return a conversation in the shape of Tandem's JSON; each message replies to the previous message."""
    linked = [{**each, "id": n, "parent": n - 1 if n else None} for n, each in enumerate(messages)]
    return {**fields, "messages": linked}


def from_llm(rows: list[dict[str, Any]]) -> list[Any]:
    """Return the conversations in the output of `llm logs --json`, which has a row for each answer."""
    found: dict[Any, list[dict[str, Any]]] = {}
    titles = {row.get("conversation_id"): row.get("conversation_name") for row in rows}
    for row in rows:
        messages = found.setdefault(row.get("conversation_id"), [])
        created = _seconds(row.get("datetime_utc"))
        if row.get("system") and not messages:
            messages.append({"role": "system", "text": row["system"], "created": created})
        messages.append({"role": "user", "text": row["prompt"] or "", "created": created})
        answer = {"role": "assistant", "text": row["response"] or "", "created": created}
        stats = {"target": row["model"]} if row.get("model") else {}
        messages.append({**answer, "reasoning": row.get("reasoning") or "", "stats": stats})
    return [chain(messages, title=titles[key] or "") for key, messages in found.items()]


def _shape_of(raw: Any) -> _Shape | None:
    return next((shape for shape in _EXPORT_SHAPES if _at(raw, shape.mark) is not None), None)


def _at(value: Any, paths: str) -> Any:
    for path in paths.split("|"):
        found = value
        for name in path.split("."):
            if isinstance(found, list) and name.isdecimal():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


def _conversation(raw: dict[str, Any]) -> dict[str, Any]:
    shape = _shape_of(raw)
    assert shape is not None
    listed, leaf = _at(raw, shape.messages), _at(raw, shape.leaf)
    listed = list(listed.values()) if isinstance(listed, dict) else list_of(listed, "messages")
    entries = [typed(one, dict, "a message is not an object") for one in listed]
    if any("versions" in entry for entry in entries):
        entries, leaf = _versions(entries)
    elif all(_at(entry, shape.parent) is None for entry in entries):
        entries = [{**entry, shape.id: n, shape.parent: n - 1} for n, entry in enumerate(entries)]
    messages = {_at(entry, shape.id): _message(entry, shape) for entry in entries}
    if len(messages) < len(entries):
        refuse("two messages have the same id")
    parents = {_at(entry, shape.id): _at(entry, shape.parent) for entry in entries}
    if system := _at(raw, "systemPrompt"):
        messages = {"system": {"role": "system", "text": system}, **messages}
        parents |= {key: "system" for key, parent in parents.items() if parent not in parents}
    title = _at(raw, shape.title)
    return {"title": title if isinstance(title, str) else "", **_tree(messages, parents, leaf)}


def _versions(entries: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int | None]:
    """Return the messages of LM Studio and the active message; the conversation continues from the chosen version."""
    out: list[dict[str, Any]] = []
    parent: int | None = None
    for entry in entries:
        versions = list_of(entry.get("versions"), "versions")
        first = len(out)
        for version in versions:
            found = typed(version, dict, "a version is not an object")
            content = found.get("content") or found.get("steps")
            model = _at(found, "senderInfo.senderName")
            out.append({**found, "content": content, "id": len(out), "parent": parent, "model": model})
        chosen = entry.get("currentlySelected")
        if versions:
            parent = first + (chosen if isinstance(chosen, int) and 0 <= chosen < len(versions) else len(versions) - 1)
    return out, parent


def _message(entry: dict[str, Any], shape: _Shape) -> dict[str, Any] | None:
    """Return a message in the shape of Tandem's JSON, or None to leave it out."""
    role = _at(entry, shape.role)
    content = next((found for path in shape.text.split("|") if (found := _at(entry, path))), _at(entry, shape.text))
    text, thoughts = _texts(content)
    reasoning = thoughts or _at(entry, shape.reasoning)
    is_broken = content is None and role is not None and "tool_calls" not in entry
    if role in _LEFT_OUT or not (text or reasoning or is_broken):
        return None
    model = _at(entry, shape.model)
    return {
        "role": _ROLE_NAMES.get(role.lower(), role) if isinstance(role, str) else role,
        "text": None if content is None else text,
        "reasoning": reasoning if isinstance(reasoning, str) else "",
        "created": _seconds(_at(entry, shape.created)),
        "stats": {"target": model} if isinstance(model, str) else {},
    }


def _texts(content: Any) -> tuple[str, str]:
    """Return the text and reasoning of content: a string, a part, or a list of parts."""
    if isinstance(content, str):
        return content, ""
    if isinstance(content, list):
        pairs = [_texts(part) for part in content]
        return "\n\n".join(text for text, _ in pairs if text), "\n\n".join(one for _, one in pairs if one)
    if not isinstance(content, dict):
        return "", ""
    kind = str(content.get("type") or content.get("content_type") or "text")
    if "image" in kind:
        return "[image]", ""
    if kind not in ("text", "multimodal_text", "contentBlock", "thinking", "reasoning"):
        return "", ""
    text, thoughts = _texts(_at(content, "text|parts|content|thinking"))
    is_thought = kind in ("thinking", "reasoning") or _at(content, "style.type") == "thinking"
    return ("", text) if is_thought else (text, thoughts)


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if value > _MAX_SECONDS else value
    with suppress(ValueError, TypeError):
        return datetime.fromisoformat(value).timestamp()
    return None


def _tree(messages: Mapping[Any, dict[str, Any] | None], parents: Mapping[Any, Any], leaf: Any) -> dict[str, Any]:
    """Return messages with parents before replies; replies to a skipped message move to its parent."""

    def kept(key: Any) -> Any:
        passed = set()
        while key in messages and messages[key] is None and key not in passed:
            passed.add(key)
            key = parents.get(key)
        return key if messages.get(key) is not None else None

    children: dict[Any, list[Any]] = {}
    for key, message in messages.items():
        if message is not None:
            children.setdefault(kept(parents.get(key)), []).append(key)
    found, pending = [], children.get(None, [])[::-1]
    while pending:
        key = pending.pop()
        above = kept(parents.get(key))
        found.append({**(messages[key] or {}), "id": key, "parent": above})
        pending += children.get(key, [])[::-1]
    return {"leaf": kept(leaf) if leaf in messages else None, "messages": found}
