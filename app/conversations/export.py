"""Conversations as JSON, with every branch, setting and number; `app.conversations.importing` reads it back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from app.conversations.attached import question_of
from app.conversations.titles import WHOLE, make_title
from app.conversations.tree import Node, State, Transcript, Tree
from app.core.printable import escape_unprintable

FORMAT = "tandem-conversations"
VERSION = 1


def to_json(transcripts: Iterable[Transcript]) -> str:
    """The text of a JSON file."""
    whole = {"format": FORMAT, "version": VERSION, "conversations": [_conversation(each) for each in transcripts]}
    return escape_unprintable(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1)) + "\n"


def _conversation(transcript: Transcript) -> dict[str, Any]:
    conversation, summary = transcript.conversation, transcript.conversation.summary
    return {
        "title": whole_title(transcript),
        "named": summary.named,
        "pinned": summary.pinned,
        "created": summary.created,
        "updated": summary.updated,
        "settings": dict(conversation.settings),
        "draft": conversation.draft,
        "leaf": conversation.tree.leaf,
        "messages": [_message(node, transcript) for node in conversation.tree.nodes.values()],
    }


def _message(node: Node, transcript: Transcript) -> dict[str, Any]:
    return {
        "id": node.id,
        "parent": node.parent,
        "role": node.role.value,
        "text": node.text,
        "reasoning": node.reasoning,
        "state": written_state(node).value,
        "created": node.created,
        "stats": dict(transcript.stats.get(node.id, {})),
    }


def whole_title(transcript: Transcript) -> str:
    """The title; whole, where it was made of the first prompt and cut to fit into a list."""
    conversation = transcript.conversation
    whole, cut = _made(conversation.tree)
    return whole if conversation.summary.title == cut else conversation.summary.title


def cut_again(title: str, tree: Tree) -> str:
    """A title as lists have it, from one of a file; see `whole_title`."""
    whole, cut = _made(tree)
    return cut if title == whole else title


def _made(tree: Tree) -> tuple[str, str]:
    """The title that the first prompt gives, whole and cut."""
    first = question_of(tree.opening)
    return make_title(first, WHOLE), make_title(first)


def written_state(node: Node) -> State:
    """The state of a message in a file, where nobody is writing it."""
    return State.CUT if node.state is State.WRITING else node.state
