"""Rows of the store as values, and values as rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.conversations.database import ConversationGoneError
from app.conversations.ending import UNKNOWN, ending_in
from app.conversations.message import Role
from app.conversations.tree import TELLING, Document, Node, State, Summary, Transcript, model_in

SUMMARY = "id, title, named, pinned, created, updated"
"""The columns that `to_summary` takes."""
NODE = "id, parent, role, text, reasoning, state, created, stats"
"""The columns that `to_node` takes."""
LAST_SECOND = 32_503_679_999.0
"""The end of the year 2999: the last year whose local time every system can tell."""
_EMPTY = "{}"
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in State}


# A damaged disk may have changed a value: it must not make the others unreadable.


def to_summary(row: Sequence[Any]) -> Summary:
    """Return a conversation's line in the list."""
    number, title, named, pinned, created, updated = row
    return Summary(number, to_text(title), bool(named), bool(pinned), to_seconds(created), to_seconds(updated))


def to_state(raw: Any) -> State:
    """Return a message's state; CUT for an unknown one."""
    return _STATES.get(raw, State.CUT)


def to_node(row: Sequence[Any]) -> Node:
    """Return a message."""
    number, parent, raw_role, text, reasoning, raw_state, created, stats = row
    role, state = _ROLES.get(raw_role, Role.USER), to_state(raw_state)
    numbers = {} if stats == _EMPTY else to_document(stats)
    return Node(
        number,
        parent,
        role,
        to_text(text),
        to_text(reasoning),
        state,
        to_seconds(created),
        ending_in(numbers) if numbers and (role is Role.USER or state in TELLING) else UNKNOWN,
        model_in(numbers) if role is Role.ASSISTANT else "",
    )


def to_document(text: Any) -> Document:
    """Return what `dump` wrote; an empty document if it cannot be read."""
    try:
        found = json.loads(to_text(text))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decode(text: bytes) -> str:
    """Decode SQLite's text, with a replacement character for broken bytes."""
    return text.decode("utf-8", "replace")


def to_text(value: Any) -> str:
    """Return a text column as text, whatever SQLite holds in its place."""
    return decode(value) if isinstance(value, bytes) else str(value)


def to_seconds(value: Any) -> float:
    """Return a time; 0 if it is none."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= LAST_SECOND else 0.0


def dump(document: Document | None) -> str:
    """Return a document as JSON. Raises ValueError for what JSON does not have, such as NaN."""
    return storable(json.dumps(dict(document or {}), ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def storable(text: str) -> str:
    """Replace half a surrogate pair, as a terminal may paste it, by a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def change(db: sqlite3.Connection, sql: str, *values: object) -> None:
    """Run an UPDATE. Raises ConversationGoneError where it changes no row."""
    if not db.execute(sql, values).rowcount:
        raise ConversationGoneError


def insert_node(db: sqlite3.Connection, conversation: int, node: Node, stats: Document | None = None) -> int:
    """Insert a message; returns its id."""
    row = db.execute(
        "INSERT INTO messages(conversation, parent, role, text, reasoning, state, created, stats) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            conversation,
            node.parent,
            node.role.value,
            storable(node.text),
            storable(node.reasoning),
            node.state.value,
            node.created,
            dump(stats),
        ),
    )
    return int(row.lastrowid or 0)


def insert_transcript(db: sqlite3.Connection, transcript: Transcript) -> int:
    """Insert a conversation with new ids; returns its own."""
    conversation, summary = transcript.conversation, transcript.conversation.summary
    row = db.execute(
        "INSERT INTO conversations(title, named, pinned, created, updated, settings, draft) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            storable(summary.title),
            summary.named,
            summary.pinned,
            summary.created,
            summary.updated,
            dump(conversation.settings),
            storable(conversation.draft),
        ),
    )
    number = int(row.lastrowid or 0)
    ids: dict[int | None, int | None] = {None: None}
    for node in conversation.tree.nodes.values():
        ids[node.id] = insert_node(
            db, number, replace(node, parent=ids[node.parent], state=node.ended_state), transcript.stats.get(node.id)
        )
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (ids[conversation.tree.leaf], number))
    return number
