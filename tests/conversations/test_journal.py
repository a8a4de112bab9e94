"""Answers during writing, and their remains after Tandem is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.conversations.journal import ON_DISK_S, Journal
from app.conversations.message import Ending, Role
from app.conversations.store import Store
from app.conversations.tree import Node, State, Tree
from app.core.errors import StoreError
from tests.conversations.stores import Clock, kill


class Talk:
    """A store with a prompt."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.clock = Clock(0.0)
        self.store = Store(file, clock=self.clock)
        self.conversation = self.store.create()
        self.asked = self.store.add(self.conversation, Role.USER, "Count.", parent=None)

    def answer(self) -> Journal:
        return self.store.answer(self.conversation, self.asked.id)

    def on_disk(self) -> list[tuple[str, str]]:
        """The texts and the reasoning of unfinished answers on disk."""
        return list(self.store.database.rows("SELECT text, reasoning FROM messages WHERE state = 'writing'"))

    def last(self) -> Node:
        return self.store.load(self.conversation).tree.path[-1]

    def after_kill(self) -> Tree:
        """Kill Tandem; return what the next start and the start after it show."""
        kill(self.store)
        self.store = Store(self.file)
        tree = self.store.load(self.conversation).tree
        self.store.close()
        self.store = Store(self.file)
        assert self.store.load(self.conversation).tree == tree
        return tree


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path / "conversations.db")
    yield talk
    talk.store.close()


def test_text_is_written_within_a_second(talk: Talk) -> None:
    journal = talk.answer()
    journal.add("one ")
    talk.clock.now = ON_DISK_S / 2
    journal.add("two ")
    journal.save_due(0.2)
    assert talk.on_disk() == [("", "")]

    talk.clock.now = ON_DISK_S - 0.1
    journal.save_due(0.2)
    assert talk.on_disk() == [("one two ", "")]
    journal.add("three")
    journal.save_due(ON_DISK_S)
    assert talk.on_disk() == [("one two three", "")]


def test_finish_stores_the_whole_answer(talk: Talk) -> None:
    journal = talk.answer()
    journal.add("Hm", reasoning=True)
    journal.add(", well", reasoning=True)
    journal.add("one")
    journal.flush()
    assert talk.on_disk() == [("one", "Hm, well")]
    assert talk.last() == journal.node
    journal.add(" two")
    done = journal.finish(State.STOPPED, stats={"acceptance": 0.5})

    assert (done.text, done.reasoning, done.state) == ("one two", "Hm, well", State.STOPPED)
    assert (talk.last(), done.stats, journal.ended) == (done, {"acceptance": 0.5}, True)


def test_a_stopped_answer_is_continued_with_its_reasoning(talk: Talk) -> None:
    node = talk.answer().finish(State.STOPPED, text="one ", reasoning="Hm", stats={"n": 1})
    more = talk.store.resume(node.id)
    assert more.is_empty
    more.add("two")
    more.flush()
    assert talk.on_disk() == [("one two", "Hm")]
    done = more.finish(State.COMPLETE)
    assert (done.text, done.reasoning, done.state, done.stats) == ("one two", "Hm", State.COMPLETE, {"n": 1})
    assert (done.id, talk.last()) == (node.id, done)


def test_an_empty_answer_or_continuation_is_discarded(talk: Talk) -> None:
    done = talk.answer().finish(State.CUT, text="one", stats={"n": 1})
    before = talk.store.load(talk.conversation).tree
    again = talk.answer()
    assert talk.store.load(talk.conversation).tree.leaf == again.node.id
    again.discard()
    assert talk.store.load(talk.conversation).tree == before

    talk.store.resume(done.id).discard()
    assert talk.last() == done
    assert talk.last().stats == {"n": 1}


def test_an_answer_whose_conversation_was_removed_is_an_error(talk: Talk) -> None:
    journal = talk.answer()
    talk.store.database.connection.execute("DELETE FROM conversations")
    journal.finish(State.COMPLETE)
    assert journal.error is not None
    assert "no longer exists" in journal.error.message
    assert journal.ended


def test_a_running_answer_of_another_tandem_cannot_be_continued(talk: Talk) -> None:
    journal = talk.answer()
    journal.add("one ")
    journal.flush()
    other = Store(talk.file)
    seen = other.load(talk.conversation).tree.path[-1]
    assert (seen.text, seen.state) == ("one ", State.WRITING)
    with pytest.raises(StoreError, match="being written"):
        other.resume(seen.id)

    journal.add("two")
    talk.store.close()
    found = other.load(talk.conversation).tree.path[-1]
    assert (found.text, found.state) == ("one two", State.CUT)
    other.close()
    assert [path.name for path in talk.file.parent.iterdir()] == ["conversations.db"]


def test_refused_text_is_written_later(talk: Talk) -> None:
    journal = talk.answer()
    talk.store.database.connection.execute("PRAGMA query_only = ON")
    journal.add("one ")
    talk.clock.now += ON_DISK_S
    journal.save_due(0.2)
    assert journal.error is not None
    assert "cannot be written" in journal.error.message

    talk.store.database.connection.execute("PRAGMA query_only = OFF")
    journal.add("two")
    journal.save_due(0.2)
    assert talk.on_disk() == [("", "")]
    talk.clock.now += ON_DISK_S
    journal.save_due(0.2)
    assert journal.error is None
    assert talk.on_disk() == [("one two", "")]


@pytest.mark.parametrize("reasoning", [True, False])
def test_after_a_kill_an_answer_is_cut(talk: Talk, reasoning: bool) -> None:
    journal = talk.answer()
    journal.add("hm", reasoning=reasoning)
    journal.flush()
    last = talk.after_kill().path[-1]
    assert (last.reasoning, last.text, last.state) == (*(("hm", "") if reasoning else ("", "hm")), State.CUT)


def test_after_a_kill_a_continued_answer_is_cut_where_it_was(talk: Talk) -> None:
    node = talk.answer().finish(State.STOPPED, text="half")
    talk.store.resume(node.id)
    last = talk.after_kill().path[-1]
    assert (last.text, last.state) == ("half", State.CUT)


def test_after_a_kill_a_prompt_without_answer_shows_why(talk: Talk) -> None:
    talk.answer()
    (asked,) = talk.after_kill().path
    assert asked.ending.failure is not None
    assert asked.ending.failure.message == "Tandem ended before the answer began."


def test_after_a_kill_an_empty_answer_is_replaced_by_the_earlier_one(talk: Talk) -> None:
    talk.answer().finish(State.COMPLETE, text="first")
    talk.answer()
    tree = talk.after_kill()
    assert [node.text for node in tree.path] == ["Count.", "first"]
    assert all(node.ending == Ending() for node in tree.path)


def test_prompts_and_ended_answers_survive_a_power_cut(talk: Talk) -> None:
    """The commit waits for the disk; the text of a running answer and titles do not."""
    done: list[str] = []
    talk.store.database.connection.set_trace_callback(done.append)

    def levels() -> list[str]:
        level, found = "", []
        for statement in done:
            if statement.startswith("PRAGMA synchronous ="):
                level = statement.rpartition(" ")[2]
            elif statement == "COMMIT":
                found.append(level)
        done.clear()
        return found

    talk.store.add(talk.conversation, Role.USER, "Why?", parent=None)
    assert levels() == ["FULL"]
    journal = talk.answer()
    journal.add("Because")
    journal.flush()
    assert levels() == ["NORMAL"] * 2
    journal.finish(State.COMPLETE)
    assert levels() == ["FULL"]
    talk.store.insert([talk.store.load(talk.conversation)])
    assert levels() == ["FULL"]
    talk.store.rename(talk.conversation, "Light")
    assert levels() == ["NORMAL"]
