"""Read conversations from a JSON or Markdown file of Tandem or another program; check everything in it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from app.conversations.export import FORMAT, MARKER, VERSION, unescape_markers
from app.conversations.message import Role
from app.conversations.rows import LAST_SECOND, dump, storable
from app.conversations.textfile import file_errors, marked_encoding
from app.conversations.titles import make_title, one_line
from app.conversations.tree import Conversation, Document, Node, State, Summary, Transcript, Tree
from app.core import regular_file
from app.core.errors import AppError
from app.core.printable import printable

_MAX_BYTES = 1 << 30
_MAX_DOCUMENT = 4 << 20
"""Characters of the settings of a conversation or the numbers of an answer."""
_MARKDOWN = (".md", ".markdown", ".txt")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TITLE = re.compile(r"#\s+(\S.*)$")
_SPEAKER = re.compile(r"#{1,6}\s++\W*+(\w++)\W*$")
_SPEAKERS = {
    **dict.fromkeys(("you", "user", "human", "me", "prompt"), "user"),
    **dict.fromkeys(
        ("answer", "assistant", "ai", "bot", "model", "tandem", "chatgpt", "claude", "gemini"), "assistant"
    ),
    "system": "system",
}
_NO_CONVERSATION = (
    'it is no conversation: neither JSON, nor a Markdown file (.md) with headings such as "## You" and "## Answer"'
)
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in State}


def read_file(file: Path, now: float | None = None) -> tuple[Transcript, ...]:
    """Read a Markdown or JSON file, told apart by its name. Raises AppError.

    Args:
        file: Path of the file.
        now: Seconds since 1970, for messages without a time.
    """
    try:
        with file_errors(str(file)):
            data = regular_file.read_bytes(file, _MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            _refuse(f"it is larger than {_MAX_BYTES >> 30} GB")
        text = data.decode(marked_encoding(data) or "utf-8")
        raw = _from_markdown(text) if file.suffix.lower() in _MARKDOWN else _from_json(text)
        if not raw:
            _refuse("there is no conversation in it")
        return tuple(_transcript(_object(each, "a conversation"), time.time() if now is None else now) for each in raw)
    except UnicodeDecodeError as error:
        reason = f"it is not {error.encoding.upper()} text"
    except json.JSONDecodeError as error:
        reason = f"it is not JSON, from line {error.lineno} on" if file.suffix.lower() == ".json" else _NO_CONVERSATION
    except (MemoryError, RecursionError):
        reason = "it is too large or nested too deeply"
    except ValueError as error:
        reason = printable(str(error))
    raise AppError(f"{file} was not imported: {reason}.", "Tandem reads its own exports, as Markdown and as JSON.")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)


# JSON


def _from_json(text: str) -> list[Any]:
    """Return the conversations of Tandem's format, or the one of a plain list of messages, unchecked."""
    raw = json.loads(text, parse_constant=lambda name: _refuse(f"{name} is not a number"))
    if isinstance(raw, dict) and "format" in raw:
        if raw["format"] != FORMAT:
            _refuse("it is of another format")
        if type(raw.get("version")) is not int or raw["version"] > VERSION:
            _refuse("a newer Tandem wrote it")
        return _list(raw.get("conversations"), "conversations")
    messages = _list(raw.get("messages") if isinstance(raw, dict) else raw, "messages")
    chain = []
    for index, message in enumerate(messages):
        fields = _object(message, "a message")
        content = fields.get("text", fields.get("content"))
        chain.append({"role": fields.get("role"), "text": content, "id": index, "parent": index - 1 if index else None})
    return [{"messages": chain}]


# Markdown, in the shape of Tandem's JSON


def _from_markdown(text: str) -> list[Any]:
    # Only at line feeds: the rarer line ends are part of a message.
    lines = text.replace("\r\n", "\n").split("\n")
    return _from_marked(lines) if any(map(MARKER.match, lines)) else [_from_headings(lines)]


def _from_marked(lines: Iterable[str]) -> list[Any]:
    """Read Markdown with Tandem's comments."""
    found: list[dict[str, Any]] = []
    part: list[str] | None = None
    parent = None
    parts: list[tuple[dict[str, Any], str, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        marker = MARKER.match(line)
        if marker is None:
            if part is not None:
                part.append(line)
            continue
        kind, fields = marker[1], _fields(marker[2], number)
        part = []
        if kind == "conversation":
            found.append({**fields, "messages": []})
            parent = None
            continue
        if kind == "message":
            if not found:
                _refuse("a message stands before its conversation")
            messages = found[-1]["messages"]
            messages.append({**fields, "id": len(messages), "parent": parent})
            # Older exports have unanswered prompts, which are branches beside the next message.
            parent = parent if fields.get("answered") is False else messages[-1]["id"]
        if not found or not found[-1]["messages"]:
            _refuse("a text stands before its message")
        parts.append((found[-1]["messages"][-1], "reasoning" if kind == "reasoning" else "text", part))
    for message, key, body in parts:
        # The first line of a text is the heading, or the end of the reasoning.
        message[key] = unescape_markers("\n".join(body if key == "reasoning" else body[1:]).strip("\n"))
    return found


def _fields(given: str, line: int) -> dict[str, Any]:
    with suppress(ValueError):
        fields = json.loads(given or "{}")
        if isinstance(fields, dict):
            return fields
    _refuse(f"the comment in line {line:,}, which describes the text below it, is damaged")


def _from_headings(lines: Iterable[str]) -> dict[str, Any]:
    """Read Markdown of another program: headings that name a speaker begin a message."""
    title, fence = "", ""
    messages: list[dict[str, Any]] = []
    bodies: list[list[str]] = []
    for line in lines:
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else _SPEAKER.match(line)
        role = _SPEAKERS.get(heading[1].lower()) if heading else None
        if role is not None:
            messages.append({"role": role, "id": len(messages), "parent": len(messages) - 1 if messages else None})
            bodies.append([])
        elif bodies:
            bodies[-1].append(line)
        elif not title and (first := _TITLE.match(line)):
            title = first[1]
    if all(message["role"] != "user" for message in messages):
        _refuse('no heading such as "## You" says who speaks')
    for message, body in zip(messages, bodies, strict=True):
        message["text"] = "\n".join(body).strip("\n")
    return {"title": title, "messages": messages}


# Checks


def _transcript(raw: Mapping[str, Any], now: float) -> Transcript:
    nodes: dict[int, Node] = {}
    stats: dict[int, Document] = {}
    numbers: dict[Any, int] = {}
    for number, each in enumerate(_list(raw.get("messages"), "messages"), 1):
        message = _object(each, "a message")
        key, parent = _id(message.get("id")), message.get("parent")
        if key in numbers:
            _refuse("two messages have the same id")
        if parent is not None and _id(parent) not in numbers:
            _refuse("a message replies to one that is missing or comes later")
        numbers[key] = number
        nodes[number] = _node(message, number, None if parent is None else numbers[parent], now)
        if numbers_of_answer := _document(message.get("stats"), "stats"):
            stats[number] = numbers_of_answer
    leaf = raw.get("leaf")
    if leaf is not None and _id(leaf) not in numbers:
        _refuse("its active message is missing")
    tree = Tree(nodes, numbers[leaf] if leaf is not None else next(reversed(nodes), None))
    title, created = one_line(_text(raw.get("title", ""), "a title")), _time(raw.get("created"), now)
    is_named, is_pinned = bool(title) and raw.get("named", True) is True, raw.get("pinned") is True
    updated = _time(raw.get("updated"), created)
    summary = Summary(0, title or make_title(tree.opening), is_named, is_pinned, created, updated)
    settings = _document(raw.get("settings"), "settings")
    return Transcript(Conversation(summary, tree, settings, _text(raw.get("draft", ""), "a draft")), stats)


def _node(raw: Mapping[str, Any], number: int, parent: int | None, now: float) -> Node:
    role, state = raw.get("role"), raw.get("state", "complete")
    if not isinstance(role, str) or role not in _ROLES:
        _refuse("a message is from neither system, user nor assistant")
    if not isinstance(state, str) or state not in _STATES:
        _refuse("a message has an unknown state")
    text, reasoning = _text(raw.get("text"), "a text"), _text(raw.get("reasoning", ""), "a reasoning")
    ended = State.CUT if state == "writing" else _STATES[state]
    return Node(number, parent, _ROLES[role], text, reasoning, ended, _time(raw.get("created"), now))


def _text(raw: Any, what: str) -> str:
    if not isinstance(raw, str):
        _refuse(f"{what} of it is not text")
    return printable(storable(raw))


def _time(raw: Any, now: float) -> float:
    if raw is None:
        return now
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= LAST_SECOND:
        _refuse("a time is not a number of seconds, or out of range")
    return float(raw)


def _document(raw: Any, what: str) -> Document:
    document = _object(raw, what) if raw is not None else {}
    if len(dump(document)) > _MAX_DOCUMENT:
        _refuse(f"its {what} are longer than {_MAX_DOCUMENT:,} characters")
    return document


def _id(raw: Any) -> int | str:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        _refuse("an id is neither a number nor text")
    return raw


def _object(raw: Any, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        _refuse(f"{what} is not an object")
    return raw


def _list(raw: Any, what: str) -> list[Any]:
    if not isinstance(raw, list):
        _refuse(f"its {what} are not a list")
    return raw
