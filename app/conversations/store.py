"""All conversations on disk, in one SQLite database.

A store belongs to the thread that opened it. Several processes may use the same file: each sees the committed writes of
all. A committed write survives the end of the process; messages and ended answers also survive a power cut. Every
method raises `StoreError` if the disk refuses; then nothing was written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from app.conversations.database import ConversationGoneError
from app.conversations.journal import Journal, recover
from app.conversations.message import Role
from app.conversations.opening import is_unused, open_file, open_memory
from app.conversations.rows import (
    NODE,
    SUMMARY,
    StoredPictures,
    change,
    change_tags,
    dump,
    find_duplicates,
    insert,
    insert_conversation,
    insert_node,
    insert_pictures,
    remove_unused,
    to_document,
    to_node,
    to_summary,
)
from app.conversations.search import Hit, search
from app.conversations.titles import fork_title, one_line, title_of
from app.conversations.tree import Document, Node, State, StoredConversation, Summary, Tree
from app.core.errors import StoreError
from app.core.printable import storable

UNDO_S = 24 * 3600.0
"""How long a deleted conversation can be restored."""


class Store:
    """The conversations in a file, which is created if absent, or in memory for None.

    Interrupted answers are marked. Raises StoreError if the file cannot be written, or is from a newer Tandem.

    Attributes:
        notice: What the user should know about opening the file, if anything.
    """

    def __init__(
        self,
        file: Path | None = None,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # If no other Tandem uses the file, a crash interrupted its unfinished answers.
        self._was_unused = file is None or is_unused(file)
        self.database, self.notice = (open_memory(), "") if file is None else open_file(file)
        self._rows = self.database.rows
        self.pictures = StoredPictures(self.database, now)
        self._now = now
        self._clock = clock
        self._journals: list[Journal] = []
        cut = self._rows("SELECT id FROM messages WHERE state = 'writing'") if self._was_unused else ()
        if cut:
            # If the disk is full, the next start marks them.
            with suppress(StoreError), self.database.write() as db:
                recover(db, [number for (number,) in cut])

    def retry(self) -> bool:
        """Store ended answers that the disk has refused; return whether one was stored."""
        stored = [journal.retry() for journal in self._journals]
        return any(stored)

    def close(self) -> None:
        """Write pending text, purge deleted conversations and unused pictures, and close the file.

        Unfinished answers are marked as interrupted. Raises StoreError if the disk refuses.
        """
        unfinished = [journal for journal in self._journals if not journal.ended]
        self._journals.clear()
        try:
            for journal in unfinished:
                journal.save()
            if unfinished:
                with self.database.write(durable=True) as db:
                    recover(db, [journal.start.id for journal in unfinished])
            # Purge at the end: removing messages from the index takes as long as adding them.
            with suppress(StoreError), self.database.write() as db:
                db.execute("DELETE FROM conversations WHERE deleted <= ?", (self._purge_time,))
                remove_unused(db, self._purge_time)
        except StoreError as error:
            raise StoreError(f"{error.message} The latest messages are lost.", error.hint) from error
        finally:
            self.database.close()

    # Conversations

    def summaries(self) -> tuple[Summary, ...]:
        """Return all conversations: pinned conversations first, then by last message."""
        rows = self._rows(
            f"SELECT {SUMMARY} FROM conversations WHERE deleted IS NULL ORDER BY pinned DESC, updated DESC, id DESC"
        )
        return tuple(to_summary(row) for row in rows)

    def load(self, conversation: int) -> StoredConversation:
        """Return a conversation, even if it is deleted, with the stored text of unfinished answers."""
        rows = self._rows(f"SELECT leaf, settings, draft, {SUMMARY} FROM conversations WHERE id = ?", (conversation,))
        if not rows:
            raise ConversationGoneError
        leaf, settings, unsent_text, *summary = rows[0]
        nodes: dict[int, Node] = {}
        for row in self._rows(f"SELECT {NODE} FROM messages WHERE conversation = ? ORDER BY id", (conversation,)):
            node = to_node(row)
            # A reply to a message lost by damage begins a branch.
            nodes[node.id] = node if node.parent in nodes else replace(node, parent=None)
        tree = Tree(nodes, leaf if leaf in nodes else next(reversed(nodes), None))
        return StoredConversation(to_summary(summary), tree, to_document(settings), unsent_text)

    def create(self, settings: Document | None = None) -> int:
        """Create an empty conversation; return its id."""
        now = self._now()
        with self.database.write() as db:
            return insert(db, "conversations", created=now, updated=now, settings=dump(settings))

    def rename(self, conversation: int, title: str) -> str:
        """Set a title and return it; an empty title restores the title made from the first prompt."""
        chosen = one_line(storable(title))
        made = "" if chosen else title_of(self.load(conversation).tree.first_prompt)
        self._change(conversation, "title = ?, named = ?", chosen or made, bool(chosen))
        return chosen or made

    def retitle(self, conversation: int, prompt: str, others: Iterable[str]) -> None:
        """Make the title from another first prompt, if it was made from one in `others`."""
        made = [title_of(other) for other in others]
        with self.database.write() as db:
            changed = (title_of(prompt), conversation, *made)
            marks = ", ".join("?" * len(made))
            db.execute(f"UPDATE conversations SET title = ? WHERE id = ? AND NOT named AND title IN ({marks})", changed)

    def title(self, conversation: int) -> str:
        """Return the title of a conversation."""
        rows = self._rows("SELECT title FROM conversations WHERE id = ?", (conversation,))
        return str(rows[0][0]) if rows else ""

    def name(self, conversation: int, title: str) -> None:
        """Set a title, unless the user chose a title."""
        with self.database.write() as db:
            named = (one_line(storable(title)), conversation)
            db.execute("UPDATE conversations SET title = ? WHERE id = ? AND NOT named", named)

    def pin(self, conversation: int, pinned: bool) -> None:
        self._change(conversation, "pinned = ?", pinned)

    def tag(self, conversation: int, added: Iterable[str], removed: Iterable[str]) -> None:
        """Add and remove tags of a conversation."""
        with self.database.write() as db:
            change_tags(db, conversation, added, removed)

    def delete(self, conversation: int) -> None:
        """Remove a conversation from the list and the search; `undelete` restores it for a day."""
        self._change(conversation, "deleted = ?", self._now())

    def undelete(self, *conversations: int) -> None:
        for conversation in conversations:
            self._change(conversation, "deleted = NULL")

    def deleted(self) -> tuple[int, ...]:
        """Return the conversations that `undelete` can restore, most recently deleted last."""
        rows = self._rows("SELECT id FROM conversations WHERE deleted > ? ORDER BY deleted, id", (self._purge_time,))
        return tuple(number for (number,) in rows)

    @property
    def _purge_time(self) -> float:
        return self._now() - UNDO_S

    def set_settings(self, conversation: int, settings: Document) -> None:
        self._change(conversation, "settings = ?", dump(settings))

    # Unsent text

    def set_unsent_text(self, conversation: int, text: str) -> None:
        """Store the unsent prompt of a conversation."""
        self._change(conversation, "draft = ?", storable(text))

    def save_pending_input(self, text: str) -> None:
        """Store the unsent prompt of an empty conversation; an empty prompt removes it."""
        with self.database.write() as db:
            db.execute("DELETE FROM unsent")
            if text:
                insert(db, "unsent", writer="", text=storable(text), updated=self._now())

    def take_pending_input(self) -> str:
        """Return the last unsent prompt of an earlier run.

        While another Tandem runs, return nothing: its input line may still hold the prompt.
        """
        rows = self._rows("SELECT text FROM unsent ORDER BY updated DESC LIMIT 1") if self._was_unused else ()
        return str(rows[0][0]) if rows else ""

    def unsent_title(self) -> str | None:
        """Return the title of the last conversation, if it has an unsent prompt."""
        rows = self._rows(
            "SELECT title, draft FROM conversations WHERE deleted IS NULL ORDER BY updated DESC, id DESC LIMIT 1"
        )
        return str(rows[0][0]) if rows and rows[0][1].strip() else None

    def prompts(self, limit: int) -> tuple[str, ...]:
        """Return the prompts of all conversations, newest first."""
        rows = self._rows(
            "SELECT m.text FROM messages m JOIN conversations c ON c.id = m.conversation "
            "WHERE m.role = 'user' AND c.deleted IS NULL ORDER BY m.created DESC, m.id DESC LIMIT ?",
            (limit,),
        )
        return tuple(text for (text,) in rows)

    # Messages

    def add(
        self,
        conversation: int,
        role: Role,
        text: str,
        reasoning: str = "",
        *,
        parent: int | None,
        state: State = State.COMPLETE,
        stats: Document | None = None,
    ) -> Node:
        """Add a message below a parent and make it the active leaf; a second reply is a branch."""
        node = Node(0, parent, role, storable(text), storable(reasoning), state, self._now(), stats or {})
        return self._add(conversation, node, durable=True)

    def _add(self, conversation: int, node: Node, *, durable: bool = False) -> Node:
        title = title_of(node.text) if node.role is Role.USER else ""
        with self.database.write(durable=durable) as db:
            # A conversation in use is not deleted, even if another Tandem deleted it.
            change(
                db,
                "UPDATE conversations SET deleted = NULL, updated = ?, "
                "title = CASE title WHEN '' THEN ? ELSE title END WHERE id = ?",
                *(node.created, title, conversation),
            )
            node = replace(node, id=insert_node(db, conversation, node))
            db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (node.id, conversation))
        return node

    def switch(self, conversation: int, leaf: int) -> None:
        """Activate the branch that ends with this message."""
        self._change(conversation, "leaf = ?", leaf)

    def answer(self, conversation: int, parent: int, *, models: Document | None = None) -> Journal:
        """Begin an answer to a message; it becomes the active leaf.

        The models' names by role are stored immediately, in case a crash interrupts the answer.
        """
        leaf = self._rows("SELECT leaf FROM conversations WHERE id = ?", (conversation,))
        node = Node(0, parent, Role.ASSISTANT, "", state=State.WRITING, created=self._now(), stats=models or {})
        return self._begin(self._add(conversation, node), leaf[0][0])

    def resume(self, message: int) -> Journal:
        """Begin to continue an answer that was stopped or interrupted."""
        rows = self._rows(f"SELECT conversation, {NODE} FROM messages WHERE id = ?", (message,))
        if not rows:
            raise ConversationGoneError
        conversation, *row = rows[0]
        node = to_node(row)
        if node.state is State.WRITING:
            raise StoreError("This answer is being written, here or by another Tandem.", "Wait for its end.")
        with self.database.write() as db:
            db.execute("UPDATE messages SET state = 'writing' WHERE id = ?", (message,))
            db.execute("UPDATE conversations SET deleted = NULL WHERE id = ?", (conversation,))
        return self._begin(node, message)

    def _begin(self, node: Node, leaf: int | None) -> Journal:
        journal = Journal(self.database, node, leaf, self._clock, self._now)
        self._journals = [each for each in self._journals if not each.ended] + [journal]
        return journal

    def replace_tree(self, conversation: int, before: Tree, after: Tree) -> Tree:
        """Store and return a tree after messages were removed from it or restored."""
        with self.database.write(durable=True) as db:
            for number, node in after.nodes.items():
                if number not in before.nodes:
                    insert_node(db, conversation, node)
                elif node.parent != before.nodes[number].parent:
                    db.execute("UPDATE messages SET parent = ? WHERE id = ?", (node.parent, number))
            gone = [(number,) for number in before.nodes if number not in after.nodes]
            db.executemany("DELETE FROM messages WHERE id = ?", gone)
            change(db, "UPDATE conversations SET leaf = ? WHERE id = ?", after.leaf, conversation)
        return after

    def fork(self, conversation: int, path: Sequence[Node], unsent_text: str = "") -> int:
        """Copy the messages of a path into a new conversation with the same settings; return its id."""
        old, now = self.load(conversation), self._now()
        title = fork_title(old.summary.title, {title for (title,) in self._rows("SELECT title FROM conversations")})
        summary = Summary(0, title, named=True, created=now, updated=now, tags=old.summary.tags)
        tree = Tree({node.id: node for node in path}, path[-1].id if path else None)
        return self.insert([StoredConversation(summary, tree, old.settings, unsent_text)])[0]

    def set_stats(self, message: int, stats: Document) -> None:
        """Replace the numbers of a message."""
        with self.database.write() as db:
            db.execute("UPDATE messages SET stats = ? WHERE id = ?", (dump(stats), message))

    # Search, export and import

    def search(self, query: str, limit: int = 50) -> tuple[Hit, ...]:
        """Return conversations that contain every word of the query; fast enough to run at every key press."""
        return search(self.database, query, limit)

    def duplicates(self, conversations: Sequence[StoredConversation]) -> tuple[int | None, ...]:
        """Map each imported conversation to the id of a stored conversation with all its messages, or None."""
        return find_duplicates(self.database, conversations)

    def insert(self, conversations: Sequence[StoredConversation]) -> tuple[int, ...]:
        """Insert all conversations, or none, as new conversations; return their ids."""
        with self.database.write(durable=True) as db:
            insert_pictures(db, (each for one in conversations for each in one.pictures.values()), self._now())
            return tuple(insert_conversation(db, conversation) for conversation in conversations)

    def _change(self, conversation: int, columns: str, *values: object) -> None:
        with self.database.write() as db:
            change(db, f"UPDATE conversations SET {columns} WHERE id = ?", *values, conversation)
