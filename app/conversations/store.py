"""Every conversation on disk, in one SQLite database.

A store belongs to the thread that opened it. Two processes may use one file at once: each sees what the other has
committed, and leaves alone what the other is writing. Every method raises `StoreError` when the disk refuses; the
values that the caller holds stay good, `go_on_in_memory` lets the chat continue without the disk, and `return_to_disk`
writes the changes to the file.

What a method has written survives the end of the process, however it ends. A power cut takes no message that was said
and no answer that has ended; of one on its way, and of titles and the like, it may take what the operating system had
not written yet: the last seconds, in whole steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from app.conversations.answers import Answers
from app.conversations.arrivals import Arrivals
from app.conversations.attached import question_of
from app.conversations.database import Database
from app.conversations.deleting import UNDO_S, Deleted
from app.conversations.inserting import insert_aside, insert_node
from app.conversations.journal import Journal
from app.conversations.known import Known, find_known
from app.conversations.message import Role
from app.conversations.opening import move_into_memory, open_copy, open_file
from app.conversations.outage import Outage
from app.conversations.reading import Reading
from app.conversations.recovery import Writers
from app.conversations.rows import change, dump, gone, storable
from app.conversations.search import Hit, Search
from app.conversations.titles import make_title, one_line
from app.conversations.tree import Conversation, Document, Node, State, Summary, Transcript, Typed
from app.core import regular_file
from app.core.errors import StoreError

_MOST_SET_ASIDE = 100
"""Texts; what somebody still looks for is not as old as the one before that."""
UNTIL_SAVED = "Tandem saves them as soon as it can."
"""Fix to show with messages that the disk refuses."""
_FORGETS = "Conversations are kept in memory only, until Tandem ends."


class Store:
    """The conversations; `open` and `in_memory` make one.

    Attributes:
        notice: What the user should know about how it was opened; empty if there is nothing to say.
    """

    def __init__(self, database: Database, notice: str = "", now: Callable[[], float] = time.time) -> None:
        self.notice = notice
        self._database = database
        self._rows = database.rows
        self._now = now
        self._writers = Writers(database.file)
        self._answers = Answers(database, self._writers, now)
        self._arrivals = Arrivals(database, self._writers)
        self._reading = Reading(database, self._writers)
        self._search = Search(database)
        self._deleted = Deleted(database, now, self._arrivals.give_up_lost)
        self._outage: Outage | None = None

    @classmethod
    def open(cls, file: Path, now: Callable[[], float] = time.time) -> Store:
        """Open the file, making it if it is absent; answers that a crash cut are marked so.

        Raises:
            StoreError: It cannot be written, or is of a newer Tandem or another program.
        """
        store = cls(*open_file(file), now)
        # What cannot be marked now is shown all the same, and marked at the next start.
        with suppress(StoreError):
            store.recover()
        return store

    @classmethod
    def open_anyway(cls, file: Path) -> Store:
        """As `open`; of a file that cannot be written a copy in memory, with a notice why.

        `return_to_disk`, or at last `close`, writes what was said, if the disk takes it by then.
        """
        try:
            return cls.open(file)
        except StoreError as error:
            database, is_copy = open_copy(file)
            more = UNTIL_SAVED if is_copy or not regular_file.exists(file) else _FORGETS
            store = cls(database, f"{error.sentences} {more}")
            store._writers.stand_beside(file)
            store.recover()
            store._outage = Outage(database, file, had_file=is_copy)
            return store

    @classmethod
    def in_memory(cls, file: Path | None = None, now: Callable[[], float] = time.time) -> Store:
        """A store that forgets, with whatever can be read from a file that cannot be written."""
        database, _ = open_copy(file)
        store = cls(database, _FORGETS, now)
        if file is not None:
            store._writers.stand_beside(file)
            store.recover()
        return store

    @property
    def file(self) -> Path | None:
        """Where it is; None in memory."""
        return self._database.file

    @property
    def on_disk(self) -> bool:
        """Whether anything outlives this process."""
        return self._database.file is not None

    def go_on_in_memory(self) -> bool:
        """Keep changes in memory until `return_to_disk`, or at last `close`, can write them.

        Returns:
            Whether all conversations were copied and all ids and journals stay valid; False for a damaged file.
        """
        file = self._database.file
        if file is None:
            return True
        is_whole = move_into_memory(self._database)
        self._outage = Outage(self._database, file, had_file=is_whole)
        return is_whole

    def return_to_disk(self) -> bool:
        """Write the changes of an outage and use the disk again; every id and journal stays valid.

        Returns:
            Whether the store is on the disk again; False if there was no outage.

        Raises:
            StoreError: The disk still refuses.
        """
        if self._outage is None:
            return False
        # Other processes that find an unfinished answer in the file look for this sign.
        self._writers.sign()
        self.notice = self._outage.end()
        self._outage = None
        return True

    def close(self) -> None:
        """Write pending changes and close the file; unfinished answers count as cut. Idempotent.

        Raises:
            StoreError: The disk still refuses.
        """
        try:
            if not self._answers.close() and self.on_disk:
                # The copy in memory takes the changes that the file refused.
                self.go_on_in_memory()
                self._answers.close()
            if self._outage is not None and self._outage.has_changes:
                self._outage.end()
        except StoreError as error:
            raise StoreError(f"{error.message} The latest messages are lost.", error.hint) from error
        finally:
            self._outage = None
            self._writers.close()
            self._database.close()

    def summaries(self) -> tuple[Summary, ...]:
        """All that are not deleted: pinned ones first, then by when something was last said."""
        return self._reading.summaries()

    def load(self, conversation: int) -> Conversation:
        """All of one conversation, also a deleted one."""
        return self._reading.conversation(conversation)

    def standing(self, conversation: int) -> Mapping[int, State]:
        """How far every message of one conversation is; much less to read than the conversation."""
        return self._reading.standing(conversation)

    def holds(self, conversation: int) -> bool:
        """Whether it is there, also as a deleted one."""
        return bool(self._rows("SELECT 1 FROM conversations WHERE id = ?", (conversation,)))

    def lists(self, conversation: int) -> bool:
        """Whether it is there, and nobody has deleted it."""
        return bool(self._rows("SELECT 1 FROM conversations WHERE id = ? AND deleted IS NULL", (conversation,)))

    def create(self, settings: Document | None = None) -> int:
        """A new, empty conversation; returns its id."""
        now = self._now()
        with self._database.write() as db:
            row = db.execute(
                "INSERT INTO conversations(created, updated, settings) VALUES (?, ?, ?)", (now, now, dump(settings))
            )
        return int(row.lastrowid or 0)

    def rename(self, conversation: int, title: str) -> str:
        """Give it a title, or with an empty one the title that is made from what was said; returns it."""
        chosen = one_line(storable(title))
        made = "" if chosen else make_title(question_of(self.load(conversation).tree.opening))
        self._change(conversation, "title = ?, named = ?", chosen or made, bool(chosen))
        return chosen or made

    def call_after(self, conversation: int, prompt: str) -> None:
        """Make the title from another prompt, unless somebody chose one."""
        title = make_title(question_of(prompt))
        with self._database.write() as db:
            db.execute("UPDATE conversations SET title = ? WHERE id = ? AND NOT named", (title, conversation))

    def pin(self, conversation: int, pinned: bool) -> None:
        self._change(conversation, "pinned = ?", pinned)

    def delete(self, conversation: int) -> None:
        """Take it off the list and out of the search; `undelete` brings it back."""
        self._change(conversation, "deleted = ?", self._now())

    def undelete(self, conversation: int) -> None:
        self._deleted.bring_back(conversation)

    def deleted(self) -> tuple[int, ...]:
        """The conversations that `undelete` still brings back, the one that was deleted last at the end."""
        return self._deleted.numbers()

    def purge(self, older_than_s: float = UNDO_S) -> int:
        """Remove for good what was deleted longer ago than this; returns how many conversations."""
        return self._deleted.purge(older_than_s)

    def tidy(self) -> bool:
        """A short step of what there is to do when nobody waits; returns whether there is more.

        It removes for good what surely was deleted long ago, and what those who ended without a word have left.
        """
        if self._deleted.purge_some():
            return True
        self._writers.clear_away()
        return False

    def set_settings(self, conversation: int, settings: Document) -> None:
        self._change(conversation, "settings = ?", dump(settings))

    def set_draft(self, conversation: int, text: str, *, bring_back: bool = False) -> None:
        """Keep what was typed and not sent.

        Args:
            conversation: Where.
            text: All of it.
            bring_back: Whether a deleted conversation is to be in the list again: what is typed in one that another
                Tandem has deleted is not to vanish with it.
        """
        if bring_back:
            self._deleted.bring_back(conversation, "draft = ?", storable(text))
        else:
            self._change(conversation, "draft = ?", storable(text))

    def keep_unsent(self, text: str) -> None:
        """Keep what was typed and not sent where nothing was said yet; an empty one is forgotten."""
        with self._database.write() as db:
            self._writers.keep_unsent(db, storable(text), self._now())

    def set_aside(self, text: str, conversation: int | None = None) -> None:
        """Keep what was typed and gave way to something else, to be found among the prompts; the oldest go.

        Args:
            text: All of it.
            conversation: Where, and whose deletion it shares; None where nothing was said yet.
        """
        with self._database.write() as db:
            insert_aside(db, storable(text), self._now(), conversation)
            newest = "SELECT text FROM set_aside ORDER BY updated DESC LIMIT ?"
            db.execute(f"DELETE FROM set_aside WHERE text NOT IN ({newest})", (_MOST_SET_ASIDE,))

    def take_unsent(self) -> str:
        """What was kept so by a Tandem that no longer runs, from now on this one's; empty if nothing was."""
        if not self._rows("SELECT 1 FROM unsent LIMIT 1"):
            return ""
        with self._database.write() as db:
            return self._writers.take_unsent(db, self._now())

    def left_typed(self) -> str:
        """The title of what was last said something in, where something was typed there and not sent; else ""."""
        return self._reading.left_typed()

    def add(
        self,
        conversation: int,
        role: Role,
        text: str,
        reasoning: str = "",
        *,
        parent: int | None,
        state: State = State.COMPLETE,
    ) -> Node:
        """Put a message under another one and make it the active leaf; under the parent of an older one, a branch."""
        node = Node(0, parent, role, storable(text), storable(reasoning), state, self._now())
        with self._database.write(durable=True) as db:
            return insert_node(db, conversation, node)

    def switch(self, conversation: int, leaf: int) -> None:
        """Make the branch that ends with this message the active one."""
        known = self._rows("SELECT 1 FROM messages WHERE id = ? AND conversation = ?", (leaf, conversation))
        if not known:
            raise gone()
        self._change(conversation, "leaf = ?", leaf)

    def answer(
        self,
        conversation: int,
        parent: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        models: Document | None = None,
    ) -> Journal:
        """Begin an answer to a message; it is the active leaf from here on.

        Args:
            conversation: Id of the conversation.
            parent: Id of the message.
            clock: Seconds, monotonic.
            models: Names of the models by role; also kept with an answer that a crash cuts.
        """
        return self._answers.begin(conversation, parent, clock, models or {})

    def resume(self, message: int, clock: Callable[[], float] = time.monotonic) -> Journal:
        """Begin to continue an answer that was stopped or cut."""
        return self._answers.resume(message, clock)

    def stats(self, message: int) -> Document:
        """The numbers of an answer; empty if there are none."""
        return self._reading.stats(message)

    def set_stats(self, message: int, stats: Document) -> None:
        """Put something in the place of the numbers of a message: of a prompt, why nothing came of it."""
        with self._database.write() as db:
            db.execute("UPDATE messages SET stats = ? WHERE id = ?", (dump(stats), message))
            # That a conversation has changed is told by its row.
            of_it = "id = (SELECT conversation FROM messages WHERE id = ?)"
            db.execute(f"UPDATE conversations SET updated = ? WHERE {of_it}", (self._now(), message))

    def search(self, query: str, limit: int = 50) -> tuple[Hit, ...]:
        """Conversations that hold every word of the query; cheap enough for every key."""
        return self._search.conversations(query, limit)

    def find(self, conversation: int, query: str, limit: int = 1000) -> tuple[Hit, ...]:
        """Messages of one conversation that hold every word of the query."""
        return self._search.messages(conversation, query, limit)

    def typed(self, limit: int) -> tuple[Typed, ...]:
        """What the user said, and set aside, in all conversations that are not deleted, newest first."""
        return self._reading.typed(limit)

    def transcript(self, conversation: int) -> Transcript:
        """A conversation with everything that an export needs."""
        return self._reading.transcript(conversation)

    def turn_to_import(self, waits: Callable[[], object]) -> AbstractContextManager[None]:
        """What other imports bring is there when this block begins, or comes after its end.

        Args:
            waits: Called where another one goes on; it is waited for, however long it takes.
        """
        return self._arrivals.turn(waits)

    def known(self, transcripts: Sequence[Transcript], now: float) -> tuple[Known, ...]:
        """What of these, which were read at that time, is there already; see `app.conversations.known`."""
        return find_known(self._database, transcripts, now)

    def insert(
        self, transcripts: Sequence[Transcript], told: Callable[[float], None] = lambda share: None
    ) -> tuple[int, ...]:
        """Put conversations in as new ones, all or none; returns their ids. `told` hears how far that is, of 1."""
        return self._arrivals.bring(transcripts, told)

    def recover(self) -> int:
        """Mark as cut what a Tandem that no longer runs was writing; returns how many answers."""
        return self._writers.recover(self._database)

    def _change(self, conversation: int, what: str, *values: object) -> None:
        with self._database.write() as db:
            change(db, f"UPDATE conversations SET {what} WHERE id = ?", *values, conversation)
