"""Conversations as Markdown: the active branch, for people; comments that no viewer shows let it be read back.

A line of a message that looks like such a comment gets a backslash, and loses it on the way in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from app.chat.export import whole_title, written_state
from app.chat.message import Role
from app.chat.tree import Node, State, Transcript

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


def _conversation(transcript: Transcript) -> str:
    summary = transcript.conversation.summary
    head = _marker("conversation", title=summary.title, created=summary.created, updated=summary.updated)
    title = re.sub(r"([\\`*_<\[#])", r"\\\1", whole_title(transcript)) or "Conversation"
    return "\n".join([head, f"# {title}", "", *map(_message, transcript.conversation.tree.path)])


def _message(node: Node) -> str:
    state = written_state(node)
    lines = [_marker("message", role=node.role.value, state=state.value, created=node.created)]
    lines += [f"## {_HEADINGS[node.role]}" + ("" if state is State.COMPLETE else f" ({state.value})"), ""]
    if node.reasoning:
        lines += ["<details>", "<summary>Thinking</summary>", _marker("reasoning"), "", _body(node.reasoning), ""]
        lines += [_marker("text"), "</details>", ""]
    return "\n".join([*lines, _body(node.text), ""])


def _body(text: str) -> str:
    return _LOOKS_LIKE_ONE.sub(r"<!-- \\\1", text)


def _marker(kind: str, **fields: Any) -> str:
    # A title may hold "-->"; as an escape it cannot end the comment.
    given = json.dumps(fields, ensure_ascii=False).replace(">", "\\u003e") if fields else ""
    return f"<!-- tandem:{kind} {given}".rstrip() + " -->"


def from_markdown(text: str, most: int) -> list[Any]:
    """What a Markdown file says, in the shape of our JSON and as unchecked as that.

    Args:
        text: Of the file.
        most: Messages that it may hold.

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
        raise ValueError(f"there are more than {most:,} messages in it")


def _ours(lines: Iterable[str], most: int) -> list[Any]:
    found: list[dict[str, Any]] = []
    part: list[str] | None = None
    n_messages = 0
    parts: list[tuple[dict[str, Any], str, list[str]]] = []
    for line in lines:
        marker = _MARKER.match(line)
        if marker is None:
            if part is not None:
                part.append(line)
            continue
        kind, fields = marker[1], json.loads(marker[2] or "{}")
        part = []
        if kind == "conversation":
            found.append({**fields, "messages": []})
            continue
        if kind == "message":
            if not found:
                raise ValueError("a message stands before its conversation")
            messages = found[-1]["messages"]
            n_messages += 1
            _check_number(n_messages, most)
            messages.append({**fields, "id": len(messages), "parent": len(messages) - 1 if messages else None})
        if not found or not found[-1]["messages"]:
            raise ValueError("a text stands before its message")
        parts.append((found[-1]["messages"][-1], "reasoning" if kind == "reasoning" else "text", part))
    for message, key, body in parts:
        # The first line of a text is the heading, or the end of the thinking; what is read last is the text.
        kept = body if key == "reasoning" else body[1:]
        message[key] = _ESCAPED.sub(r"<!-- \1", "\n".join(kept).strip("\n"))
    return found


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
