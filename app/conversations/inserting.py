"""What is said goes into the store: a message under another one, a whole conversation."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

from app.conversations.attached import question_of
from app.conversations.deleting import bring_back
from app.conversations.message import Role
from app.conversations.rows import dump, gone, storable
from app.conversations.titles import make_title
from app.conversations.tree import Document, Node, State, Transcript


def insert_node(
    db: sqlite3.Connection, conversation: int, node: Node, writer: str = "", stats: Document | None = None
) -> Node:
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
    # What another Tandem has deleted, and somebody goes on with here, is not to vanish with what is said in it.
    also = "updated = ?, title = CASE title WHEN '' THEN ? ELSE title END"
    bring_back(db, conversation, also, node.created, title)
    row = db.execute(
        "INSERT INTO messages(conversation, parent, role, text, reasoning, state, created, writer, stats) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            conversation,
            node.parent,
            node.role.value,
            node.text,
            node.reasoning,
            node.state.value,
            node.created,
            writer,
            dump(stats),
        ),
    )
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (row.lastrowid, conversation))
    return replace(node, id=int(row.lastrowid or 0))


def insert_aside(db: sqlite3.Connection, text: str, updated: float, conversation: int | None) -> None:
    """Write what was set aside, in the place of the same text; the caller holds the transaction.

    Where its conversation is gone by now it is of none: it was typed later than that was deleted.
    """
    db.execute(
        "INSERT OR REPLACE INTO set_aside(text, updated, conversation) "
        "VALUES (?, ?, (SELECT id FROM conversations WHERE id = ?))",
        (text, updated, conversation),
    )


def insert_transcript(db: sqlite3.Connection, transcript: Transcript, number: int | None = None) -> int:
    """Write a conversation with new ids; returns its own. The caller holds the transaction.

    Args:
        db: Where to.
        transcript: The conversation.
        number: Its id, which nobody else has; None for a new one.
    """
    number = insert_head(db, transcript, number)
    for _ in insert_messages(db, number, transcript):
        pass
    return number


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


def insert_messages(db: sqlite3.Connection, number: int, transcript: Transcript) -> Iterator[Node]:
    """Write the messages of a conversation whose head is there, and then which of its branches is active.

    Yields:
        Each message when it is written; whoever holds the transaction may end it there and begin another one.
    """
    ids: dict[int | None, int | None] = {None: None}
    for node in transcript.conversation.tree.nodes.values():
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
        yield node
    leaf = ids[transcript.conversation.tree.leaf]
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (leaf, number))
