"""Helpers for tests with conversations on disk."""

from pathlib import Path

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node


class Clock:
    """Seconds that advance only when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def exchange(store: Store, prompt: str, answer: str) -> tuple[int, Node, Node]:
    conversation = store.create()
    asked = store.add(conversation, Role.USER, prompt, parent=None)
    return conversation, asked, store.add(conversation, Role.ASSISTANT, answer, parent=asked.id)


def fill_disk(store: Store) -> None:
    """Make SQLite report a full disk for every write that needs another page."""
    ((pages,),) = store.database.rows("PRAGMA page_count")
    store.database.connection.execute(f"PRAGMA max_page_count = {pages}")


def free_disk(store: Store) -> None:
    store.database.connection.execute("PRAGMA max_page_count = 1073741823")


def kill(store: Store) -> None:
    """Release the file like a killed process, without writing."""
    store.database.connection.close()


def texts(file: Path) -> list[list[str]]:
    """Return the active branch of every conversation in a file."""
    store = Store(file)
    found = [[node.text for node in store.load(each.id).tree.path] for each in store.summaries()]
    assert store.database.rows("PRAGMA integrity_check") == [("ok",)]
    store.close()
    return sorted(found)
