"""Conversations out of the store, as well as they can be read: whole, on their way, or cut by a crash."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from app.chat.database import Database
from app.chat.recovery import Writers
from app.chat.rows import NODE, SUMMARY, gone, to_document, to_node, to_summary, to_text
from app.chat.tree import Conversation, Node, State, Transcript, Tree
from app.errors import StoreError


class Reading:
    """The reading half of a store.

    Args:
        database: The store's.
        writers: This store among others.
    """

    def __init__(self, database: Database, writers: Writers) -> None:
        self._database = database
        self._writers = writers

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

    def transcript(self, number: int) -> Transcript:
        """The same with the numbers of its answers."""
        rows = self._database.rows("SELECT id, stats FROM messages WHERE conversation = ? AND stats != '{}'", (number,))
        return Transcript(self.conversation(number), {message: to_document(stats) for message, stats in rows})

    def _nodes(self, conversation: int) -> dict[int, Node]:
        rows = self._database.rows(f"SELECT {NODE} FROM messages WHERE conversation = ? ORDER BY id", (conversation,))
        nodes: dict[int, Node] = {}
        for node in map(to_node, rows):
            # What replied to a message that a damage has taken begins a branch.
            nodes[node.id] = node if node.parent in nodes else replace(node, parent=None)
        return nodes
