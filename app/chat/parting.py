"""What was said while the disk refused: it goes into the file when the program ends, if the disk takes it by then."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.chat.database import Database
from app.chat.inserting import insert_transcript
from app.chat.opening import open_file
from app.chat.tree import Transcript

_ROW = "id, updated, deleted, leaf, title, named, pinned, settings, draft"
_DELETED = 1
"""Where `deleted` stands among the values behind the id."""

_Conversations = Mapping[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a store left its file.

    Attributes:
        file: The file.
        known: The conversations as they are in it, by id.
    """

    file: Path
    known: _Conversations

    def bring_back(self, memory: Database, transcript: Callable[[int], Transcript]) -> None:
        """Write what has changed since, all or nothing.

        A conversation that is in the file as it was left makes way for what became of it, under its number. One that
        another Tandem has gone on with stays, and what became of it here stands beside it.

        Args:
            memory: Where the store went on.
            transcript: Gives a conversation of it.

        Raises:
            StoreError: The disk still refuses.
        """
        now = _conversations(memory.connection)
        changed = {number for number, row in now.items() if row != self.known.get(number)}
        if not changed:
            return
        kept = {number: transcript(number) for number in sorted(changed)}
        database, _ = open_file(self.file)
        with closing(database), database.write() as db:
            there = _conversations(db)
            same = {number for number in changed & self.known.keys() if there.get(number) == self.known[number]}
            for number in same:
                db.execute("DELETE FROM conversations WHERE id = ?", (number,))
            for number, each in kept.items():
                written = insert_transcript(db, each, number if number in same else None)
                # What was deleted meanwhile can be brought back like anything else.
                db.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (now[number][_DELETED], written))


def part(memory: Database, file: Path) -> Parting:
    """Note where a store leaves its file for a copy in memory."""
    return Parting(file, _conversations(memory.connection))


def _conversations(db: sqlite3.Connection) -> _Conversations:
    """Every conversation, with how many pieces wait for the end of their answer."""
    pieces = dict(
        db.execute(
            "SELECT m.conversation, count(*) FROM journal j JOIN messages m ON m.id = j.message GROUP BY m.conversation"
        )
    )
    return {row[0]: (*row[1:], pieces.get(row[0], 0)) for row in db.execute(f"SELECT {_ROW} FROM conversations")}
