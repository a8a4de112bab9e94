"""Conversations on disk: what goes in comes back."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.core.errors import StoreError
from tests.conversations.stores import Clock, exchange


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


def test_a_title_that_was_given_stays_until_it_is_taken_back(store: Store) -> None:
    conversation = store.create()
    assert store.rename(conversation, " My\n\x1btitle ") == "My title"
    store.add(conversation, Role.USER, "Something else", parent=None)
    assert store.load(conversation).summary.title == "My title"
    assert store.load(conversation).summary.named

    assert store.rename(conversation, "  ") == "Something else"
    assert not store.load(conversation).summary.named


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


def test_of_what_was_set_aside_the_newest_is_kept_and_each_once() -> None:
    store = Store.in_memory(now=map(float, count()).__next__)
    for n in [*range(150), 120]:
        store.set_aside(f"thought {n}")
    texts = [one.text for one in store.typed(1000)]
    assert texts == [f"thought {n}" for n in (120, *(n for n in range(149, 49, -1) if n != 120))]


def test_discarded_prompts_stand_among_the_others_by_time(store: Store, clock: Clock) -> None:
    exchange(store, "first", "answer")
    for text in ("second", "last"):
        clock.now += 50.0
        store.set_aside(f"before the {text}")
        clock.now += 50.0
        exchange(store, text, "answer")
    assert [one.text for one in store.typed(9)] == ["last", "before the last", "second", "before the second", "first"]


def test_a_deleted_conversation_can_be_restored_for_a_day(store: Store, clock: Clock) -> None:
    conversation, *_ = exchange(store, "secret", "plan")
    for n in range(40):
        store.add(conversation, Role.USER, f"more {n}", parent=None)
    store.set_aside("secret thought", conversation)
    kept, *_ = exchange(store, "other", "plan")
    store.delete(conversation)
    assert [summary.id for summary in store.summaries()] == [kept]
    assert [hit.conversation for hit in store.search("plan")] == [kept]
    assert [one.text for one in store.typed(9)] == ["other"]
    assert store.deleted() == (conversation,)
    assert not store.tidy()

    store.undelete(conversation)
    assert len(store.summaries()) == 2
    store.delete(conversation)
    clock.now += 25 * 3600
    assert store.deleted() == ()
    assert [store.tidy(), store.tidy()] == [True, False]
    with pytest.raises(StoreError, match="no longer there"):
        store.load(conversation)
    for table, n in (("conversations", 1), ("messages", 2), ("set_aside", 0)):
        assert store.database.rows(f"SELECT count(*) FROM {table}") == [(n,)]


@pytest.mark.parametrize("what", ["add", "draft", "answer", "resume"])
def test_what_is_used_here_and_deleted_by_another_tandem_is_restored(store: Store, file: Path, what: str) -> None:
    conversation, asked, _ = exchange(store, "a", "b")
    cut = store.add(conversation, Role.ASSISTANT, "c", parent=asked.id, state=State.CUT)
    with closing(Store.open(file)) as other:
        other.delete(conversation)
    match what:
        case "add":
            store.add(conversation, Role.USER, "more", parent=asked.id)
        case "draft":
            store.set_draft(conversation, "typed", bring_back=True)
        case "answer":
            store.answer(conversation, asked.id)
        case "resume":
            store.resume(cut.id)
    assert store.lists(conversation)


def test_an_unsent_prompt_waits_for_the_next_start(file: Path) -> None:
    with closing(Store.open(file)) as store:
        store.keep_unsent("half a thought")
        with closing(Store.open(file)) as other:
            assert other.take_unsent() == "", "it is in the line of one that runs"
    for _ in range(2):
        with closing(Store.open(file)) as store:
            assert store.take_unsent() == "half a thought"
    with closing(Store.open(file)) as store:
        store.take_unsent()
        store.keep_unsent("")
    with closing(Store.open(file)) as store:
        assert store.take_unsent() == ""


def test_an_import_goes_in_whole_or_not_at_all(store: Store) -> None:
    good = Transcript(Conversation(Summary(0, "good"), Tree({1: Node(1, None, Role.USER, "hi")}, 1)))
    wrong = Transcript(Conversation(Summary(0, "wrong"), Tree({2: Node(2, 1, Role.USER, "no parent")}, 2)))
    with pytest.raises(KeyError):
        store.insert([good, wrong])
    assert store.summaries() == ()
