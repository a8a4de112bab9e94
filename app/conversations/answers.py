"""Answers on their way into the store: begun, kept piece by piece, and folded into their message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.conversations.database import Database
from app.conversations.deleting import bring_back
from app.conversations.inserting import insert_node
from app.conversations.journal import Journal, Piece
from app.conversations.message import Role
from app.conversations.recovery import Writers
from app.conversations.rows import NODE, change, dump, gone, storable, to_node
from app.conversations.tree import Document, Node, State, model_in
from app.core.errors import StoreError

_PIECE_WAIT_S = 0.05
"""How long a piece waits for another Tandem; the screen stands still meanwhile, and it is tried again."""


class Answers:
    """The writing half of a store; it is every journal's keeper (see `app.conversations.journal.Keeper`).

    Args:
        database: The store's.
        writers: This store among others.
        now: Seconds since 1970.
    """

    def __init__(self, database: Database, writers: Writers, now: Callable[[], float]) -> None:
        self._database = database
        self._writers = writers
        self._now = now
        self._journals: dict[int, Journal] = {}

    def begin(self, conversation: int, parent: int, clock: Callable[[], float], models: Document) -> Journal:
        """Begin an answer under a message, with the names of its models as its first numbers."""
        writer = self._writers.sign()
        with self._database.write() as db:
            before = db.execute("SELECT leaf FROM conversations WHERE id = ?", (conversation,)).fetchone()
            now, model = self._now(), model_in(models)
            node = Node(0, parent, Role.ASSISTANT, "", state=State.WRITING, created=now, model=model)
            node = insert_node(db, conversation, node, writer, models)
        return self._opened(Journal(self, node, before[0], clock))

    def resume(self, message: int, clock: Callable[[], float]) -> Journal:
        """More of an answer that ended early."""
        writer = self._writers.sign()
        with self._database.write() as db:
            row = db.execute(f"SELECT conversation, {NODE} FROM messages WHERE id = ?", (message,)).fetchone()
            if row is None:
                raise gone()
            conversation, *of_node = row
            node = to_node(of_node)
            if node.state is State.WRITING:
                raise StoreError("This answer is being written, here or by another Tandem.", "Wait for its end.")
            db.execute("UPDATE messages SET state = 'writing', writer = ? WHERE id = ?", (writer, message))
            bring_back(db, conversation)
        return self._opened(Journal(self, node, message, clock))

    def close(self) -> bool:
        """Write what waits; returns whether nothing waits any longer."""
        for journal in self._journals.values():
            journal.flush()
        return not any(journal.waits for journal in self._journals.values())

    def keep(self, message: int, first: int, pieces: Sequence[Piece]) -> bool:
        rows = [(message, seq, piece.reasoning, storable(piece.text)) for seq, piece in enumerate(pieces, first)]
        try:
            with self._database.write_soon(_PIECE_WAIT_S) as db:
                db.executemany("INSERT INTO journal(message, seq, reasoning, text) VALUES (?, ?, ?, ?)", rows)
        except sqlite3.OperationalError:
            return False
        return True

    def fold(self, node: Node, stats: Document | None) -> None:
        node = replace(node, text=storable(node.text), reasoning=storable(node.reasoning))
        numbers = None if stats is None else dump(stats)
        with self._database.write(durable=True) as db:
            change(
                db,
                "UPDATE messages SET text = ?, reasoning = ?, state = ?, writer = '', stats = coalesce(?, stats) "
                "WHERE id = ?",
                *(node.text, node.reasoning, node.state.value, numbers, node.id),
            )
            db.execute("DELETE FROM journal WHERE message = ?", (node.id,))
            db.execute(
                "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation FROM messages WHERE id = ?)",
                (self._now(), node.id),
            )
        self._journals.pop(node.id, None)

    def drop(self, node: Node, leaf: int | None) -> None:
        with self._database.write() as db:
            db.execute("UPDATE conversations SET leaf = ? WHERE leaf = ?", (leaf, node.id))
            db.execute("DELETE FROM messages WHERE id = ?", (node.id,))
        self._journals.pop(node.id, None)

    def _opened(self, journal: Journal) -> Journal:
        self._journals[journal.node.id] = journal
        return journal
