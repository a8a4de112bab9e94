"""Conversations as files: JSON with everything, Markdown for people. `importing` reads both.

Markdown holds the active branch, and the prompts beside it without an answer, which are in no other branch. Comments
that no viewer shows let it be read back; a line of a message that looks like one gets a backslash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from app.conversations.attached import question_of
from app.conversations.message import Role
from app.conversations.titles import WHOLE, make_title
from app.conversations.tree import Node, State, Transcript, Tree
from app.core.printable import escape_unprintable, printable

FORMAT = "tandem-conversations"
VERSION = 1
MARKER = re.compile(r"<!-- tandem:(conversation|message|reasoning|text) ?(.*?) ?-->$")
"""A comment of Tandem in Markdown: the kind of what follows, and its fields as JSON."""
_LOOKS_LIKE_MARKER = re.compile(r"^<!-- (\\*tandem:)", re.MULTILINE)
_ESCAPED_MARKER = re.compile(r"^<!-- \\(\\*tandem:)", re.MULTILINE)
_HEADINGS = {Role.SYSTEM: "System", Role.USER: "You", Role.ASSISTANT: "Answer"}


def to_json(transcripts: Iterable[Transcript]) -> str:
    """Return the text of a JSON file."""
    whole = {"format": FORMAT, "version": VERSION, "conversations": [_conversation(each) for each in transcripts]}
    return escape_unprintable(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)) + "\n"


def _conversation(transcript: Transcript) -> dict[str, Any]:
    conversation, summary = transcript.conversation, transcript.conversation.summary
    return {
        "title": _whole_title(transcript),
        "named": summary.named,
        "pinned": summary.pinned,
        "created": summary.created,
        "updated": summary.updated,
        "settings": dict(conversation.settings),
        "draft": conversation.draft,
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
                "stats": dict(transcript.stats.get(node.id, {})),
            }
            for node in conversation.tree.nodes.values()
        ],
    }


def _whole_title(transcript: Transcript) -> str:
    """Return the title; the whole one where it was made from the first prompt and cut to fit into a list."""
    conversation = transcript.conversation
    whole, cut = _made_titles(conversation.tree)
    return whole if conversation.summary.title == cut else conversation.summary.title


def cut_title(title: str, tree: Tree) -> str:
    """Return a title of a file as lists have it: cut, where it was made from the first prompt."""
    whole, cut = _made_titles(tree)
    return cut if title == whole else title


def _made_titles(tree: Tree) -> tuple[str, str]:
    first = question_of(tree.opening)
    return make_title(first, WHOLE), make_title(first)


def to_markdown(transcripts: Iterable[Transcript]) -> str:
    """Return the text of a Markdown file; one conversation follows another."""
    return "\n".join(_markdown(each) for each in transcripts)


def n_left_out(transcript: Transcript) -> int:
    """Return how many messages of other branches a Markdown file does not have."""
    tree = transcript.conversation.tree
    return len(tree.nodes) - sum(1 for _ in _exported(tree))


def unescape_markers(text: str) -> str:
    """Return a text of a Markdown file without the backslashes that `to_markdown` added."""
    return _ESCAPED_MARKER.sub(r"<!-- \1", text)


def _markdown(transcript: Transcript) -> str:
    summary, tree = transcript.conversation.summary, transcript.conversation.tree
    head = _marker("conversation", title=summary.title, created=summary.created, updated=summary.updated)
    title = re.sub(r"([\\`*_<\[#])", r"\\\1", printable(_whole_title(transcript))) or "Conversation"
    return "\n".join([head, f"# {title}", "", *(_message(node, tree) for node in _exported(tree))])


def _exported(tree: Tree) -> Iterator[Node]:
    for node in tree.path:
        yield from (other for other in tree.siblings(node.id) if other != node and _is_unanswered(other, tree))
        yield node


def _is_unanswered(node: Node, tree: Tree) -> bool:
    return node.role is Role.USER and not tree.has_replies(node.id)


def _message(node: Node, tree: Tree) -> str:
    is_unanswered, state = _is_unanswered(node, tree), node.ended_state
    fields = {"answered": False} if is_unanswered else {}
    lines = [_marker("message", role=node.role.value, state=state.value, created=node.created, **fields)]
    note = "not answered" if is_unanswered else "" if state is State.COMPLETE else state.value
    lines += [f"## {_HEADINGS[node.role]}" + (f" ({note})" if note else ""), ""]
    if node.reasoning:
        lines += ["<details>", "<summary>Thinking</summary>", _marker("reasoning"), "", _body(node.reasoning), ""]
        lines += [_marker("text"), "</details>", ""]
    return "\n".join([*lines, _body(node.text), ""])


def _body(text: str) -> str:
    return _LOOKS_LIKE_MARKER.sub(r"<!-- \\\1", printable(text))


def _marker(kind: str, **fields: Any) -> str:
    # A title may hold "-->"; as an escape it cannot end the comment.
    given = escape_unprintable(json.dumps(fields, ensure_ascii=False)).replace(">", "\\u003e") if fields else ""
    return f"<!-- tandem:{kind} {given}".rstrip() + " -->"
