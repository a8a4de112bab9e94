"""Read conversations from a JSON or Markdown file of Tandem or another program; check everything in it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Any, NoReturn

from app.conversations.export import FORMAT, MARKER, VERSION, unescape_markers
from app.conversations.rows import ROLES, STATES, dump, storable
from app.conversations.titles import make_title, one_line
from app.conversations.tree import Conversation, Document, Node, Summary, Tree
from app.core.errors import AppError
from app.core.printable import printable
from app.core.regular_file import file_errors, marked_encoding, read_bytes

_LAST_SECOND = 32_503_679_999.0
"""The end of the year 2999: the last year whose local time every system can tell."""
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


def read_file(file: Path, now: float | None = None) -> tuple[Conversation, ...]:
    """Read a Markdown or JSON file, told apart by its name. Raises AppError.

    `now` is the time of messages without one, in seconds since 1970.
    """
    try:
        with file_errors(str(file)):
            data = read_bytes(file)
        text = data.decode(marked_encoding(data) or "utf-8")
        raw = _from_markdown(text) if file.suffix.lower() in _MARKDOWN else _from_json(text)
        if not raw:
            _refuse("there is no conversation in it")
        conversations = [_typed(each, dict, "a conversation is not an object") for each in raw]
        return tuple(_conversation(each, time.time() if now is None else now) for each in conversations)
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
    fields = [_typed(message, dict, "a message is not an object") for message in messages]
    return [_chain({"role": each.get("role"), "text": each.get("text", each.get("content"))} for each in fields)]


def _chain(messages: Iterable[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return a conversation in the shape of Tandem's JSON, in which each message replies to the one before."""
    linked = [{**each, "id": n, "parent": n - 1 if n else None} for n, each in enumerate(messages)]
    return {**fields, "messages": linked}


# Markdown, in the shape of Tandem's JSON


def _from_markdown(text: str) -> list[Any]:
    # Only at line feeds: the rarer line ends are part of a message.
    lines = text.replace("\r\n", "\n").split("\n")
    return _from_marked(lines) if any(map(MARKER.match, lines)) else [_from_headings(lines)]


def _from_marked(lines: Iterable[str]) -> list[Any]:
    """Read Markdown with Tandem's comments."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    texts: list[tuple[dict[str, Any], str, list[str]]] = []
    lines_of_part: list[str] = []
    for number, line in enumerate(lines, start=1):
        marker = MARKER.match(line)
        if marker is None:
            lines_of_part.append(line)
            continue
        kind, fields, lines_of_part = marker[1], _fields(marker[2], number), []
        if kind == "conversation":
            found.append((fields, []))
            continue
        if not found or (kind != "message" and not found[-1][1]):
            _refuse("a text stands before its message")
        messages = found[-1][1]
        if kind == "message":
            messages.append(fields)
        texts.append((messages[-1], "reasoning" if kind == "reasoning" else "text", lines_of_part))
    for message, key, body in texts:
        # The first line of a text is the heading, or the end of the reasoning.
        message[key] = unescape_markers("\n".join(body if key == "reasoning" else body[1:]).strip("\n"))
    return [_chain(messages, **fields) for fields, messages in found]


def _fields(given: str, line: int) -> dict[str, Any]:
    with suppress(ValueError):
        fields = json.loads(given or "{}")
        if isinstance(fields, dict):
            return fields
    _refuse(f"the comment in line {line:,}, which describes the text below it, is damaged")


def _from_headings(lines: Iterable[str]) -> dict[str, Any]:
    """Read Markdown of another program: headings that name a speaker begin a message."""
    title, fence = "", ""
    messages: list[tuple[str, list[str]]] = []
    for line in lines:
        mark = _FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else _SPEAKER.match(line)
        if heading is not None and (role := _SPEAKERS.get(heading[1].lower())):
            messages.append((role, []))
        elif messages:
            messages[-1][1].append(line)
        elif not title and (first := _TITLE.match(line)):
            title = first[1]
    if all(role != "user" for role, _ in messages):
        _refuse('no heading such as "## You" says who speaks')
    return _chain(({"role": role, "text": "\n".join(body).strip("\n")} for role, body in messages), title=title)


# Checks


def _conversation(raw: dict[str, Any], now: float) -> Conversation:
    nodes: dict[int, Node] = {}
    numbers: dict[Any, int] = {}
    for number, each in enumerate(_list(raw.get("messages"), "messages"), 1):
        message = _typed(each, dict, "a message is not an object")
        key, parent = _id(message.get("id")), message.get("parent")
        if key in numbers:
            _refuse("two messages have the same id")
        if parent is not None and _id(parent) not in numbers:
            _refuse("a message replies to one that is missing or comes later")
        numbers[key] = number
        nodes[number] = _node(message, number, None if parent is None else numbers[parent], now)
    leaf = raw.get("leaf")
    if leaf is not None and _id(leaf) not in numbers:
        _refuse("its active message is missing")
    tree = Tree(nodes, numbers[leaf] if leaf is not None else next(reversed(nodes), None))
    title, created = one_line(_text(raw.get("title", ""), "a title")), _time(raw.get("created"), now)
    is_named, is_pinned = bool(title) and raw.get("named", True) is True, raw.get("pinned") is True
    updated = _time(raw.get("updated"), created)
    summary = Summary(0, title or make_title(tree.first_prompt), is_named, is_pinned, created, updated)
    settings = _document(raw.get("settings"), "settings")
    return Conversation(summary, tree, settings, _text(raw.get("draft", ""), "a draft"))


def _node(raw: dict[str, Any], number: int, parent: int | None, now: float) -> Node:
    role, state = raw.get("role"), raw.get("state", "complete")
    if not isinstance(role, str) or role not in ROLES:
        _refuse("a message is from neither system, user nor assistant")
    if not isinstance(state, str) or state not in STATES:
        _refuse("a message has an unknown state")
    text, reasoning = _text(raw.get("text"), "a text"), _text(raw.get("reasoning", ""), "a reasoning")
    created, stats = _time(raw.get("created"), now), _document(raw.get("stats"), "stats")
    node = Node(number, parent, ROLES[role], text, reasoning, STATES[state], created, stats)
    return replace(node, state=node.ended_state)


def _text(raw: Any, what: str) -> str:
    return printable(storable(_typed(raw, str, f"{what} of it is not text")))


def _time(raw: Any, now: float) -> float:
    if raw is None:
        return now
    refusal = "a time is not a number of seconds, or out of range"
    if not 0 <= _typed(raw, int | float, refusal) <= _LAST_SECOND:
        _refuse(refusal)
    return float(raw)


def _document(raw: Any, what: str) -> Document:
    document: Document = _typed({} if raw is None else raw, dict, f"{what} is not an object")
    # It refuses numbers that JSON does not have.
    dump(document)
    return document


def _id(raw: Any) -> Any:
    return _typed(raw, int | str, "an id is neither a number nor text")


def _list(raw: Any, what: str) -> list[Any]:
    found: list[Any] = _typed(raw, list, f"its {what} are not a list")
    return found


def _typed(raw: Any, kind: type | UnionType, refusal: str) -> Any:
    """Return a value of this type; refuse another one."""
    if isinstance(raw, bool) or not isinstance(raw, kind):
        _refuse(refusal)
    return raw
