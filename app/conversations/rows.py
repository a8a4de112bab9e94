"""Convert rows of the store to values and back; pictures; duplicates of imported conversations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import Any

from app.conversations.attached import PICTURE_LANGUAGE, split
from app.conversations.database import ConversationGoneError, Database
from app.conversations.message import Role
from app.conversations.tree import Document, Node, State, StoredConversation, Summary
from app.core.pictures import PictureData
from app.core.printable import printable, storable

SUMMARY = (
    "id, title, named, pinned, created, updated, "
    "(SELECT group_concat(tag, ' ') FROM tags WHERE conversation = conversations.id)"
)
"""The columns for `to_summary`."""
NODE = "id, parent, role, text, reasoning, state, created, stats"
"""The columns for `to_node`."""
_EMPTY_OBJECT = "{}"
ROLES = {role.value: role for role in Role}
STATES = {state.value: state for state in State}
_FRESH_S = 3600.0
"""How long the time of a stored picture stays: changing it rewrites the whole picture."""
_TEXTS_QUERY = f"""
    SELECT text FROM messages WHERE text LIKE '%`{PICTURE_LANGUAGE}%'
    UNION ALL SELECT draft FROM conversations UNION ALL SELECT text FROM unsent
"""


def to_summary(row: Sequence[Any]) -> Summary:
    """Return the list entry of a conversation."""
    number, title, named, pinned, created, updated, tags = row
    return Summary(number, title, bool(named), bool(pinned), created, updated, tuple(sorted((tags or "").split())))


def to_node(row: Sequence[Any]) -> Node:
    """Return a message; its role or state may come from a newer version."""
    number, parent, raw_role, text, reasoning, raw_state, created, stats = row
    role, state = ROLES.get(raw_role, Role.USER), STATES.get(raw_state, State.CUT)
    numbers = {} if stats == _EMPTY_OBJECT else to_document(stats)
    return Node(number, parent, role, text, reasoning, state, created, numbers)


def to_document(text: str) -> Document:
    """Read a document written by `dump`; an unreadable document is empty."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def dump(document: Document | None) -> str:
    """Return a document as JSON. Raises ValueError for values that JSON does not have, such as NaN."""
    return storable(json.dumps(dict(document or {}), ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def change(db: sqlite3.Connection, sql: str, *values: object) -> None:
    """Run an UPDATE. Raises ConversationGoneError if it changes no row."""
    if not db.execute(sql, values).rowcount:
        raise ConversationGoneError


def insert(db: sqlite3.Connection, table: str, **columns: object) -> int:
    """Insert a row; return its id."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    row = db.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", tuple(columns.values()))
    return int(row.lastrowid or 0)


def insert_node(db: sqlite3.Connection, conversation: int, node: Node) -> int:
    """Insert a message with its id, or with a new id if it is 0; return the id."""
    return insert(
        db,
        "messages",
        id=node.id or None,
        conversation=conversation,
        parent=node.parent,
        role=node.role.value,
        text=storable(node.text),
        reasoning=storable(node.reasoning),
        state=node.state.value,
        created=node.created,
        stats=dump(node.stats),
    )


def insert_conversation(db: sqlite3.Connection, conversation: StoredConversation) -> int:
    """Insert a conversation with new ids; return its id."""
    summary = conversation.summary
    number = insert(
        db,
        "conversations",
        title=storable(summary.title),
        named=summary.named,
        pinned=summary.pinned,
        created=summary.created,
        updated=summary.updated,
        settings=dump(conversation.settings),
        draft=storable(conversation.unsent_text),
    )
    change_tags(db, number, summary.tags)
    ids: dict[int | None, int | None] = {None: None}
    for node in conversation.tree.nodes.values():
        ids[node.id] = insert_node(db, number, replace(node, id=0, parent=ids[node.parent], state=node.ended_state))
    db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (ids[conversation.tree.leaf], number))
    return number


def change_tags(db: sqlite3.Connection, conversation: int, added: Iterable[str], removed: Iterable[str] = ()) -> None:
    """Add and remove tags of a conversation."""
    db.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(conversation, tag) for tag in added])
    gone = [(conversation, tag) for tag in removed]
    db.executemany("DELETE FROM tags WHERE conversation = ? AND tag = ?", gone)


def find_duplicates(database: Database, conversations: Sequence[StoredConversation]) -> tuple[int | None, ...]:
    """Map each imported conversation to the id of a stored conversation with all its messages, or None.

    Ids differ between stores, so texts are compared, each with all earlier texts of its branch. Each stored
    conversation matches once, since a fork has the messages of its original. Conversations with the same start time
    match first, deleted conversations last. Without messages, the start time, title and unsent text must be equal; a
    different system prompt makes a different conversation.
    """
    messages = "SELECT id, parent, role, text FROM messages WHERE conversation = ? ORDER BY id"
    columns = "SELECT id, title, created, draft, settings FROM conversations ORDER BY deleted IS NOT NULL, id"
    stored = [
        (number, _digests(database.rows(messages, (number,))), (title, created, draft), _system(to_document(settings)))
        for number, title, created, draft, settings in database.rows(columns)
    ]
    matches: list[tuple[bool, int, int, int]] = []
    for at, conversation in enumerate(conversations):
        nodes, summary = conversation.tree.nodes.values(), conversation.summary
        about = (summary.title, summary.created, conversation.unsent_text)
        system = _system(conversation.settings)
        digests = _digests((node.id, node.parent, node.role.value, node.text) for node in nodes)
        matches += [
            (created != summary.created, -len(digests), order, at)
            for order, (_, known, (title, created, draft), prompt) in enumerate(stored)
            if digests <= known and (digests or (title, created, draft) == about) and system in (None, prompt)
        ]
    found: dict[int, int] = {}
    for _, _, order, at in sorted(matches):
        number = stored[order][0]
        if at not in found and number not in found.values():
            found[at] = number
    return tuple(map(found.get, range(len(conversations))))


def _system(settings: Document) -> str | None:
    """Return the system prompt without surrounding blank lines, which Markdown loses."""
    answer = settings.get("answer")
    text = answer.get("system") if isinstance(answer, dict) else None
    return printable(storable(text)).strip() if isinstance(text, str) else None


def _digests(messages: Iterable[Sequence[Any]]) -> set[bytes]:
    found: dict[int | None, bytes] = {}
    for number, parent, role, text in messages:
        # Markdown loses the blank lines around a text.
        plain = printable(storable(text)).strip()
        whole = found.get(parent, b"") + f"{role}\0{plain}".encode()
        found[number] = blake2b(whole, digest_size=16).digest()
    return set(found.values())


# Pictures: stored once, by digest, for as long as a text refers to them


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
        """Return the pictures with these digests; skip absent or damaged pictures."""
        found = {}
        for digest in set(digests):
            rows = self._database.rows("SELECT type, width, height, data FROM pictures WHERE digest = ?", (digest,))
            for media_type, width, height, data in rows:
                if sha256(data).hexdigest() == digest:
                    found[digest] = PictureData(digest, media_type, width, height, data=data)
        return found

    def of(self, conversation: StoredConversation) -> StoredConversation:
        """Return a conversation with its pictures, for a file."""
        return replace(conversation, pictures=self.load(_digests_in(conversation.texts)))


def _digests_in(texts: Iterable[str]) -> set[str]:
    found = (each.picture for text in texts if PICTURE_LANGUAGE in text for each in split(text)[1])
    return {picture.digest for picture in found if picture is not None}


def insert_pictures(db: sqlite3.Connection, pictures: Iterable[PictureData], now: float) -> None:
    """Insert pictures that are not stored yet."""
    for each in pictures:
        db.execute(
            "INSERT INTO pictures VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
            "ON CONFLICT(digest) DO UPDATE SET stored = ?5 WHERE stored < ?5 - ?7",
            (each.digest, each.media_type, each.width, each.height, now, each.data, _FRESH_S),
        )


def remove_unused(db: sqlite3.Connection, before: float) -> None:
    """Remove pictures stored before a time that no text refers to."""
    old = {digest for (digest,) in db.execute("SELECT digest FROM pictures WHERE stored <= ?", (before,))}
    unused = old - _digests_in(text for (text,) in db.execute(_TEXTS_QUERY)) if old else ()
    db.executemany("DELETE FROM pictures WHERE digest = ?", [(digest,) for digest in unused])
