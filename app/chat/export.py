"""Conversations as JSON, with every branch, setting and number; `app.chat.importing` reads it back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from app.chat.tree import Node, State, Transcript

FORMAT = "tandem-conversations"
VERSION = 1


def to_json(transcripts: Iterable[Transcript]) -> str:
    """The text of a JSON file."""
    whole = {"format": FORMAT, "version": VERSION, "conversations": [_conversation(each) for each in transcripts]}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _conversation(transcript: Transcript) -> dict[str, Any]:
    conversation, summary = transcript.conversation, transcript.conversation.summary
    return {
        "title": summary.title,
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


def written_state(node: Node) -> State:
    """The state of a message in a file, where nobody is writing it."""
    return State.CUT if node.state is State.WRITING else node.state
