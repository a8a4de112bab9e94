"""Conversations as files: JSON with everything, Markdown for people. `importing` reads both.

Markdown has everything except other branches. Invisible comments let Tandem read it back; a line of a message that
looks like one of these comments gets a backslash.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from app.conversations.attached import with_marks
from app.conversations.message import Role
from app.conversations.tree import Node, State, StoredConversation
from app.core.printable import escape_unprintable, printable
from app.engine.text.tool_calls import shown_call

FORMAT = "tandem-conversations"
VERSION = 1
NO_TITLE = "Conversation"
"""Heading of a conversation without a title."""
MARKER = re.compile(r"<!-- tandem:(conversation|system|message|reasoning|text|calls|pictures) ?(.*?) ?-->$")
"""A comment of Tandem in Markdown: the kind of text that follows, and its fields as JSON."""
_LOOKS_LIKE_MARKER = re.compile(r"^<!-- (\\*tandem:)", re.MULTILINE)
_ESCAPED_MARKER = re.compile(r"^<!-- \\(\\*tandem:)", re.MULTILINE)
_ESCAPED_IN_TITLE = r"[\\`*_<\[#]"
_ROLE_HEADINGS = {Role.SYSTEM: "System", Role.USER: "You", Role.ASSISTANT: "Answer", Role.TOOL: "Result"}


def to_json(conversations: Iterable[StoredConversation]) -> str:
    """Return the text of a JSON file."""
    whole = {"format": FORMAT, "version": VERSION, "conversations": [_conversation(each) for each in conversations]}
    return escape_unprintable(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)) + "\n"


def _conversation(conversation: StoredConversation) -> dict[str, Any]:
    pictures = [b64encode(each.data).decode() for each in conversation.pictures.values()]
    return {
        **_about(conversation),
        "leaf": conversation.tree.leaf,
        "messages": [
            {
                "id": node.id,
                "parent": node.parent,
                "role": node.role.value,
                "text": node.text,
                "reasoning": node.reasoning,
                "state": node.ended_state.value,
                "created": node.created,
                "stats": dict(node.stats),
            }
            for node in conversation.tree.nodes.values()
        ],
        **({"pictures": pictures} if pictures else {}),
    }


def _about(conversation: StoredConversation) -> dict[str, Any]:
    summary = conversation.summary
    return {
        "title": summary.title,
        "named": summary.named,
        "pinned": summary.pinned,
        "tags": list(summary.tags),
        "created": summary.created,
        "updated": summary.updated,
        "settings": dict(conversation.settings),
        "draft": conversation.unsent_text,
    }


def to_markdown(conversations: Iterable[StoredConversation]) -> str:
    """Return the text of a Markdown file with these conversations."""
    return "\n".join(map(_markdown, conversations))


def n_left_out(conversation: StoredConversation) -> int:
    """Count the messages of other branches, which a Markdown file leaves out."""
    return len(conversation.tree.nodes) - len(conversation.tree.path)


def unescape_markers(text: str) -> str:
    """Remove the backslashes that `to_markdown` added."""
    return _ESCAPED_MARKER.sub(r"<!-- \1", text)


def unescape_title(heading: str) -> str:
    """Return the title of a heading written by `to_markdown`."""
    return re.sub(rf"\\({_ESCAPED_IN_TITLE})", r"\1", heading)


def _markdown(conversation: StoredConversation) -> str:
    about, answer = _about(conversation), conversation.settings.get("answer")
    prompt = []
    if isinstance(answer, dict) and isinstance(system := answer.get("system"), str):
        # People read it as text, so the comment does not repeat it.
        about["settings"] |= {"answer": {name: value for name, value in answer.items() if name != "system"}}
        prompt = [_marker("system"), f"## {_ROLE_HEADINGS[Role.SYSTEM]}", "", _body(system), ""]
    title = re.sub(f"({_ESCAPED_IN_TITLE})", r"\\\1", printable(about["title"])) or NO_TITLE
    messages = (_message(node, conversation) for node in conversation.tree.path)
    return "\n".join([_marker("conversation", **about), f"# {title}", "", *prompt, *messages])


def _message(node: Node, conversation: StoredConversation) -> str:
    state = node.ended_state
    stats = {"stats": dict(node.stats)} if node.stats else {}
    lines = [_marker("message", role=node.role.value, state=state.value, created=node.created, **stats)]
    lines += [f"## {_ROLE_HEADINGS[node.role]}" + ("" if state is State.COMPLETE else f" ({state.value})"), ""]
    if node.reasoning:
        lines += ["<details>", "<summary>Reasoning</summary>", _marker("reasoning"), "", _body(node.reasoning), ""]
        lines += [_marker("text"), "</details>", ""]
    calls = [_marker("calls"), *(f"    {printable(shown_call(call))}" for call in node.calls), ""] if node.calls else []
    known = conversation.pictures
    pictures = [known[each.digest] for each in with_marks(node.text)[1] if each.digest in known]
    shown = (f"\n![{each.width} × {each.height}]({each.data_url})" for each in pictures)
    images = [_marker("pictures"), *shown, ""] if pictures else []
    return "\n".join([*lines, _body(node.text), "", *images, *calls])


def _body(text: str) -> str:
    return _LOOKS_LIKE_MARKER.sub(r"<!-- \\\1", printable(text))


def _marker(kind: str, **fields: Any) -> str:
    # A title may contain "-->"; escaped, it cannot end the comment.
    given = escape_unprintable(json.dumps(fields, ensure_ascii=False)).replace(">", "\\u003e") if fields else ""
    return f"<!-- tandem:{kind} {given}".rstrip() + " -->"
