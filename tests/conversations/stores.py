"""Conversations on disk at times that a test chooses."""

from __future__ import annotations

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node


class Clock:
    """Time that passes when it is told to, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def exchange(store: Store, prompt: str, answer: str) -> tuple[int, Node, Node]:
    conversation = store.create()
    asked = store.add(conversation, Role.USER, prompt, parent=None)
    return conversation, asked, store.add(conversation, Role.ASSISTANT, answer, parent=asked.id)
