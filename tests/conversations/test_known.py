"""What of a file is in the store already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.conversations.known import Known
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree

NOW = 1000.0


def conversation(*texts: str, created: float = 5.0) -> Transcript:
    """A chain of messages, a prompt first."""
    roles = (Role.USER, Role.ASSISTANT)
    nodes = {n: Node(n, n - 1 or None, roles[(n - 1) % 2], text) for n, text in enumerate(texts, 1)}
    summary = Summary(0, "A title", named=False, pinned=False, created=created, updated=created)
    return Transcript(Conversation(summary, Tree(nodes, len(texts) or None)))


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store.in_memory()
    yield store
    store.close()


def known(store: Store, transcript: Transcript) -> Known:
    (found,) = store.known([transcript], NOW)
    return found


def test_an_empty_store_knows_nothing(store: Store) -> None:
    assert known(store, conversation("Hi", "Hello!")) == Known()


def test_the_same_words_are_the_same_conversation(store: Store) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!", created=7.0)])

    assert known(store, conversation("Hi", "Hello!")) == Known(number, is_whole=True)
    assert known(store, conversation("Hi", "Hello")) == Known()
    assert known(store, conversation("Hi", "Hello!\n\n    indented")) == Known()


def test_one_that_went_on_since_holds_it(store: Store) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!", "More", "Gladly.")])

    assert known(store, conversation("Hi", "Hello!")) == Known(number, is_whole=True, n_more=2)


def test_one_that_only_begins_alike_is_another(store: Store) -> None:
    store.insert([conversation("Hi", "Hello!", "More", "Gladly.", created=7.0)])

    assert known(store, conversation("Hi", "Hello!")) == Known()


def test_a_file_that_knows_no_times_is_held_by_its_words(store: Store) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!", "More", "Gladly.", created=7.0)])

    assert known(store, conversation("Hi", "Hello!", created=NOW)) == Known(number, is_whole=True, n_more=2)


@pytest.mark.parametrize("later", [("More", "Gladly."), ("Otherwise", "So.")])
def test_one_that_went_on_in_the_file_comes_beside_it(store: Store, later: tuple[str, ...]) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!", *(["Here"] if "So." in later else []))])

    assert known(store, conversation("Hi", "Hello!", *later)) == Known(number)


def test_every_branch_counts(store: Store) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!")])
    branched = conversation("Hi", "Hello!")
    nodes = {**branched.conversation.tree.nodes, 3: Node(3, 1, Role.ASSISTANT, "Good day.")}
    branched = replace(branched, conversation=replace(branched.conversation, tree=Tree(nodes, 2)))

    assert known(store, branched) == Known(number)
    (other,) = store.insert([branched])
    assert known(store, branched) == Known(other, is_whole=True)


def test_the_same_words_under_another_message_are_others(store: Store) -> None:
    store.insert([conversation("A", "B", "C", "B")])
    turned = conversation("C", "B", "A", "B")

    assert known(store, turned) == Known()


def test_what_nothing_was_said_in_is_known_by_its_time(store: Store) -> None:
    (number,) = store.insert([conversation()])

    assert known(store, conversation()) == Known(number, is_whole=True)
    assert known(store, conversation(created=6.0)) == Known()
    assert known(store, conversation("Hi")) == Known()


def test_what_was_deleted_is_not_there(store: Store) -> None:
    (number,) = store.insert([conversation("Hi", "Hello!")])
    store.delete(number)

    assert known(store, conversation("Hi", "Hello!")) == Known()


def test_control_characters_and_empty_lines_around_a_text_make_no_other_text(store: Store) -> None:
    number = store.create()
    store.add(number, Role.USER, "Hi\x1b[2J\n", parent=None, state=State.COMPLETE)
    created = store.summaries()[0].created

    assert known(store, conversation("Hi[2J", created=created)) == Known(number, is_whole=True)
