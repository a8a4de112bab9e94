"""Conversations on disk."""

from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from tests.conversations.stores import Clock, exchange


def test_a_conversation_is_read_as_it_was_written(store: Store, file: Path) -> None:
    conversation = store.create({"system": "Be brief.", "sampling": {"temperature": 0.5}})
    asked = store.add(conversation, Role.USER, "Why is the sky blue?", parent=None)
    store.add(conversation, Role.ASSISTANT, "Rayleigh.\0\ud800", parent=asked.id)
    store.set_unsent_text(conversation, "and at n")
    before = store.load(conversation)
    store.close()
    again = Store(file)

    assert again.load(conversation) == before
    assert [node.text for node in before.tree.path] == ["Why is the sky blue?", "Rayleigh.\0?"]
    assert before.settings == {"system": "Be brief.", "sampling": {"temperature": 0.5}}
    assert (before.unsent_text, before.summary.title) == ("and at n", "Why is the sky blue?")
    again.close()


def test_the_list_is_sorted_by_pin_and_last_message(store: Store, clock: Clock) -> None:
    numbers = []
    for name in ("a", "b", "c"):
        clock.now += 1
        numbers.append(exchange(store, name, "answer")[0])
    store.pin(numbers[0], True)
    clock.now += 1
    store.add(numbers[1], Role.USER, "more", parent=None)

    assert [summary.title for summary in store.summaries()] == ["a", "b", "c"]
    assert [summary.pinned for summary in store.summaries()] == [True, False, False]


def test_a_chosen_title_stays_until_it_is_cleared(store: Store) -> None:
    conversation = store.create()
    assert store.rename(conversation, " My\n\x1btitle ") == "My title"
    store.add(conversation, Role.USER, "Something else", parent=None)
    assert store.load(conversation).summary.title == "My title"
    assert store.load(conversation).summary.named

    assert store.rename(conversation, "  ") == "Something else"
    assert not store.load(conversation).summary.named


def test_a_conversation_that_is_not_there_is_an_error(store: Store) -> None:
    for use in (
        lambda: store.add(99, Role.USER, "c", parent=None),
        lambda: store.switch(99, 1),
        lambda: store.load(99),
        lambda: store.resume(99),
    ):
        with pytest.raises(StoreError, match="no longer exists"):
            use()
    assert store.summaries() == ()


def test_a_deleted_conversation_can_be_restored_for_a_day(store: Store, file: Path, clock: Clock) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    kept, *_ = exchange(store, "other", "plan")
    store.delete(conversation)
    assert [summary.id for summary in store.summaries()] == [kept]
    assert [hit.conversation for hit in store.search("plan")] == [kept]
    assert store.prompts(9) == ("other",)
    assert store.deleted() == (conversation,)

    store.undelete(conversation)
    assert len(store.summaries()) == 2
    store.delete(conversation)
    clock.now += 25 * 3600
    assert store.deleted() == ()
    store.close()
    with closing(Store(file)) as later:
        with pytest.raises(StoreError, match="no longer exists"):
            later.load(conversation)
        for table, n in (("conversations", 1), ("messages", 2)):
            assert later.database.rows(f"SELECT count(*) FROM {table}") == [(n,)]


@pytest.mark.parametrize("what", ["add", "answer", "resume"])
def test_using_a_conversation_that_another_tandem_deleted_restores_it(store: Store, file: Path, what: str) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    cut = store.add(conversation, Role.ASSISTANT, "c", parent=asked.id, state=State.CUT)
    with closing(Store(file)) as other:
        other.delete(conversation)
    match what:
        case "add":
            store.add(conversation, Role.USER, "more", parent=asked.id)
        case "answer":
            store.answer(conversation, asked.id)
        case "resume":
            store.resume(cut.id)
    assert [summary.id for summary in store.summaries()] == [conversation]
