"""Conversations out of the store, as well as they can be read: whole, on their way, or cut by a crash."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from heapq import merge
from itertools import accumulate

from app.conversations.database import Database
from app.conversations.recovery import Writers
from app.conversations.rows import NODE, SUMMARY, gone, to_document, to_node, to_seconds, to_state, to_summary, to_text
from app.conversations.tree import Conversation, Document, Node, State, Summary, Transcript, Tree, Typed
from app.core.errors import StoreError


class Reading:
    """The reading half of a store.

    Args:
        database: The store's.
        writers: This store among others.
    """

    def __init__(self, database: Database, writers: Writers) -> None:
        self._database = database
        self._writers = writers

    def summaries(self) -> tuple[Summary, ...]:
        """All that are not deleted: pinned ones first, then by when something was last said."""
        rows = self._database.rows(
            f"SELECT {SUMMARY} FROM conversations WHERE deleted IS NULL ORDER BY pinned DESC, updated DESC, id DESC"
        )
        return tuple(to_summary(row) for row in rows)

    def left_typed(self) -> str:
        """The title of what was last said something in, where something was typed there and not sent; else ""."""
        rows = self._database.rows(
            "SELECT title, draft FROM conversations WHERE deleted IS NULL ORDER BY updated DESC, id DESC LIMIT 1"
        )
        return to_text(rows[0][0]) if rows and to_text(rows[0][1]).strip() else ""

    def conversation(self, number: int) -> Conversation:
        """All of one conversation, also a deleted one. Raises StoreError where there is none."""
        rows = self._database.rows(
            f"SELECT leaf, settings, draft, {SUMMARY} FROM conversations WHERE id = ?", (number,)
        )
        if not rows:
            raise gone()
        leaf, settings, draft, *summary = rows[0]
        nodes = self._nodes(number)
        if any(node.state is State.WRITING for node in nodes.values()):
            with suppress(StoreError):
                self._writers.recover(self._database)
            nodes = self._nodes(number)
            for node in [node for node in nodes.values() if node.state is State.WRITING]:
                nodes[node.id] = self._writers.shown(self._database, node)
        tree = Tree(nodes, leaf if leaf in nodes else next(reversed(nodes), None))
        return Conversation(to_summary(summary), tree, to_document(settings), to_text(draft))

    def standing(self, number: int) -> dict[int, State]:
        """How far every message of a conversation is; empty where there is none."""
        rows = self._database.rows("SELECT id, state FROM messages WHERE conversation = ?", (number,))
        return {message: to_state(state) for message, state in rows}

    def transcript(self, number: int) -> Transcript:
        """The same with the numbers of its answers."""
        rows = self._database.rows("SELECT id, stats FROM messages WHERE conversation = ? AND stats != '{}'", (number,))
        return Transcript(self.conversation(number), {message: to_document(stats) for message, stats in rows})

    def stats(self, message: int) -> Document:
        """The numbers of an answer; empty if there are none."""
        rows = self._database.rows("SELECT stats FROM messages WHERE id = ?", (message,))
        return to_document(rows[0][0]) if rows else {}

    def typed(self, limit: int) -> tuple[Typed, ...]:
        """What the user said, and set aside, in all conversations that are not deleted, newest first."""
        said = self._database.rows(
            "SELECT m.text, m.created FROM messages m JOIN conversations c ON c.id = m.conversation "
            "WHERE m.role = 'user' AND c.deleted IS NULL ORDER BY m.id DESC LIMIT ?",
            (limit,),
        )
        aside = self._database.rows(
            "SELECT a.text, a.updated FROM set_aside a LEFT JOIN conversations c ON c.id = a.conversation "
            "WHERE c.deleted IS NULL ORDER BY a.updated DESC"
        )
        # What came in from elsewhere stands where it came, whenever it was said: behind all that was there by then.
        came = [*accumulate((to_seconds(at) for _, at in reversed(said)), max)][::-1]
        prompts = zip((Typed(to_text(text)) for text, _ in said), came, strict=True)
        others = ((Typed(to_text(text), said=False), to_seconds(at)) for text, at in aside)
        newest = merge(prompts, others, key=lambda row: -row[1])
        return tuple(typed for typed, _ in newest)[:limit]

    def _nodes(self, conversation: int) -> dict[int, Node]:
        rows = self._database.rows(f"SELECT {NODE} FROM messages WHERE conversation = ? ORDER BY id", (conversation,))
        nodes: dict[int, Node] = {}
        for node in map(to_node, rows):
            # What replied to a message that a damage has taken begins a branch.
            nodes[node.id] = node if node.parent in nodes else replace(node, parent=None)
        return nodes
