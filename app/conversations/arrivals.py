"""Conversations on their way into the store: a few messages at a time, for nobody else can write meanwhile, and in
nobody's list before all of them are there."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from shutil import disk_usage
from time import sleep

from app.conversations.database import Database
from app.conversations.deleting import GOING
from app.conversations.inserting import insert_head, insert_messages
from app.conversations.recovery import Writers
from app.conversations.tree import Node, Transcript
from app.core.errors import StoreError
from app.core.file_lock import exclusive
from app.core.units import gigabytes

_AT_ONCE = 1 << 16
"""Characters; the index takes some ten milliseconds for them."""
_BYTES = 6
"""On disk for a character, with its place in the index; 2.5 to 4.5 were seen, of ASCII."""
_LOG_BYTES = 8 << 20
"""What waits beside the file to go into it; 6 MB were seen."""
_ROW = 256
"""What a row takes besides its text, in characters."""


class Arrivals:
    """The way in of one store.

    Args:
        database: The store's.
        writers: This store among others.
    """

    def __init__(self, database: Database, writers: Writers) -> None:
        self._database = database
        self._writers = writers

    def turn(self, waits: Callable[[], object]) -> AbstractContextManager[None]:
        """One import after another: each is to find what the others have brought."""
        file = self._database.file
        return exclusive(file, StoreError, timeout_s=-1, waits=waits) if file is not None else nullcontext()

    def bring(self, transcripts: Sequence[Transcript], told: Callable[[float], None]) -> tuple[int, ...]:
        """Put conversations in, all or none.

        Args:
            transcripts: What goes in.
            told: Hears how much of it is there, as a share of 1.

        Returns:
            Their ids.

        Raises:
            StoreError: The disk refuses, or another Tandem holds it too long; nothing went in.
        """
        self._check_room(sum(map(_size, transcripts)))
        writer = self._writers.sign()
        try:
            numbers = self._write(transcripts, writer, told)
            with self._database.write(durable=True) as db:
                _let_in(db, writer, len(numbers))
                _forget(db, writer)
        except BaseException:
            # Where even that is refused, others find that this one has ended.
            with suppress(StoreError), self._database.write() as db:
                _forget(db, writer)
            raise
        return numbers

    def _check_room(self, n_characters: int) -> None:
        """Refuse what does not surely fit: half of it would stay on the full disk, where nothing can be removed."""
        file = self._database.file
        if file is None or n_characters <= _AT_ONCE:
            return
        needed = _LOG_BYTES + _BYTES * n_characters
        with suppress(OSError):
            if disk_usage(file.parent).free < needed:
                raise StoreError(
                    f"The disk of {file} is too full for so much: that may take {gigabytes(needed)}.",
                    "Free some space; nothing was changed.",
                )

    def give_up_lost(self) -> None:
        """Let go of what those were bringing who have ended: from here on it counts as deleted long ago."""
        lost = [name for (name,) in self._database.rows("SELECT DISTINCT writer FROM arriving")]
        lost = [name for name in lost if not self._writers.is_alive(name)]
        if lost:
            with self._database.write() as db:
                for writer in lost:
                    _forget(db, writer)

    def _write(self, transcripts: Sequence[Transcript], writer: str, told: Callable[[float], None]) -> tuple[int, ...]:
        done, all_of_it = 0, sum(map(_size, transcripts)) or 1
        numbers: list[int] = []
        pieces = _pieces(self._database.connection, transcripts, writer, numbers)
        left = True
        while left:
            began = time.monotonic()
            with self._database.write():
                written = 0
                while left and written < _AT_ONCE:
                    piece = next(pieces, None)
                    left = piece is not None
                    written += piece or 0
            done += written
            told(done / all_of_it)
            if self._database.file is not None:
                # SQLite lets nobody in by turn; whoever waits looks again now and then.
                sleep(time.monotonic() - began)
        return tuple(numbers)


def _pieces(
    db: sqlite3.Connection, transcripts: Sequence[Transcript], writer: str, numbers: list[int]
) -> Iterator[int]:
    """Write piece by piece, and tell how large each was; the caller holds a transaction whenever it asks for one.

    Args:
        db: Where to.
        transcripts: What is written.
        writer: By whom.
        numbers: Gets the ids.
    """
    for transcript in transcripts:
        number = insert_head(db, transcript, deleted=GOING)
        db.execute("INSERT INTO arriving(conversation, writer) VALUES (?, ?)", (number, writer))
        numbers.append(number)
        yield _ROW
        yield from map(_length, insert_messages(db, number, transcript))


def _let_in(db: sqlite3.Connection, writer: str, n: int) -> None:
    arrived = db.execute(
        "UPDATE conversations SET deleted = NULL WHERE id IN (SELECT conversation FROM arriving WHERE writer = ?)",
        (writer,),
    )
    if arrived.rowcount != n:
        raise StoreError("Another Tandem has cleared away what was imported.", "Import it again.")


def _forget(db: sqlite3.Connection, writer: str) -> None:
    db.execute("DELETE FROM arriving WHERE writer = ?", (writer,))


def _size(transcript: Transcript) -> int:
    return _ROW + sum(map(_length, transcript.conversation.tree.nodes.values()))


def _length(node: Node) -> int:
    return _ROW + len(node.text) + len(node.reasoning)
