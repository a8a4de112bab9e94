"""The pictures in the store: each once, by its digest, for as long as a text refers to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256

from app.conversations.attached import PICTURE_LANGUAGE, split
from app.conversations.database import Database
from app.conversations.tree import StoredConversation
from app.core.pictures import Picture, PictureData

_FRESH_S = 3600.0
"""Seconds for which the time of a stored picture stays: changing it writes the whole picture again."""
_TEXTS = f"""
    SELECT text FROM messages WHERE text LIKE '%`{PICTURE_LANGUAGE}%'
    UNION ALL SELECT draft FROM conversations UNION ALL SELECT text FROM unsent
"""


class StoredPictures:
    """Store and load pictures; every method raises StoreError."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    def add(self, picture: PictureData) -> None:
        """Store a picture; it stays for a day until a message or an unsent prompt refers to it."""
        with self._database.write() as db:
            insert_pictures(db, [picture], self._now())

    def load(self, digests: Iterable[str]) -> dict[str, PictureData]:
        """Return the pictures of these digests; one that is absent or damaged is left out."""
        found = {}
        for digest in set(digests):
            rows = self._database.rows("SELECT type, width, height, data FROM pictures WHERE digest = ?", (digest,))
            for media_type, width, height, data in rows:
                if sha256(data).hexdigest() == digest:
                    found[digest] = PictureData(Picture(digest, media_type, width, height), data)
        return found

    def of(self, conversation: StoredConversation) -> StoredConversation:
        """Return a conversation with its pictures, for a file."""
        return replace(conversation, pictures=self.load(_digests_in(conversation.texts)))


def _digests_in(texts: Iterable[str]) -> set[str]:
    found = (each.picture for text in texts if PICTURE_LANGUAGE in text for each in split(text)[1])
    return {picture.digest for picture in found if picture is not None}


def insert_pictures(db: sqlite3.Connection, pictures: Iterable[PictureData], now: float) -> None:
    """Insert the pictures that are not stored yet."""
    for each in pictures:
        kept = each.picture
        db.execute(
            "INSERT INTO pictures VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
            "ON CONFLICT(digest) DO UPDATE SET stored = ?5 WHERE stored < ?5 - ?7",
            (kept.digest, kept.media_type, kept.width, kept.height, now, each.data, _FRESH_S),
        )


def remove_unused(db: sqlite3.Connection, before: float) -> None:
    """Remove pictures stored before a time to which no text refers."""
    old = {digest for (digest,) in db.execute("SELECT digest FROM pictures WHERE stored <= ?", (before,))}
    unused = old - _digests_in(text for (text,) in db.execute(_TEXTS)) if old else ()
    db.executemany("DELETE FROM pictures WHERE digest = ?", [(digest,) for digest in unused])
