"""Conversations as Markdown, for people: the active branch, and the prompts beside it that nothing came of, for those
are in no other branch that anybody would look for. Comments that no viewer shows let it be read back.

A line of a message that looks like such a comment gets a backslash, and loses it on the way in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from app.conversations.export import whole_title, written_state
from app.conversations.message import Role
from app.conversations.tree import Node, State, Transcript, Tree
from app.core.printable import escape_unprintable, printable

_HEADINGS = {Role.SYSTEM: "System", Role.USER: "You", Role.ASSISTANT: "Answer"}
_MARKER = re.compile(r"<!-- tandem:(conversation|message|reasoning|text) ?(.*?) ?-->$")
_LOOKS_LIKE_ONE = re.compile(r"^<!-- (\\*tandem:)", re.MULTILINE)
_ESCAPED = re.compile(r"^<!-- \\(\\*tandem:)", re.MULTILINE)
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


def to_markdown(transcripts: Iterable[Transcript]) -> str:
    """The text of a Markdown file; one conversation follows another."""
    return "\n".join(_conversation(each) for each in transcripts)


def n_beside(transcript: Transcript) -> int:
    """How many messages of a conversation are not in its Markdown: those of other branches that came to something."""
    tree = transcript.conversation.tree
    return len(tree.nodes) - sum(1 for _ in _told(tree))


def _conversation(transcript: Transcript) -> str:
    summary = transcript.conversation.summary
    head = _marker("conversation", title=summary.title, created=summary.created, updated=summary.updated)
    title = re.sub(r"([\\`*_<\[#])", r"\\\1", printable(whole_title(transcript))) or "Conversation"
    tree = transcript.conversation.tree
    messages = (_message(node, came_to_nothing=_came_to_nothing(node, tree)) for node in _told(tree))
    return "\n".join([head, f"# {title}", "", *messages])


def _told(tree: Tree) -> Iterator[Node]:
    for node in tree.path:
        yield from (beside for beside in tree.siblings(node.id) if beside != node and _came_to_nothing(beside, tree))
        yield node


def _came_to_nothing(node: Node, tree: Tree) -> bool:
    return node.role is Role.USER and not tree.has_replies(node.id)


def _message(node: Node, *, came_to_nothing: bool) -> str:
    state = written_state(node)
    fields = {"answered": False} if came_to_nothing else {}
    lines = [_marker("message", role=node.role.value, state=state.value, created=node.created, **fields)]
    how = "not answered" if came_to_nothing else "" if state is State.COMPLETE else state.value
    lines += [f"## {_HEADINGS[node.role]}" + (f" ({how})" if how else ""), ""]
    if node.reasoning:
        lines += ["<details>", "<summary>Thinking</summary>", _marker("reasoning"), "", _body(node.reasoning), ""]
        lines += [_marker("text"), "</details>", ""]
    return "\n".join([*lines, _body(node.text), ""])


def _body(text: str) -> str:
    return _LOOKS_LIKE_ONE.sub(r"<!-- \\\1", printable(text))


def _marker(kind: str, **fields: Any) -> str:
    # A title may hold "-->"; as an escape it cannot end the comment.
    given = escape_unprintable(json.dumps(fields, ensure_ascii=False)).replace(">", "\\u003e") if fields else ""
    return f"<!-- tandem:{kind} {given}".rstrip() + " -->"


def from_markdown(text: str, most: int) -> list[Any]:
    """What a Markdown file says, in the shape of our JSON and as unchecked as that.

    Args:
        text: Of the file.
        most: Messages for which there is memory.

    Raises:
        ValueError: It holds more, nobody speaks in it, or a comment of ours is broken.
    """
    # Only at line feeds: the rarer line ends are part of what somebody said.
    lines = text.replace("\r\n", "\n").split("\n")
    if any(_MARKER.match(line) for line in lines):
        return _ours(lines, most)
    return [_foreign(lines, most)]


def _check_number(n: int, most: int) -> None:
    if n > most:
        raise ValueError(f"there are more messages in it than the {most:,} for which memory is free")


def _ours(lines: Iterable[str], most: int) -> list[Any]:
    found: list[dict[str, Any]] = []
    part: list[str] | None = None
    n_messages, parent = 0, None
    parts: list[tuple[dict[str, Any], str, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        marker = _MARKER.match(line)
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
                raise ValueError("a message stands before its conversation")
            messages = found[-1]["messages"]
            n_messages += 1
            _check_number(n_messages, most)
            messages.append({**fields, "id": len(messages), "parent": parent})
            # What follows a prompt that nothing came of stands beside it.
            parent = parent if fields.get("answered") is False else messages[-1]["id"]
        if not found or not found[-1]["messages"]:
            raise ValueError("a text stands before its message")
        parts.append((found[-1]["messages"][-1], "reasoning" if kind == "reasoning" else "text", part))
    for message, key, body in parts:
        # The first line of a text is the heading, or the end of the thinking; what is read last is the text.
        kept = body if key == "reasoning" else body[1:]
        message[key] = _ESCAPED.sub(r"<!-- \1", "\n".join(kept).strip("\n"))
    return found


def _fields(given: str, line: int) -> dict[str, Any]:
    """What a comment of ours says. Raises ValueError where somebody has damaged it."""
    with suppress(ValueError):
        fields = json.loads(given or "{}")
        if isinstance(fields, dict):
            return fields
    raise ValueError(f"the comment in line {line:,}, by which Tandem knows what follows, is damaged")


def _foreign(lines: Iterable[str], most: int) -> dict[str, Any]:
    """A file of another program: headings that name a speaker begin a message."""
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
            _check_number(len(messages), most)
        elif bodies:
            bodies[-1].append(line)
        elif not title and (first := _TITLE.match(line)):
            title = first[1]
    if all(message["role"] != "user" for message in messages):
        raise ValueError('nobody speaks in it; headings such as "## You" and "## Answer" would tell who does')
    for message, body in zip(messages, bodies, strict=True):
        message["text"] = "\n".join(body).strip("\n")
    return {"title": title, "messages": messages}
