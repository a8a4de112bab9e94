"""Which conversations of a file are in the store already.

Ids tell nothing: every store counts its own. What tells is what was said. A conversation of the file is there if one
in the store holds all its messages, each after the same ones; what was said in that one since does not matter. Two
that begin alike, with the same greeting say, are told apart by when they were begun, where the file knows that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from app.conversations.database import Database
from app.conversations.message import Role
from app.conversations.rows import storable, to_text
from app.conversations.tree import Node, Transcript
from app.core.printable import printable

_DIGEST = 16
_ROLES = {role.value for role in Role}


@dataclass(frozen=True, slots=True)
class Known:
    """What the store has of a conversation.

    Attributes:
        conversation: Its id there; None if there is none.
        is_whole: Whether it holds everything; else it is an earlier state, or both have gone on since.
        n_more: Messages that it has besides.
    """

    conversation: int | None = None
    is_whole: bool = False
    n_more: int = 0


def find_known(database: Database, transcripts: Sequence[Transcript], now: float) -> tuple[Known, ...]:
    """What the store has of each of these; deleted ones are not there.

    Args:
        database: The store.
        transcripts: Of a file.
        now: What was taken for the time of those that say none.
    """
    wanted = [_digests(map(_said, transcript.conversation.tree.nodes.values())) for transcript in transcripts]
    stored = _Stored(database, set().union(*wanted))
    return tuple(
        stored.find(said, transcript.conversation.summary.created, now)
        for said, transcript in zip(wanted, transcripts, strict=True)
    )


class _Stored:
    """What was said in the conversations of a store that begin with any of these messages."""

    def __init__(self, database: Database, wanted: Set[bytes]) -> None:
        self._begun: dict[int, float] = dict(
            database.rows("SELECT id, created FROM conversations WHERE deleted IS NULL ORDER BY id")
        )
        firsts = database.rows("SELECT conversation, id, NULL, role, text FROM messages WHERE parent IS NULL")
        alike = {number for number, *first in firsts if _digests([first]) & wanted}
        self._empty = self._begun.keys() - {number for number, *_ in firsts}
        self._said: dict[int, set[bytes]] = {}
        self._holders: dict[bytes, list[int]] = {}
        for number in sorted(alike & self._begun.keys()):
            self._said[number] = _digests(
                database.rows(
                    "SELECT id, parent, role, text FROM messages WHERE conversation = ? ORDER BY id", (number,)
                )
            )
            for digest in self._said[number]:
                self._holders.setdefault(digest, []).append(number)

    def find(self, said: Set[bytes], created: float, now: float) -> Known:
        """The conversation that holds what was said in one that was begun then."""
        if not said:
            return next((Known(n, is_whole=True) for n in self._empty if self._begun[n] == created), Known())
        rarest = min(said, key=lambda digest: len(self._holders.get(digest, ())))
        for number in self._holders.get(rarest, ()):
            there = self._said[number]
            if said <= there and (created in (now, self._begun[number]) or said == there):
                return Known(number, is_whole=True, n_more=len(there) - len(said))
        akin = (number for digest in said for number in self._holders.get(digest, ()))
        return next((Known(number) for number in akin if self._begun[number] == created), Known())


def _said(node: Node) -> tuple[int, int | None, str, str]:
    return node.id, node.parent, node.role.value, node.text


def _digests(said: Iterable[Sequence[Any]]) -> set[bytes]:
    """For each message, as id, parent, role and text, a digest of it and of all before it; parents come first."""
    found: dict[int | None, bytes] = {}
    for number, parent, role, text in said:
        speaker = role if role in _ROLES else Role.USER.value
        # Markdown has no empty lines around a text.
        plain = printable(storable(to_text(text))).strip()
        whole = found.get(parent, b"") + f"{speaker}\0{plain}".encode()
        found[number] = blake2b(whole, digest_size=_DIGEST).digest()
    return set(found.values())
