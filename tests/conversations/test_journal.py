"""Answers on their way to the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversations.journal import WAIT_S, Journal
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, State
from app.core.errors import StoreError
from tests.conversations.stores import Clock


class Talk:
    """A store with one prompt."""

    def __init__(self, file: Path) -> None:
        self.clock = Clock(0.0)
        self.store = Store.open(file)
        self.conversation = self.store.create()
        self.asked = self.store.add(self.conversation, Role.USER, "Count.", parent=None)

    def answer(self) -> Journal:
        return self.store.answer(self.conversation, self.asked.id, self.clock)

    def pieces(self) -> list[tuple[str, int]]:
        return list(self.store._database.rows("SELECT text, reasoning FROM journal ORDER BY message, seq"))

    def last(self) -> Node:
        return self.store.load(self.conversation).tree.path[-1]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path / "conversations.db")
    yield talk
    talk.store.close()


def test_pieces_are_written_once_they_have_waited(talk: Talk) -> None:
    journal = talk.answer()
    journal.add("one ")
    talk.clock.now = WAIT_S / 2
    journal.add("two ")
    journal.tick()
    assert talk.pieces() == []

    talk.clock.now = WAIT_S
    journal.tick()
    assert talk.pieces() == [("one two ", 0)]
    journal.add("three")
    journal.tick()
    assert len(talk.pieces()) == 1
    talk.clock.now += WAIT_S
    journal.tick()
    assert talk.pieces() == [("one two ", 0), ("three", 0)]


def test_the_end_makes_one_message_of_it(talk: Talk) -> None:
    journal = talk.answer()
    journal.add("Hm", reasoning=True)
    journal.add(", well", reasoning=True)
    journal.add("one")
    journal.flush()
    assert talk.pieces() == [("Hm, well", 1), ("one", 0)]
    assert talk.last() == journal.node
    assert journal.node.state is State.WRITING
    journal.add(" two")
    done = journal.finish(State.STOPPED, stats={"acceptance": 0.5})

    assert (done.text, done.reasoning, done.state) == ("one two", "Hm, well", State.STOPPED)
    assert talk.last() == done
    assert talk.pieces() == []
    assert talk.store.stats(done.id) == {"acceptance": 0.5}
    assert journal.ended


def test_a_stopped_answer_is_continued_where_it_was(talk: Talk) -> None:
    first = talk.answer()
    first.add("one ")
    node = first.finish(State.STOPPED, stats={"n": 1})
    more = talk.store.resume(node.id, talk.clock)
    assert (first.continues, more.continues, more.is_empty) == (False, True, True)
    assert talk.last().state is State.WRITING
    more.add("two")
    more.flush()
    assert not more.is_empty
    assert talk.last().text == "one two"
    done = more.finish(State.COMPLETE)

    assert (done.id, done.text, done.state) == (node.id, "one two", State.COMPLETE)
    assert talk.last() == done
    assert talk.store.stats(done.id) == {"n": 1}


def test_an_answer_of_which_nothing_came_leaves_no_trace(talk: Talk) -> None:
    done = talk.answer().finish(State.COMPLETE, text="one")
    before = talk.store.load(talk.conversation).tree
    again = talk.answer()
    assert talk.store.load(talk.conversation).tree.leaf == again.node.id

    assert again.discard() == done.id
    assert talk.store.load(talk.conversation).tree == before


def test_a_continuation_of_which_nothing_came_leaves_the_answer_as_it_was(talk: Talk) -> None:
    node = talk.answer().finish(State.CUT, text="one", stats={"n": 1})
    more = talk.store.resume(node.id)
    assert more.discard() == node.id

    assert talk.last() == node
    assert talk.store.stats(node.id) == {"n": 1}


def test_one_answer_is_written_once_at_a_time(talk: Talk) -> None:
    journal = talk.answer()

    with pytest.raises(StoreError, match="being written"):
        talk.store.resume(journal.node.id)


def test_another_tandem_leaves_a_living_answer_alone_and_folds_a_dead_one(talk: Talk, tmp_path: Path) -> None:
    journal = talk.answer()
    journal.add("one ")
    journal.flush()
    other = Store.open(tmp_path / "conversations.db")
    seen = other.load(talk.conversation).tree.path[-1]
    assert (seen.text, seen.state) == ("one ", State.WRITING)
    with pytest.raises(StoreError, match="being written"):
        other.resume(seen.id)

    journal.add("two")
    talk.store.close()
    found = other.load(talk.conversation).tree.path[-1]
    assert (found.text, found.state) == ("one two", State.CUT)
    assert other._database.rows("SELECT * FROM journal") == []
    done = other.resume(found.id)
    done.add(" three")
    assert done.finish(State.COMPLETE).text == "one two three"
    other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["conversations.db"]


def test_the_sign_of_one_that_was_killed_while_it_wrote_nothing_goes_after_a_day(talk: Talk, tmp_path: Path) -> None:
    talk.answer().finish(State.COMPLETE, text="two")
    [mine] = tmp_path.glob("*-writer-*")
    old, new = (tmp_path / f"conversations.db-writer-{name}" for name in ("old", "new"))
    for sign in (old, new):
        sign.touch()
    for sign in (old, mine):
        os.utime(sign, (0, 0))
    assert not talk.store.tidy()

    assert set(tmp_path.glob("*-writer-*")) == {mine, new}


def test_a_dead_answer_is_shown_as_cut_even_where_it_cannot_be_marked(talk: Talk, tmp_path: Path) -> None:
    journal = talk.answer()
    journal.add("one")
    talk.store.close()
    other = Store.open(tmp_path / "conversations.db")
    other._database.connection.execute(
        "UPDATE messages SET state = 'writing', writer = 'dead' WHERE role = 'assistant'"
    )
    other._database.connection.execute("PRAGMA query_only = ON")
    found = other.load(talk.conversation).tree.path[-1]

    assert (found.text, found.state) == ("one", State.CUT)
    other.close()


def test_a_disk_that_refuses_is_tried_again(talk: Talk) -> None:
    journal = talk.answer()
    talk.store._database.connection.execute("PRAGMA query_only = ON")
    journal.add("one ")
    talk.clock.now += WAIT_S
    journal.tick()
    assert journal.trouble is not None
    assert "cannot be written" in journal.trouble.message

    talk.store._database.connection.execute("PRAGMA query_only = OFF")
    journal.add("two")
    journal.tick()
    assert talk.pieces() == []
    talk.clock.now += WAIT_S
    journal.tick()
    assert journal.trouble is None
    assert talk.pieces() == [("one two", 0)]


def test_an_answer_whose_conversation_was_removed_says_so(talk: Talk) -> None:
    journal = talk.answer()
    talk.store.delete(talk.conversation)
    talk.store.purge(-1)
    journal.add("one")
    journal.flush()

    assert journal.trouble is not None
    with pytest.raises(StoreError, match="no longer there"):
        journal.finish(State.COMPLETE)
