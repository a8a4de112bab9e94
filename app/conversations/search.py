"""Full-text search over all messages while the user types. A query is plain words, not a query language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.conversations.attached import PICTURE_LANGUAGE, searchable
from app.conversations.database import Database
from app.core.printable import storable

_MOST_TERMS, _LONGEST_TERM = 16, 100
_TRIGRAM_LENGTH = 3
_EXCERPT_CHARS = 160
_CHARACTERS_BEFORE_HIT = 24
"""Excerpt characters before the first hit."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a message on one line; `marks` are the start and end of every hit."""

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation whose title or message contains every term.

    Attributes:
        message: The newest message with a hit; None if only the title has one.
    """

    conversation: int
    message: int | None
    excerpt: Excerpt


def any_of(words: Sequence[str]) -> re.Pattern[str]:
    """Return a case-insensitive pattern for any of these words."""
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)


def excerpt(text: str, words: Sequence[str], length: int = _EXCERPT_CHARS) -> Excerpt:
    """Return about `length` characters on one line: from the beginning, or around a later first hit."""
    pattern = any_of(words)
    first = pattern.search(text)
    start = max(0, first.start() - _CHARACTERS_BEFORE_HIT) if first and first.end() > length else 0
    if start:
        # Begin with a whole word if there is a space to cut at.
        space = re.compile(r"\s").search(text, start, first.start() if first else start)
        start = space.end() if space else start
    line = " ".join(text[start : start + length].split())
    line = ("…" if start else "") + line + ("…" if start + length < len(text) else "")
    return Excerpt(line, tuple(found.span() for found in pattern.finditer(line) if found[0]))


def search(database: Database, query: str, limit: int) -> tuple[Hit, ...]:
    """Return conversations whose title or message contains every term, by last message.

    A term such as "#work" matches all conversations with a tag that begins with it, if there is any.
    """
    terms = storable(query).replace("\0", " ").split()[:_MOST_TERMS]
    known = [f"#{tag}" for (tag,) in database.rows("SELECT DISTINCT tag FROM tags")]
    tags = [term for term in terms if any(tag.startswith(term.casefold()) for tag in known)]
    words = [term[:_LONGEST_TERM] for term in terms if term not in tags]
    if not terms:
        return ()
    # The full-text index lacks titles and words under three letters, and contains the digests of pictures.
    database.connection.create_function("has_words", 2, _has_words, deterministic=True)
    is_exact = all(len(word) >= _TRIGRAM_LENGTH for word in words)
    long = " ".join('"' + word.replace('"', '""') + '"' for word in words if len(word) >= _TRIGRAM_LENGTH)
    source = "found CROSS JOIN messages m ON m.id = found.rowid AND found MATCH :long" if long else "messages m"
    rows = database.rows(
        f"""
        SELECT c.id, c.title, h.message, m.text, m.reasoning
        FROM conversations c LEFT JOIN (
            SELECT m.conversation AS conversation, max(m.id) AS message
            FROM {source} WHERE :all <> '' AND (:is_exact AND NOT instr(m.text, '{PICTURE_LANGUAGE}')
            OR has_words(:all, CAST(m.text || char(10) || m.reasoning AS BLOB)))
            GROUP BY m.conversation
        ) h ON h.conversation = c.id LEFT JOIN messages m ON m.id = h.message
        WHERE c.deleted IS NULL AND (h.message IS NOT NULL OR has_words(:all, CAST(c.title AS BLOB)))
        AND has_words(:tags, CAST(coalesce(
            (SELECT group_concat('#' || tag, ' ') FROM tags WHERE tags.conversation = c.id), '') AS BLOB))
        ORDER BY c.updated DESC, c.id DESC LIMIT :limit
        """,
        {
            "long": long,
            "is_exact": is_exact,
            "all": " ".join(words).casefold(),
            "tags": " ".join(tags).casefold(),
            "limit": limit,
        },
    )
    return tuple(_hit(row, words) for row in rows)


def _has_words(words: str, text: bytes) -> bool:
    folded = searchable(text.decode("utf-8", "replace")).casefold()
    return all(word in folded for word in words.split())


def _hit(row: Sequence[Any], words: Sequence[str]) -> Hit:
    conversation, title, message, text, reasoning = row
    shown = excerpt(title if message is None else searchable(text), words)
    if message is not None and not shown.marks and reasoning:
        shown = excerpt(reasoning, words)
    return Hit(conversation, message, shown)
