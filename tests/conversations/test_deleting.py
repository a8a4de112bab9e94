"""What is deleted can be brought back for a day, whatever the clock says, and then goes for good."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.deleting import Deleted
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import Clock, exchange


def test_whether_a_conversation_is_there(store: Store) -> None:
    conversation, *_ = exchange(store, "Hi", "Hello")
    store.delete(conversation)
    assert store.holds(conversation)
    store.purge(-1)
    assert not store.holds(conversation)


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


def test_what_was_set_aside_in_a_conversation_shares_its_deletion(store: Store) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    store.set_aside("secret thought", conversation)
    store.set_aside("of none")
    store.delete(conversation)
    assert [one.text for one in store.typed(9)] == ["of none"]
    store.undelete(conversation)
    assert {one.text for one in store.typed(9)} == {"of none", "secret thought", "secret"}

    store.delete(conversation)
    store.purge(-1)
    assert store._database.rows("SELECT text FROM set_aside") == [("of none",)]
    # Typed in a window that still shows it.
    store.set_aside("later thought", conversation)
    assert {one.text for one in store.typed(9)} == {"of none", "later thought"}


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
