"""Between rows of the store and values."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.attached import question_of
from app.chat.ending import UNKNOWN, ending_in
from app.chat.message import Role
from app.chat.titles import make_title
from app.chat.tree import TELLING, Document, Node, State, Summary, Transcript
from app.errors import StoreError

SUMMARY = "id, title, named, pinned, created, updated"
"""The columns that `to_summary` takes."""
NODE = (
    "id, parent, role, text, reasoning, state, created, "
    f"CASE WHEN role = 'user' OR state IN {tuple(state.value for state in TELLING)} THEN stats ELSE '{{}}' END"
)
"""The columns that `to_node` takes."""
UNDO_S = 24 * 3600.0
"""How long a deleted conversation can be brought back; after that its messages go a few at a time."""
LAST_SECOND = 32_503_679_999.0
"""The end of the year 2999: a little later Windows tells no local time, and much later Python tells none."""
_NUMBERS = int | float
_NOTHING = "{}"
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in State}


def to_summary(row: Sequence[Any]) -> Summary:
    """A line of the list, as well as it can be read: a disk or a hand may have changed it."""
    number, title, named, pinned, created, updated = row
    return Summary(number, to_text(title), bool(named), bool(pinned), _seconds(created), _seconds(updated))


def to_node(row: Sequence[Any]) -> Node:
    """A message, as well as it can be read: one that is broken must not take the others with it."""
    number, parent, role, text, reasoning, state, created, numbers = row
    return Node(
        number,
        parent,
        _ROLES.get(role, Role.USER),
        to_text(text),
        to_text(reasoning),
        _STATES.get(state, State.CUT),
        _seconds(created),
        UNKNOWN if numbers == _NOTHING else ending_in(to_document(numbers)),
    )


def to_document(text: Any) -> Document:
    """What `dump` wrote; nothing if that can no longer be read."""
    try:
        found = json.loads(to_text(text))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decoded(text: bytes) -> str:
    """What SQLite holds as text, with a mark for what is none."""
    return text.decode("utf-8", "replace")


def to_text(value: Any) -> str:
    """A text, whatever SQLite holds in its place."""
    return decoded(value) if isinstance(value, bytes) else str(value)


def _seconds(value: Any) -> float:
    """A time; the beginning of all if it is none."""
    return float(value) if isinstance(value, _NUMBERS) and 0 <= value <= LAST_SECOND else 0.0


def dump(document: Document | None) -> str:
    """A document as text. Raises ValueError for what JSON does not have, such as NaN."""
    return storable(json.dumps(dict(document or {}), ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def storable(text: str) -> str:
    """The text as UTF-8 can hold it: half a character, as a terminal may paste it, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def gone() -> StoreError:
    """For what was in the store when the caller last looked."""
    return StoreError("This conversation, or this message, is no longer there.", "Another Tandem has removed it.")


def insert_node(db: sqlite3.Connection, conversation: int, node: Node, writer: str = "") -> Node:
    """Write a new message and make it the active leaf; the caller holds the transaction.

    Returns:
        The message with its id.

    Raises:
        StoreError: There is no such conversation, or its parent is not in it.
    """
    if node.parent is not None:
        known = db.execute("SELECT 1 FROM messages WHERE id = ? AND conversation = ?", (node.parent, conversation))
        if known.fetchone() is None:
            raise gone()
    title = make_title(question_of(node.text)) if node.role is Role.USER else ""
    changed = db.execute(
        # What another Tandem has deleted, and somebody goes on with here, is not to vanish with what is said in it.
        "UPDATE conversations SET updated = ?, deleted = NULL, title = CASE title WHEN '' THEN ? ELSE title END "
        "WHERE id = ? AND (deleted IS NULL OR deleted > ?)",
        (node.created, title, conversation, node.created - UNDO_S),
    )
    if not changed.rowcount:
        raise gone()
    row = db.execute(
        "INSERT INTO messages(conversation, parent, role, text, state, created, writer) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (conversation, node.parent, node.role.value, node.text, node.state.value, node.created, writer),
    )
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (row.lastrowid, conversation))
    return replace(node, id=int(row.lastrowid or 0))


def insert_transcript(db: sqlite3.Connection, transcript: Transcript, number: int | None = None) -> int:
    """Write a conversation with new ids; returns its own. The caller holds the transaction.

    Args:
        db: Where to.
        transcript: The conversation.
        number: Its id, which nobody else has; None for a new one.
    """
    number = insert_head(db, transcript, number)
    ids: NewIds = {None: None}
    for node in transcript.conversation.tree.nodes.values():
        insert_said(db, number, transcript, node, ids)
    set_leaf(db, number, transcript, ids)
    return number


NewIds = dict[int | None, int | None]
"""What the messages of a transcript are called in the store; None, before the first, is None."""


def insert_head(
    db: sqlite3.Connection, transcript: Transcript, number: int | None = None, deleted: float | None = None
) -> int:
    """Write a conversation without its messages, as `insert_transcript` does."""
    conversation, summary = transcript.conversation, transcript.conversation.summary
    row = db.execute(
        "INSERT INTO conversations(id, title, named, pinned, created, updated, deleted, settings, draft) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            storable(summary.title),
            summary.named,
            summary.pinned,
            summary.created,
            summary.updated,
            deleted,
            dump(conversation.settings),
            storable(conversation.draft),
        ),
    )
    return int(row.lastrowid or 0)


def insert_said(db: sqlite3.Connection, number: int, transcript: Transcript, node: Node, ids: NewIds) -> None:
    """Write a message of a transcript whose parent has an id already; its own is noted."""
    row = db.execute(
        "INSERT INTO messages(conversation, parent, role, text, reasoning, state, created, stats) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            ids[node.parent],
            node.role.value,
            storable(node.text),
            storable(node.reasoning),
            # Nobody is writing it where it goes.
            (State.CUT if node.state is State.WRITING else node.state).value,
            node.created,
            dump(transcript.stats.get(node.id)),
        ),
    )
    ids[node.id] = row.lastrowid


def set_leaf(db: sqlite3.Connection, number: int, transcript: Transcript, ids: NewIds) -> None:
    """Make the branch active that is so in a transcript, whose messages are all there."""
    leaf = ids[transcript.conversation.tree.leaf]
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (leaf, number))
