"""A running answer on disk: Tandem writes the message every second, and completely when it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from app.conversations.database import ConversationGoneError, Database
from app.conversations.message import Ending, without_ending
from app.conversations.rows import NODE, change, dump, to_node
from app.conversations.tree import Document, Node, State
from app.core.errors import AppError, StoreError
from app.core.printable import storable

ON_DISK_S = 1.0
"""Longest time that new text waits to be written."""
_NOT_BEGUN = Ending(failure=AppError("Tandem ended before the answer began.", "Send the prompt again."))


class Journal:
    """Saves an answer while it is written. The caller adds text and calls `save_due`; there is no thread.

    A disk error never stops an answer: the text stays in memory, `error` says why, and `save_due` tries again, or
    `retry` after the end.

    Args:
        node: The message before this answer; a continued message has an ended state.
        leaf: The previously active leaf, to restore if nothing of a new answer is stored.

    Attributes:
        start: The message before this answer.
        error: Why the newest text is not on disk, if it is not.
    """

    def __init__(
        self,
        database: Database,
        node: Node,
        leaf: int | None,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.start = node
        self.error: StoreError | None = None
        self.ended = False
        self._database = database
        self.leaf = leaf
        self._clock = clock
        self._now = now
        self._text: list[str] = [node.text]
        self._reasoning: list[str] = [node.reasoning]
        self._pending_since: float | None = None
        """Time of the oldest text that is not on disk, if any."""
        self._final: Node | None = None
        """The whole answer, until it is stored."""

    @property
    def continues(self) -> bool:
        """Return whether it continues an interrupted answer."""
        return self.start.state is not State.WRITING

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was added."""
        return len(self._text) + len(self._reasoning) == 2

    @property
    def node(self) -> Node:
        """The message with all text so far."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        return replace(self.start, state=State.WRITING, text=text, reasoning=reasoning)

    def add(self, text: str, *, reasoning: bool = False) -> None:
        if not text:
            return
        if self._pending_since is None:
            self._pending_since = self._clock()
        (self._reasoning if reasoning else self._text).append(text)

    def save_due(self, next_s: float) -> None:
        """Write text that cannot wait `next_s` seconds for the next call."""
        if self._pending_since is not None and self._clock() - self._pending_since + next_s >= ON_DISK_S:
            self.flush()

    def flush(self) -> None:
        """Write all pending text; `error` says why it is refused."""
        try:
            self.save()
        except StoreError as error:
            self.error = error
            # Try again after the same wait, not with the next token.
            self._pending_since = self._clock()
        if isinstance(self.error, ConversationGoneError):
            self._end()

    def retry(self) -> bool:
        """Try again to store an ended answer; return whether it is stored."""
        if self._final is None:
            return False
        self.flush()
        return self.error is None

    def save(self) -> None:
        """Write all pending text. Raises StoreError."""
        if self._final is not None:
            self._store(self._final)
        elif self._pending_since is not None:
            with self._database.write() as db:
                _write(db, self.node)
            self._pending_since = None
        self.error = None

    def finish(
        self, state: State, *, text: str | None = None, reasoning: str | None = None, stats: Document | None = None
    ) -> Node:
        """End the answer and store it as a message; return it.

        By default, the text is what was added, and the numbers stay.
        """
        given: dict[str, Any] = {"text": text, "reasoning": reasoning, "stats": stats}
        node = replace(self.node, state=state, **{name: value for name, value in given.items() if value is not None})
        self._final = node
        self.flush()
        return node

    def discard(self) -> None:
        """Remove an empty new answer, or leave a continued answer unchanged. Raises StoreError."""
        if self.continues:
            self._final = self.start
            self.flush()
            return
        with self._database.write() as db:
            db.execute("UPDATE conversations SET leaf = ? WHERE leaf = ?", (self.leaf, self.start.id))
            db.execute("DELETE FROM messages WHERE id = ?", (self.start.id,))
        self._end()

    def _store(self, node: Node) -> None:
        with self._database.write(durable=True) as db:
            _write(db, node)
            db.execute(
                "UPDATE conversations SET updated = ? WHERE id = (SELECT conversation FROM messages WHERE id = ?)",
                (self._now(), node.id),
            )
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._pending_since = self._final = None


def recover(db: sqlite3.Connection, unfinished: Sequence[int]) -> None:
    """Mark unfinished answers as interrupted, in the caller's transaction; no process may be writing them."""
    for message in unfinished:
        row = db.execute(f"SELECT {NODE} FROM messages WHERE id = ? AND state = 'writing'", (message,)).fetchone()
        if row is None:
            continue
        node = to_node(row)
        if node.text.strip() or node.reasoning.strip():
            # A continued answer must not keep its earlier ending.
            _write(db, replace(node, state=State.CUT, stats=without_ending(node.stats)))
        else:
            _remove_empty(db, node)


def _write(db: sqlite3.Connection, node: Node) -> None:
    change(
        db,
        "UPDATE messages SET text = ?, reasoning = ?, state = ?, stats = ? WHERE id = ?",
        *(storable(node.text), storable(node.reasoning), node.state.value, dump(node.stats), node.id),
    )


def _remove_empty(db: sqlite3.Connection, node: Node) -> None:
    db.execute("DELETE FROM messages WHERE id = ?", (node.id,))
    leaf = node.parent
    while (newer := db.execute("SELECT max(id) FROM messages WHERE parent = ?", (leaf,)).fetchone()[0]) is not None:
        leaf = newer
    db.execute("UPDATE conversations SET leaf = ? WHERE leaf = ?", (leaf, node.id))
    if leaf == node.parent:
        db.execute("UPDATE messages SET stats = ? WHERE id = ? AND role = 'user'", (dump(_NOT_BEGUN.numbers), leaf))
