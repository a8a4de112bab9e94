"""What is said while the disk refuses: it goes into the file as soon as the disk takes it, at the latest when the
program ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from random import randrange
from typing import Any

from app import regular_file
from app.chat.database import Database, sentences, suspicion
from app.chat.inserting import insert_aside, insert_transcript
from app.chat.opening import SOON_S, open_file, reopen_file
from app.chat.same import make_same
from app.chat.tree import Transcript

UNTIL_WRITTEN = "They are kept in memory, and written as soon as the disk takes them."
"""What to say of conversations meanwhile."""
AT_THE_END = "Conversations are kept in memory, and written when Tandem ends."
"""The same where the disk may take them sooner, but only the end can tell under which numbers or in which file."""
_ROW = "id, updated, deleted, leaf, title, named, pinned, settings, draft"
_APART = {"conversations": 1000, "messages": 1 << 32}
"""How far numbers are set apart, at most. Those of conversations are read and typed."""
_DELETED = 1
"""Where `deleted` stands among the values behind the id."""

_Conversations = Mapping[int, tuple[Any, ...]]
_Rows = Set[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a store left its file.

    Attributes:
        file: The file.
        known: The conversations as they are in it, by id.
        unsent: What is typed in it where nothing was said yet.
        set_aside: What is in it of what was typed and gave way to something else.
        start: The conversations as they were in memory at first.
    """

    file: Path
    known: _Conversations
    unsent: _Rows
    set_aside: _Rows
    start: _Conversations

    def begun(self, memory: Database) -> Parting:
        """With what is in memory by now as the start: the next one that opens the file does as much by itself."""
        return replace(self, start=_conversations(memory.connection))

    @property
    def is_damaged(self) -> bool:
        """Whether the file has to make way for another one, which only its next opening does."""
        return regular_file.exists(suspicion(self.file))

    def go_back(self, memory: Database) -> Database | None:
        """Write what has changed since, all or nothing, and every number as it is in memory.

        Args:
            memory: Where the store went on.

        Returns:
            The file, to go on in; None where only the end of the program can tell what becomes of it: another Tandem
            has used the same numbers, or the file is damaged or gone.

        Raises:
            StoreError: The disk still refuses.
        """
        is_used = regular_file.exists(self.file.with_name(self.file.name + "-shm"))
        # Who still has a file that was taken away would write into the log of one that is put in its place.
        if self.is_damaged or (regular_file.is_gone(self.file) and (self.known or is_used)):
            return None
        database = reopen_file(self.file)
        try:
            with sentences(self.file), database.write_soon(SOON_S, durable=True) as db:
                changed = _differing(_conversations(memory.connection), self.known)
                is_free = not self._taken(memory.connection, db, changed)
                if is_free:
                    self._write(memory.connection, db, changed)
                    self._write_typed(memory.connection, db, {})
        except BaseException:
            database.close()
            raise
        if not is_free:
            database.close()
            return None
        return database

    def bring_back(self, memory: Database, transcript: Callable[[int], Transcript]) -> None:
        """Write what has changed since, all or nothing; nothing if only the start differs from the file.

        A conversation that is in the file as it was left becomes what it is here, under its number. One that another
        Tandem has gone on with stays, and what became of it here stands beside it.

        Args:
            memory: Where the store went on.
            transcript: Gives a conversation of it.

        Raises:
            StoreError: The disk still refuses.
        """
        now = _conversations(memory.connection)
        typed = _unsent(memory.connection), _set_aside(memory.connection)
        if not _differing(now, self.start) and typed == (self.unsent, self.set_aside):
            return
        changed = _differing(now, self.known)
        database, _ = open_file(self.file)
        with closing(database), database.write(durable=True) as db:
            taken = self._taken(memory.connection, db, changed)
            self._write(memory.connection, db, changed - taken)
            written = {}
            for number in sorted(taken):
                written[number] = insert_transcript(db, transcript(number))
                # What was deleted meanwhile can be brought back like anything else.
                db.execute(
                    "UPDATE conversations SET deleted = ? WHERE id = ?", (now[number][_DELETED], written[number])
                )
            self._write_typed(memory.connection, db, written)

    def unwritten(self, memory: Database) -> Sequence[int]:
        """The conversations of the list that have changed since, and in which something was said."""
        said = memory.rows(
            "SELECT DISTINCT conversation FROM messages m JOIN conversations c ON c.id = conversation "
            "WHERE c.deleted IS NULL"
        )
        return sorted(_differing(_conversations(memory.connection), self.start) & {number for (number,) in said})

    def _taken(self, memory: sqlite3.Connection, db: sqlite3.Connection, changed: Set[int]) -> Set[int]:
        """Those whose numbers, or those of their messages, mean something else in the file by now."""
        there = _conversations(db)
        holders = dict(db.execute("SELECT id, conversation FROM messages"))
        said = memory.execute("SELECT id, conversation FROM messages").fetchall()
        elsewhere = {number for message, number in said if holders.get(message, number) != number}
        return {number for number in changed if there.get(number) != self.known.get(number) or number in elsewhere}

    def _write(self, memory: sqlite3.Connection, db: sqlite3.Connection, numbers: Set[int]) -> None:
        for number in sorted(numbers):
            make_same(memory, db, number)

    def _write_typed(self, memory: sqlite3.Connection, db: sqlite3.Connection, numbers: Mapping[int, int]) -> None:
        """Write what was typed and not said.

        Args:
            memory: Where the store went on.
            db: The file, with all conversations.
            numbers: Of the conversations that have other ones in it: those, by the ones in memory.
        """
        unsent = _unsent(memory)
        for writer, *_ in self.unsent - unsent:
            db.execute("DELETE FROM unsent WHERE writer = ?", (writer,))
        db.executemany("INSERT OR REPLACE INTO unsent(writer, text, updated) VALUES (?, ?, ?)", unsent - self.unsent)
        for text, updated, conversation in _set_aside(memory) - self.set_aside:
            insert_aside(db, text, updated, numbers.get(conversation, conversation))


def part(memory: Database, file: Path) -> Parting:
    """Note where a store leaves its file for a copy in memory; what is said in that gets numbers of its own."""
    db = memory.connection
    # Another Tandem that goes on in the file, or in memory too, counts on from where this one does.
    for table, most in _APART.items():
        step = (randrange(most), table)
        if not db.execute("UPDATE sqlite_sequence SET seq = seq + ? WHERE name = ?", step).rowcount:
            db.execute("INSERT INTO sqlite_sequence(seq, name) VALUES (?, ?)", step)
    if regular_file.is_gone(file):
        return Parting(file, {}, set(), set(), {})
    known = _conversations(db)
    return Parting(file, known, _unsent(db), _set_aside(db), known)


def _conversations(db: sqlite3.Connection) -> _Conversations:
    """Every conversation, with how many answers are on their way in it, and in how many pieces."""
    writing = {
        number: counts
        for number, *counts in db.execute(
            "SELECT m.conversation, count(DISTINCT m.id), count(j.seq) FROM messages m "
            "LEFT JOIN journal j ON j.message = m.id WHERE m.state = 'writing' GROUP BY m.conversation"
        )
    }
    return {row[0]: (*row[1:], writing.get(row[0])) for row in db.execute(f"SELECT {_ROW} FROM conversations")}


def _differing(now: _Conversations, before: _Conversations) -> Set[int]:
    """The conversations that are new or other than before."""
    return {number for number, row in now.items() if row != before.get(number)}


def _unsent(db: sqlite3.Connection) -> _Rows:
    return set(db.execute("SELECT writer, text, updated FROM unsent"))


def _set_aside(db: sqlite3.Connection) -> _Rows:
    return set(db.execute("SELECT text, updated, conversation FROM set_aside"))
