"""Conversations on disk: what goes in comes back, and what goes wrong is a sentence."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.chat import schema
from app.chat.deleting import Deleted
from app.chat.message import Role
from app.chat.schema import MIGRATIONS, migrate, version_of
from app.chat.store import Store
from app.chat.tree import State
from app.errors import StoreError
from tests.unit.stores import Clock, exchange


def test_a_conversation_comes_back_as_it_was(store: Store, file: Path) -> None:
    conversation = store.create({"system": "Be brief.", "sampling": {"temperature": 0.5}})
    asked = store.add(conversation, Role.USER, "Why is the sky blue?", parent=None)
    store.add(conversation, Role.ASSISTANT, "Rayleigh.\0\ud800", parent=asked.id)
    store.set_draft(conversation, "and at n")
    before = store.load(conversation)
    store.close()
    again = Store.open(file)

    assert again.load(conversation) == before
    assert [node.text for node in before.tree.path] == ["Why is the sky blue?", "Rayleigh.\0?"]
    assert before.settings == {"system": "Be brief.", "sampling": {"temperature": 0.5}}
    assert (before.draft, before.summary.title) == ("and at n", "Why is the sky blue?")
    again.close()


def test_the_list_has_pinned_ones_first_then_the_last_talked_about(store: Store, clock: Clock) -> None:
    numbers = []
    for name in ("a", "b", "c"):
        clock.now += 1
        numbers.append(exchange(store, name, "answer")[0])
    store.pin(numbers[0], True)
    clock.now += 1
    store.add(numbers[1], Role.USER, "more", parent=None)

    assert [summary.title for summary in store.summaries()] == ["a", "b", "c"]
    assert [summary.pinned for summary in store.summaries()] == [True, False, False]


def test_an_edit_and_a_new_answer_are_branches_and_the_old_ones_stay(store: Store) -> None:
    conversation, asked, answered = exchange(store, "first", "one")
    edited = store.add(conversation, asked.role, "first, edited", parent=asked.parent)
    tree = store.load(conversation).tree

    assert [node.text for node in tree.path] == ["first, edited"]
    assert [node.id for node in tree.siblings(edited.id)] == [asked.id, edited.id]
    assert store.load(conversation).summary.title == "first"

    store.switch(conversation, tree.switched(asked.id).leaf or 0)
    assert store.load(conversation).tree.path == (asked, answered)


def test_an_edited_answer_stands_beside_the_old_one_and_can_go_on_like_it(store: Store) -> None:
    conversation, asked, answer = exchange(store, "Count.", "one, two")
    edited = store.add(conversation, Role.ASSISTANT, "one", parent=asked.id, state=State.CUT)
    tree = store.load(conversation).tree
    assert tree.path == (asked, edited)
    assert tree.siblings(edited.id) == (answer, edited)
    more = store.resume(edited.id)
    more.add(" and two")
    assert more.finish(State.COMPLETE).text == "one and two"


def test_whether_a_conversation_is_there(store: Store) -> None:
    conversation, *_ = exchange(store, "Hi", "Hello")
    store.delete(conversation)
    assert store.holds(conversation)
    store.purge(-1)
    assert not store.holds(conversation)


def test_a_title_that_was_given_stays_until_it_is_taken_back(store: Store) -> None:
    conversation = store.create()
    assert store.rename(conversation, " My\n\x1btitle ") == "My title"
    store.add(conversation, Role.USER, "Something else", parent=None)
    assert store.load(conversation).summary.title == "My title"
    assert store.load(conversation).summary.named

    assert store.rename(conversation, "  ") == "Something else"
    assert not store.load(conversation).summary.named


def test_a_deleted_conversation_can_be_brought_back_until_it_is_purged(store: Store, clock: Clock) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    kept, *_ = exchange(store, "other", "plan")
    store.delete(conversation)
    assert [summary.id for summary in store.summaries()] == [kept]
    assert [hit.conversation for hit in store.search("plan")] == [kept]
    assert store.purge() == 0

    store.undelete(conversation)
    assert len(store.summaries()) == 2
    store.delete(conversation)
    clock.now += 25 * 3600
    assert store.purge() == 1
    with pytest.raises(StoreError, match="no longer there"):
        store.load(conversation)
    assert store._database.rows("SELECT count(*) FROM messages") == [(2,)]


def test_a_long_conversation_can_be_purged(store: Store) -> None:
    conversation = store.create()
    parent = None
    for _ in range(1200):
        parent = store.add(conversation, Role.USER, "x", parent=parent).id
    store.delete(conversation)

    assert store.purge(0) == 1


def a_day_later(file: Path, clock: Clock) -> None:
    """Start Tandem then, and say something."""
    clock.now += 25 * 3600
    said_in_another_start(file, clock, "later")


def two_days_later(file: Path, clock: Clock) -> None:
    """As `a_day_later`, twice; the first day is found to be over."""
    a_day_later(file, clock)
    with closing(Store.open(file, now=clock)) as later:
        assert not later.tidy()
    a_day_later(file, clock)


def said_in_another_start(file: Path, clock: Clock, prompt: str) -> None:
    with closing(Store.open(file, now=clock)) as another:
        exchange(another, prompt, "on")


def test_half_a_conversation_does_not_come_back(store: Store, file: Path, clock: Clock) -> None:
    conversation, _, last = exchange(store, "secret", "plan")
    for _ in range(80):
        last = store.add(conversation, Role.USER, "secret", parent=last.id)
    store.delete(conversation)
    two_days_later(file, clock)
    other = Store.open(file, now=clock)
    assert other.tidy()
    other.close()

    with pytest.raises(StoreError, match="no longer there"):
        store.set_draft(conversation, "typed", bring_back=True)
    with pytest.raises(StoreError, match="no longer there"):
        store.add(conversation, Role.USER, "said", parent=last.id)
    with pytest.raises(StoreError, match="no longer there"):
        store.resume(last.id)
    with pytest.raises(StoreError, match="no longer there"):
        store.undelete(conversation)
    assert [summary.title for summary in store.summaries()] == ["later", "later"]


def test_a_clock_that_was_set_takes_no_conversation(store: Store, file: Path, clock: Clock) -> None:
    conversation, _, last = exchange(store, "secret", "plan")
    store.delete(conversation)
    clock.now += 9e8
    exchange(store, "said", "since")

    assert not store.tidy(), "a store that is open for a moment knows of no day"
    assert store.deleted() == (conversation,)
    store.undelete(conversation)
    store.delete(conversation)
    store.resume(last.id).discard()
    store.delete(conversation)
    clock.now += 9e8
    with closing(Store.open(file, now=clock)) as later:
        assert not later.tidy(), "nothing was said since"
        later.undelete(conversation)
        later.delete(conversation)
    clock.now -= 18e8
    with closing(Store.open(file, now=clock)) as earlier:
        assert not earlier.tidy()
        assert earlier.deleted() == (conversation,)


@pytest.mark.parametrize("brought_back", [False, True])
@pytest.mark.parametrize("jump", [2 * 86400.0, 9e8])
def test_a_clock_that_is_set_between_two_starts_leaves_a_day_for_second_thoughts(
    store: Store, file: Path, clock: Clock, jump: float, brought_back: bool
) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    store.delete(conversation)
    if brought_back:
        # That it had been a day old by then counts for nothing.
        a_day_later(file, clock)
        with closing(Store.open(file, now=clock)) as later:
            assert not later.tidy()
            later.undelete(conversation)
            later.delete(conversation)
    clock.now += jump
    said_in_another_start(file, clock, "by a wrong clock")

    for hours in (0, 1, 22):
        clock.now += hours * 3600
        said_in_another_start(file, clock, "more")
        with closing(Store.open(file, now=clock)) as later:
            assert not later.tidy()
            assert later.deleted() == (conversation,)
    clock.now += 2 * 3600
    said_in_another_start(file, clock, "the day is over")
    with closing(Store.open(file, now=clock)) as later:
        assert not later.tidy()
        assert not later.holds(conversation)


def test_a_day_that_a_wrong_clock_has_begun_begins_anew(store: Store, file: Path, clock: Clock) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    store.delete(conversation)
    clock.now += 9e8
    said_in_another_start(file, clock, "by a wrong clock")
    for clock.now in (9e8, 2 * 86400.0):
        with closing(Store.open(file, now=clock)) as later:
            assert not later.tidy()
            assert later.deleted() == (conversation,)
    clock.now += 86400

    with closing(Store.open(file, now=clock)) as later:
        assert not later.tidy()
        assert not later.holds(conversation), "what was noted 28 years from now was noted by a wrong clock"


def test_a_store_that_is_open_for_days_lets_go_of_what_was_deleted_then(store: Store, clock: Clock) -> None:
    opened = Deleted(store._database, clock, lambda: None, clock=clock)
    conversation, *_ = exchange(store, "secret", "plan")
    store.delete(conversation)
    clock.now += 25 * 3600
    assert not opened.purge_some()
    assert opened.numbers() == (conversation,)
    exchange(store, "later", "on")

    assert not opened.purge_some()
    clock.now += 25 * 3600
    assert not opened.purge_some()
    assert opened.numbers() == (conversation,), "nothing was said since"
    exchange(store, "later", "still")
    assert not opened.purge_some()
    assert (opened.numbers(), store.holds(conversation)) == ((), False)


def test_what_is_removed_for_good_goes_bit_by_bit(store: Store, file: Path, clock: Clock) -> None:
    conversation, _, last = exchange(store, "secret", "plan")
    for _ in range(80):
        last = store.add(conversation, Role.USER, "secret", parent=last.id)
    store.delete(conversation)
    two_days_later(file, clock)
    other, store = store, Store.open(file, now=clock)
    left = []
    while store.tidy():
        # Nobody else has to wait for all of it.
        other.create()
        left.append(store._database.rows("SELECT count(*) FROM messages")[0][0])

    assert left == [54, 22]
    assert not store.holds(conversation)
    assert (store.deleted(), store.search("secret")) == ((), ())
    assert store._database.rows("PRAGMA integrity_check") == [("ok",)]
    store.close()


def test_a_message_goes_under_one_of_its_own_conversation_only(store: Store) -> None:
    first, asked, _ = exchange(store, "a", "b")
    second = store.create()

    with pytest.raises(StoreError, match="no longer there"):
        store.add(second, Role.USER, "c", parent=asked.id)
    with pytest.raises(StoreError):
        store.add(99, Role.USER, "c", parent=None)
    with pytest.raises(StoreError):
        store.switch(second, asked.id)
    assert store.load(second).tree.nodes == {}
    assert len(store.load(first).tree.nodes) == 2


def test_two_stores_see_each_other(store: Store, file: Path) -> None:
    other = Store.open(file)
    conversation, asked, _ = exchange(store, "hello", "world")
    answer = other.add(conversation, Role.ASSISTANT, "again", parent=asked.id)

    assert store.load(conversation).tree.leaf == answer.id
    other.close()


def test_a_writer_that_holds_the_file_too_long_is_named(store: Store, file: Path) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    journal = store.answer(conversation, asked.id)
    store._database.connection.execute("PRAGMA busy_timeout = 1")
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="Another Tandem"):
            store.create()
        journal.add("a piece")
        journal.flush()
        assert journal.trouble is None
        other.execute("ROLLBACK")
    other.close()
    journal.flush()
    assert store._database.rows("SELECT text FROM journal") == [("a piece",)]


def test_a_damaged_file_is_moved_aside_and_said(file: Path) -> None:
    file.parent.mkdir()
    for name in ("first", "second"):
        file.write_bytes(f"{name}, not a database".encode() * 500)
        store = Store.open(file)
        assert "were damaged" in store.notice
        assert store.summaries() == ()
        store.close()

    kept = sorted(file.parent.glob("*-damaged-*"))
    assert [path.read_bytes()[:6] for path in kept] == [b"second", b"first,"]


def test_damage_found_while_reading_is_checked_at_the_next_start(store: Store, file: Path) -> None:
    conversation = store.create()
    parent = None
    for n in range(300):
        parent = store.add(conversation, Role.USER, f"{n} " + "words " * 100, parent=parent).id
    store.close()
    data = bytearray(file.read_bytes())
    for page in range(12, len(data) // 4096):
        data[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    file.write_bytes(data)

    broken = Store.open(file)
    with pytest.raises(StoreError, match="damaged") as caught:
        broken.load(conversation)
    assert "Start Tandem again" in caught.value.hint
    broken.close()

    fresh = Store.open(file)
    assert "were damaged" in fresh.notice
    [aside] = file.parent.glob("conversations-damaged-*.db")
    assert aside.read_bytes() == data
    fresh.close()
    assert Store.open(file).notice == ""


def test_a_newer_file_is_refused_and_left_alone(store: Store, file: Path) -> None:
    exchange(store, "a", "b")
    store._database.connection.execute("PRAGMA user_version = 99")
    store.close()
    before = file.read_bytes()

    with pytest.raises(StoreError, match="newer Tandem"):
        Store.open(file)
    copy = Store.in_memory(file)
    assert copy.summaries() == ()
    copy.close()
    assert file.read_bytes() == before


def test_a_database_of_another_program_is_refused(file: Path) -> None:
    file.parent.mkdir()
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE theirs(x)")
    other.close()

    with pytest.raises(StoreError, match="another program"):
        Store.open(file)


def test_a_migration_is_done_whole_or_not_at_all(store: Store, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, *_ = exchange(store, "a", "b")
    store.close()
    wrong = ("ALTER TABLE messages ADD COLUMN note TEXT", "this is not SQL")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, wrong))
    with pytest.raises(StoreError):
        Store.open(file)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:1], wrong[:1]))
    again = Store.open(file)

    assert again.load(conversation).summary.title == "a"
    assert again._database.rows("SELECT note FROM messages LIMIT 1") == [(None,)]
    assert again._database.rows("PRAGMA user_version") == [(2,)]
    again.close()


@pytest.mark.parametrize("goes_on", ["asks", "continues"])
def test_a_conversation_that_is_gone_on_with_is_not_deleted(store: Store, file: Path, goes_on: str) -> None:
    conversation, _, answer = exchange(store, "a", "b")
    stopped = store.answer(conversation, answer.id).finish(State.STOPPED, text="half")
    other = Store.open(file)
    other.delete(conversation)
    assert store.summaries() == ()
    if goes_on == "asks":
        store.add(conversation, Role.USER, "c", parent=stopped.id)
    else:
        store.resume(stopped.id).finish(State.COMPLETE)
    assert [each.id for each in other.summaries()] == [conversation]
    other.close()


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    store = Store.in_memory(tmp_path / "conversations.db")
    conversation, asked, _ = exchange(store, "a", "b")
    store.answer(conversation, asked.id).finish(State.COMPLETE, text="c", stats={"n": 1})

    assert store.notice
    assert [hit.conversation for hit in store.search("a")] == [conversation]
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a matter of POSIX modes")
def test_nobody_else_can_read_it(store: Store, file: Path) -> None:
    exchange(store, "a", "b")

    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


def test_a_file_that_another_process_makes_just_now_is_ours(tmp_path: Path) -> None:
    class Interrupted(sqlite3.Connection):
        """Lets another one make the tables between two looks."""

        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *parameters)
            if sql == "PRAGMA application_id":
                migrate(other)
            return found

    file = tmp_path / "conversations.db"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    looking = sqlite3.connect(file, isolation_level=None, factory=Interrupted)

    assert version_of(looking) == 0
    assert version_of(other) == len(MIGRATIONS)
    looking.close()
    other.close()


def test_several_processes_may_make_the_file_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from app.chat.store import Store; from app.chat.message import Role\n"
        "store = Store.open(Path(sys.argv[1]))\n"
        "for n in range(20): store.add(store.create(), Role.USER, f'{sys.argv[2]} {n}', parent=None)\n"
    )
    file = tmp_path / "conversations.db"
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), name]) for name in ("a", "b", "c")]

    assert [process.wait() for process in running] == [0, 0, 0]
    store = Store.open(file)
    assert len(store.summaries()) == 60
    assert store.notice == ""
    store.close()


def test_of_what_was_set_aside_the_newest_is_kept_and_each_once() -> None:
    store = Store.in_memory(now=map(float, count()).__next__)
    for n in [*range(150), 120]:
        store.set_aside(f"thought {n}")
    texts = [one.text for one in store.typed(1000)]
    assert texts == [f"thought {n}" for n in (120, *(n for n in range(149, 49, -1) if n != 120))]
