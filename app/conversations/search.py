"""Search over everything that was said, as one types. What is typed is text, never a query language."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from app.conversations.database import Database
from app.conversations.rows import to_text
from app.conversations.schema import has_index

MOST_TERMS = 16
LONGEST_TERM = 100
_TRIGRAM = 3
_SPECIAL, _ESCAPED = re.compile(r"[\\%_]"), r"\\\g<0>"
_EXCERPT = 80
_BEFORE = 24
"""Characters of an excerpt before its first hit."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a message on one line.

    Attributes:
        text: The piece, with an ellipsis where it was cut.
        marks: Start and end of every hit in it.
    """

    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation, or a message of one, that holds every term.

    Attributes:
        conversation: Its id.
        title: Its title.
        message: The newest message with a hit; None where only the title has one.
        excerpt: Of that message, or the title.
        count: Messages with a hit.
    """

    conversation: int
    title: str
    message: int | None
    excerpt: Excerpt
    count: int


def terms(query: str) -> tuple[str, ...]:
    """The words to look for: whatever stands between spaces, in bounds."""
    text = query.encode("utf-8", "replace").decode().replace("\0", " ")
    return tuple(term[:LONGEST_TERM] for term in text.split()[:MOST_TERMS])


def excerpt(text: str, words: Sequence[str]) -> Excerpt:
    """About `_EXCERPT` characters around the first hit, on one line; its beginning if nothing is found."""
    pattern = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    first = pattern.search(text)
    start = max(0, first.start() - _BEFORE) if first else 0
    if start:
        # A word that would be cut is left out, if there is a space to cut at.
        space = re.compile(r"\s").search(text, start, first.start() if first else start)
        start = space.end() if space else start
    piece = text[start : start + _EXCERPT]
    line = " ".join(piece.split())
    line = ("…" if start else "") + line + ("…" if start + _EXCERPT < len(text) else "")
    return Excerpt(line, tuple(found.span() for found in pattern.finditer(line)))


class Search:
    """The SQL of a search.

    Args:
        database: The store's. Without the trigram index every message is read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._indexed = has_index(database.connection)

    def conversations(self, query: str, limit: int) -> tuple[Hit, ...]:
        """Conversations with a message, or a title, that holds every term; what was talked about last comes first."""
        return self._hits(
            query,
            lambda matching: (
                f"""
            SELECT c.id, c.title, h.message, coalesce(h.n, 0), coalesce(m.text, ''), coalesce(m.reasoning, '')
            FROM conversations c LEFT JOIN (
                SELECT m.conversation AS conversation, max(m.id) AS message, count(*) AS n
                {matching} GROUP BY m.conversation
            ) h ON h.conversation = c.id LEFT JOIN messages m ON m.id = h.message
            WHERE c.deleted IS NULL AND (h.n IS NOT NULL OR in_title(CAST(c.title AS BLOB)))
            ORDER BY c.updated DESC, c.id DESC LIMIT :limit
            """
            ),
            limit=limit,
        )

    def messages(self, conversation: int, query: str, limit: int) -> tuple[Hit, ...]:
        """The messages of one conversation that hold every term, oldest first, on whatever branch."""
        return self._hits(
            query,
            lambda matching: f"""
            SELECT c.id, c.title, m.id, 1, m.text, m.reasoning {matching} AND m.conversation = :conversation
            ORDER BY m.id LIMIT :limit
            """.replace("messages m", "messages m JOIN conversations c ON c.id = m.conversation"),
            conversation=conversation,
            limit=limit,
        )

    def _hits(self, query: str, sql: Callable[[str], str], **values: object) -> tuple[Hit, ...]:
        """What a query finds; `sql` is given the FROM and WHERE of the messages `m` that hold every term."""
        words = terms(query)
        if not words:
            return ()
        matching, given = self._matches(words)
        rows = self._database.rows(sql(matching), given | values)
        return tuple(_hit(row, words) for row in rows)

    def _matches(self, words: Sequence[str]) -> tuple[str, dict[str, object]]:
        """FROM and WHERE of the messages `m` that hold every word, and the parameters."""
        short = [word for word in words if len(word) < _TRIGRAM]
        long = [word for word in words if self._indexed and word not in short]
        other = [word.casefold() for word in words if word not in long and word not in short]
        folded = [word.casefold() for word in words]

        def in_message(*columns: bytes) -> bool:
            text, reasoning = (to_text(column).casefold() for column in columns)
            return all(word in text or word in reasoning for word in other)

        def in_title(column: bytes) -> bool:
            title = to_text(column).casefold()
            return all(word in title for word in folded)

        self._database.connection.create_function("in_message", 2, in_message)
        self._database.connection.create_function("in_title", 1, in_title)
        given: dict[str, object] = {}
        conditions = []
        if long:
            conditions.append("m.id = found.rowid AND found MATCH :match")
            given["match"] = " ".join('"' + word.replace('"', '""') + '"' for word in long)
        for word in short:
            patterns = {f"like{number}": pattern for number, pattern in enumerate(_patterns(word), len(given))}
            likes = [f"m.{column} LIKE :{name} ESCAPE '\\'" for column in ("text", "reasoning") for name in patterns]
            conditions.append(f"({' OR '.join(likes)})")
            given |= patterns
        if other:
            # As bytes: SQLite hands a text that is no UTF-8 to no function.
            conditions.append("in_message(CAST(m.text AS BLOB), CAST(m.reasoning AS BLOB))")
        source = "found CROSS JOIN messages m" if long else "messages m"
        return f"FROM {source} WHERE {' AND '.join(conditions)}", given


def _patterns(word: str) -> list[str]:
    """What a word that is too short for the index is like, however it is written.

    SQLite ignores the case of ASCII letters by itself; a function of ours would be called for every message.
    """
    spellings = product(*({letter} if letter.isascii() else {letter.lower(), letter.upper()} for letter in word))
    return [f"%{re.sub(_SPECIAL, _ESCAPED, ''.join(spelling))}%" for spelling in sorted(spellings)]


def _hit(row: Sequence[Any], words: Sequence[str]) -> Hit:
    conversation, title, message, count, text, reasoning = row
    title, text, reasoning = to_text(title), to_text(text), to_text(reasoning)
    shown = excerpt(title if message is None else text, words)
    if message is not None and not shown.marks and reasoning:
        shown = excerpt(reasoning, words)
    return Hit(conversation, title, message, shown, count)
