"""Find imported conversations that are in the store already.

Ids differ from store to store, so messages are compared: a conversation is there if a stored one holds all its
messages, each below the same ones. Two that begin with the same greeting are told apart by their time of creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from app.conversations.database import Database
from app.conversations.message import Role
from app.conversations.rows import storable, to_text
from app.conversations.tree import Transcript
from app.core.printable import printable

_ROLES = {role.value for role in Role}
_MESSAGES = "SELECT id, parent, role, text FROM messages WHERE conversation = ? ORDER BY id"


def find_duplicates(database: Database, transcripts: Sequence[Transcript], now: float) -> tuple[int | None, ...]:
    """Return for each conversation the id of a stored one that holds it, or None.

    Args:
        database: The store's.
        transcripts: Conversations of a file.
        now: The time of creation of those that say none.
    """
    stored = [
        (number, created, _digests(database.rows(_MESSAGES, (number,))))
        for number, created in database.rows("SELECT id, created FROM conversations WHERE deleted IS NULL ORDER BY id")
    ]

    def find(transcript: Transcript) -> int | None:
        nodes = transcript.conversation.tree.nodes.values()
        digests = _digests((node.id, node.parent, node.role.value, node.text) for node in nodes)
        created_at = transcript.conversation.summary.created
        for number, created, known in stored:
            is_same_time = created_at == created or (digests and created_at == now)
            if (digests == known and (digests or is_same_time)) or (digests and digests < known and is_same_time):
                return int(number)
        return None

    return tuple(map(find, transcripts))


def _digests(messages: Iterable[Sequence[Any]]) -> set[bytes]:
    """Return for each message a digest of it and of all before it; parents come first."""
    found: dict[int | None, bytes] = {}
    for number, parent, role, text in messages:
        speaker = role if role in _ROLES else Role.USER.value
        # Markdown has no empty lines around a text.
        plain = printable(storable(to_text(text))).strip()
        whole = found.get(parent, b"") + f"{speaker}\0{plain}".encode()
        found[number] = blake2b(whole, digest_size=16).digest()
    return set(found.values())
