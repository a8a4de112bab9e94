"""Conversations on disk: what goes in comes back."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State
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


def test_what_was_set_aside_stands_among_the_prompts_where_it_was_also_behind_an_import(
    store: Store, clock: Clock
) -> None:
    long_ago = Store.in_memory(now=Clock(10.0))
    conversation, *_ = exchange(long_ago, "imported", "answer")
    exchange(store, "first", "answer")
    for text in ("second", "last"):
        clock.now += 50.0
        store.set_aside(f"before the {text}")
        clock.now += 50.0
        exchange(store, text, "answer")
    store.insert([long_ago.transcript(conversation)])
    assert [one.text for one in store.typed(9)] == [
        *("imported", "last", "before the last", "second", "before the second", "first")
    ]
