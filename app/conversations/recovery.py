"""Who writes which answer, and what becomes of the answers of a Tandem that no longer runs."""

from __future__ import annotations

import glob
import sqlite3
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from app.conversations.database import Database, sentences
from app.conversations.ending import numbers_of_failure, without_ending
from app.conversations.process_lock import ProcessLock, is_held
from app.conversations.rows import NODE, dump, to_document, to_node, to_text
from app.conversations.tree import Node, State
from app.core.errors import AppError

_ENDED = numbers_of_failure(AppError("Tandem ended before the answer began.", "Ask it again."))

_OLD_S = 24 * 3600.0
"""A sign that is so old is surely held by whoever has made it, if that still runs."""


class Writers:
    """This store among all that use the same file.

    Args:
        file: The store's file; None for one in memory.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._token = uuid.uuid4().hex
        self._life: ProcessLock | None = None

    def sign(self) -> str:
        """What marks an answer as being written by this store; others can tell from now on that it lives."""
        if self._file is not None and not (self._life is not None and self._life.holds):
            # A full disk may have refused it the last time.
            self.close()
            self._life = ProcessLock(_sign(self._file, self._token))
        return self._token

    def stand_beside(self, file: Path) -> None:
        """For a copy in memory: where the others give signs of life, and this one does that is to come back."""
        self._file = file

    def close(self) -> None:
        if self._life is not None:
            self._life.close()
            self._life = None

    def keep_unsent(self, db: sqlite3.Connection, text: str, now: float) -> None:
        """Keep what is typed where nothing was said yet, until it is sent. The caller holds the transaction."""
        if text:
            row = (self.sign(), text, now)
            db.execute("INSERT OR REPLACE INTO unsent(writer, text, updated) VALUES (?, ?, ?)", row)
        else:
            db.execute("DELETE FROM unsent WHERE writer = ?", (self._token,))

    def take_unsent(self, db: sqlite3.Connection, now: float) -> str:
        """The last text that a Tandem which no longer runs left so, from now on this one's; empty if there is none.

        The caller holds the transaction.
        """
        for writer, text in db.execute("SELECT writer, text FROM unsent ORDER BY updated DESC").fetchall():
            if not self.is_alive(writer):
                db.execute("DELETE FROM unsent WHERE writer = ?", (writer,))
                self._clear_away(writer)
                self.keep_unsent(db, to_text(text), now)
                return to_text(text)
        return ""

    def recover(self, database: Database) -> int:
        """Mark as cut what a Tandem that no longer runs was writing; returns how many answers. Raises StoreError."""
        dead = self._dead(database)
        if not dead:
            return 0
        with database.write() as db:
            return self._bury(db, dead)

    def shown(self, database: Database, node: Node) -> Node:
        """An answer on its way as far as it got; cut, if its writer is dead and the disk refuses to mark it."""
        [(writer,)] = database.rows("SELECT writer FROM messages WHERE id = ?", (node.id,))
        with sentences(database.file):
            node = pieces_of(database.connection, node)
        return node if self.is_alive(writer) else replace(node, state=State.CUT)

    def _dead(self, database: Database) -> tuple[str, ...]:
        """The writers of unfinished answers that no longer run."""
        writers = [name for (name,) in database.rows("SELECT DISTINCT writer FROM messages WHERE state = 'writing'")]
        return tuple(name for name in writers if not self.is_alive(name))

    def _bury(self, db: sqlite3.Connection, dead: Iterable[str]) -> int:
        """Fold their pieces and mark their answers as cut; returns how many. The caller holds the transaction."""
        count = 0
        for writer in dead:
            rows = db.execute(f"SELECT stats, {NODE} FROM messages WHERE state = 'writing' AND writer = ?", (writer,))
            for stats, *row in rows.fetchall():
                node = replace(pieces_of(db, to_node(row)), state=State.CUT)
                count += 1
                if not (node.text.strip() or node.reasoning.strip()):
                    _take_out(db, node)
                    continue
                # How the part that it was continued from ended is no longer how it ends.
                numbers = _without_ending(stats)
                db.execute(
                    "UPDATE messages SET text = ?, reasoning = ?, state = ?, stats = ?, writer = '' WHERE id = ?",
                    (node.text, node.reasoning, node.state.value, numbers, node.id),
                )
                db.execute("DELETE FROM journal WHERE message = ?", (node.id,))
            self._clear_away(writer)
        return count

    def clear_away(self) -> None:
        """Remove the signs of those who ended without a word while they wrote nothing."""
        if self._file is None:
            return
        for sign in self._file.parent.glob(_sign_name(glob.escape(self._file.name), "*")):
            with suppress(OSError):
                if time.time() - sign.stat().st_mtime > _OLD_S and not is_held(sign):
                    sign.unlink()

    def _clear_away(self, writer: str) -> None:
        if self._file is not None:
            with suppress(OSError):
                _sign(self._file, writer).unlink()

    def is_alive(self, writer: str) -> bool:
        """Whether a writer still runs, as this store does."""
        return writer == self._token or (self._file is not None and is_held(_sign(self._file, writer)))


def pieces_of(db: sqlite3.Connection, node: Node) -> Node:
    """A message with what the journal holds of it."""
    text, reasoning = [node.text], [node.reasoning]
    for piece, thinking in db.execute("SELECT text, reasoning FROM journal WHERE message = ? ORDER BY seq", (node.id,)):
        (reasoning if thinking else text).append(piece)
    return replace(node, text="".join(text), reasoning="".join(reasoning))


def _take_out(db: sqlite3.Connection, node: Node) -> None:
    """Nothing came of an answer: an earlier one is the last again, or else its prompt is told why it has none."""
    db.execute("DELETE FROM messages WHERE id = ?", (node.id,))
    leaf = node.parent
    while (newer := db.execute("SELECT max(id) FROM messages WHERE parent = ?", (leaf,)).fetchone()[0]) is not None:
        leaf = newer
    db.execute("UPDATE conversations SET leaf = ? WHERE leaf = ?", (leaf, node.id))
    if leaf == node.parent:
        db.execute("UPDATE messages SET stats = ? WHERE id = ? AND role = 'user'", (dump(_ENDED), leaf))


def _without_ending(stats: str) -> str:
    try:
        return dump(without_ending(to_document(stats)))
    except ValueError:
        # A damage has put something there that JSON does not have.
        return dump(None)


def _sign(file: Path, writer: str) -> Path:
    return file.with_name(_sign_name(file.name, writer))


def _sign_name(file: str, writer: str) -> str:
    return f"{file}-writer-{writer}"
