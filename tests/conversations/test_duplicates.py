"""Imported conversations that are already in the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, Summary, Transcript, Tree

NOW = 1000.0


def conversation(*texts: str, created: float = 5.0) -> Transcript:
    """A chain of messages, a prompt first."""
    roles = (Role.USER, Role.ASSISTANT)
    nodes = {n: Node(n, n - 1 or None, roles[(n - 1) % 2], text) for n, text in enumerate(texts, 1)}
    summary = Summary(0, "A title", created=created, updated=created)
    return Transcript(Conversation(summary, Tree(nodes, len(texts) or None)))


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store.in_memory()
    yield store
    store.close()


@pytest.mark.parametrize(
    ("stored", "imported", "is_known"),
    [
        (conversation("Hi", "Hello!", created=7.0), conversation("Hi", "Hello!"), True),
        (conversation("Hi", "Hello!"), conversation("Hi", "Hello"), False),
        (conversation("Hi", "Hello!"), conversation("Hi", "Hello!\n\n    indented"), False),
        # One that went on since holds it; one that only begins so, at another time, does not.
        (conversation("Hi", "Hello!", "More", "Gladly."), conversation("Hi", "Hello!"), True),
        (conversation("Hi", "Hello!", "More", "Gladly.", created=7.0), conversation("Hi", "Hello!"), False),
        (conversation("Hi", "Hello!", "More", created=7.0), conversation("Hi", "Hello!", created=NOW), True),
        (conversation("Hi", "Hello!"), conversation("Hi", "Hello!", "More"), False),
        (conversation("A", "B", "C", "B"), conversation("C", "B", "A", "B"), False),
        (conversation("Hi\x1b[2J\n"), conversation("Hi[2J"), True),
        (conversation(), conversation(), True),
        (conversation(), conversation(created=6.0), False),
    ],
)
def test_a_conversation_is_a_duplicate_if_a_stored_one_contains_it(
    store: Store, stored: Transcript, imported: Transcript, is_known: bool
) -> None:
    assert store.duplicates([imported], NOW) == (None,)
    (number,) = store.insert([stored])
    assert store.duplicates([imported], NOW) == (number if is_known else None,)
    store.delete(number)
    assert store.duplicates([imported], NOW) == (None,)


def test_every_branch_must_be_contained(store: Store) -> None:
    store.insert([conversation("Hi", "Hello!")])
    branched = conversation("Hi", "Hello!")
    nodes = {**branched.conversation.tree.nodes, 3: Node(3, 1, Role.ASSISTANT, "Good day.")}
    branched = replace(branched, conversation=replace(branched.conversation, tree=Tree(nodes, 2)))

    assert store.duplicates([branched], NOW) == (None,)
    (other,) = store.insert([branched])
    assert store.duplicates([branched], NOW) == (other,)
