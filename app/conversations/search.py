"""Full-text search over all messages while the user types. A query is plain words, never a query language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.conversations.database import Database
from app.conversations.rows import to_text

_MOST_TERMS, _LONGEST_TERM = 16, 100
_TRIGRAM = 3
_WILDCARD = re.compile(r"[\\%_]")
_ESCAPE = r"'\'"
_EXCERPT = 80
_BEFORE = 24
"""Characters of an excerpt before its first hit."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a message on one line; `marks` are start and end of every hit in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation with a message, or a title, that holds every term.

    Attributes:
        message: The newest message with a hit; None if only the title has one.
        excerpt: Of that message, or the title.
        count: Messages with a hit.
    """

    conversation: int
    title: str
    message: int | None
    excerpt: Excerpt
    count: int


def terms(query: str) -> tuple[str, ...]:
    """Split a query at spaces."""
    text = query.encode("utf-8", "replace").decode().replace("\0", " ")
    return tuple(term[:_LONGEST_TERM] for term in text.split()[:_MOST_TERMS])


def excerpt(text: str, words: Sequence[str]) -> Excerpt:
    """Return about 80 characters around the first hit, on one line; the beginning without a hit."""
    pattern = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, first.start() - _BEFORE) if first else 0
    if start:
        # Begin with a whole word, if there is a space to cut at.
        space = re.compile(r"\s").search(text, start, first.start() if first else start)
        start = space.end() if space else start
    line = " ".join(text[start : start + _EXCERPT].split())
    line = ("…" if start else "") + line + ("…" if start + _EXCERPT < len(text) else "")
    return Excerpt(line, tuple(found.span() for found in pattern.finditer(line)))


def search(database: Database, query: str, limit: int) -> tuple[Hit, ...]:
    """Return the conversations with a message, or a title, that holds every term, by last message."""
    words = terms(query)
    if not words:
        return ()
    matching, title, values = _conditions(words)
    rows = database.rows(
        f"""
        SELECT c.id, c.title, h.message, coalesce(h.n, 0), coalesce(m.text, ''), coalesce(m.reasoning, '')
        FROM conversations c LEFT JOIN (
            SELECT m.conversation AS conversation, max(m.id) AS message, count(*) AS n
            {matching} GROUP BY m.conversation
        ) h ON h.conversation = c.id LEFT JOIN messages m ON m.id = h.message
        WHERE c.deleted IS NULL AND (h.n IS NOT NULL OR {title})
        ORDER BY c.updated DESC, c.id DESC LIMIT :limit
        """,
        {**values, "limit": limit},
    )
    return tuple(_hit(row, words) for row in rows)


def _conditions(words: Sequence[str]) -> tuple[str, str, dict[str, object]]:
    """Return FROM and WHERE of the messages `m` with every word, the condition of a title, and the parameters."""
    values: dict[str, object] = {}
    conditions, of_title = [], []
    long = [word for word in words if len(word) >= _TRIGRAM]
    if long:
        conditions.append("m.id = found.rowid AND found MATCH :match")
        values["match"] = " ".join('"' + word.replace('"', '""') + '"' for word in long)
    for word in words:
        patterns = {f"like{n}": pattern for n, pattern in enumerate(_patterns(word), len(values))}
        values |= patterns

        def like(*columns: str, names: Sequence[str] = tuple(patterns)) -> str:
            return f"({' OR '.join(f'{column} LIKE :{n} ESCAPE {_ESCAPE}' for column in columns for n in names)})"

        of_title.append(like("c.title"))
        if word not in long:
            conditions.append(like("m.text", "m.reasoning"))
    source = "found CROSS JOIN messages m" if long else "messages m"
    return f"FROM {source} WHERE {' AND '.join(conditions)}", " AND ".join(of_title), values


def _patterns(word: str) -> Sequence[str]:
    """Return LIKE patterns of a word; SQLite ignores the case of ASCII letters only."""
    spellings = dict.fromkeys([word] if word.isascii() else [word, word.lower(), word.upper(), word.capitalize()])
    return ["%" + _WILDCARD.sub(r"\\\g<0>", spelling) + "%" for spelling in spellings]


def _hit(row: Sequence[Any], words: Sequence[str]) -> Hit:
    conversation, title, message, count, text, reasoning = row
    shown = excerpt(to_text(title if message is None else text), words)
    if message is not None and not shown.marks and reasoning:
        shown = excerpt(to_text(reasoning), words)
    return Hit(conversation, to_text(title), message, shown, count)
