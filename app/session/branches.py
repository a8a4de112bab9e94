"""A conversation without its running answer: branches, queued prompts and settings, all stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from app.conversations.attached import joined
from app.conversations.message import Role
from app.conversations.titles import title_of
from app.conversations.tree import Document, Node, State, Tree, readable
from app.core.errors import AppError
from app.session.library import Library

if TYPE_CHECKING:
    from app.conversations.store import Store

_T = TypeVar("_T")
_WAITING_PROMPT, _WAITING_ANSWER = -1, -2
"""Ids of messages that are not yet in a conversation."""
_SIMILAR_ANSWERS = 4
"""Earlier answers to the same prompt that n-gram drafting may search."""


def counts(answer: Node) -> bool:
    """Return whether the conversation continues from an answer."""
    return bool(answer.text.strip() or answer.calls or answer.role is Role.TOOL) and answer.state is not State.WRITING


@dataclass(frozen=True, slots=True)
class Turn:
    """The last prompt of the active branch; the next prompt replies to the message `parent`."""

    prompt: Node | None = None
    is_answered: bool = False
    parent: int | None = None

    @classmethod
    def of(cls, path: tuple[Node, ...]) -> Turn:
        """Return the last turn; a prompt without a usable answer is not continued from."""
        last = path[-1] if path else None
        if last is None or last.role is Role.USER:
            return cls(last, parent=last.parent if last is not None else None)
        # Between a prompt and its last answer there may be calls of tools and their results.
        above = (node for node in reversed(path[:-1]) if not (node.role is Role.TOOL or node.calls))
        first = next(above, None) if last.role in (Role.ASSISTANT, Role.TOOL) else None
        prompt = first if first is not None and first.role is Role.USER else None
        if prompt is not None and not counts(last):
            return cls(prompt, parent=prompt.parent)
        return cls(prompt, is_answered=prompt is not None, parent=last.id)


class Branches:
    """A conversation as a tree of messages with an active branch, in a library that stores it.

    Attributes:
        number: Id in the store, once there is a prompt.
        queued: Queued prompts, first prompt first; they are stored before `unsent_text`.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.number: int | None = None
        self.tree = Tree()
        self.settings: Document = {}
        self.unsent_text = ""
        self.queued: tuple[str, ...] = ()
        self._stored_input = ""
        """The stored text of the input line."""
        self._deletions: list[tuple[Tree, Tree]] = []
        """The tree before and after each deletion of a message."""

    def load(self, number: int) -> bool:
        """Load a stored conversation; return whether it exists."""
        found = self.library.do(lambda store: store.load(number))
        if found is None:
            return False
        self.number, self.tree, self.settings = number, found.tree, found.settings
        self.unsent_text = self._stored_input = found.unsent_text
        return True

    def _with_store(self, action: Callable[[Store, int], _T]) -> _T | None:
        number = self.number
        return None if number is None else self.library.do(lambda store: action(store, number))

    @property
    def turn(self) -> Turn:
        return Turn.of(self.tree.path)

    def messages_with(self, waiting: str) -> tuple[Node, ...]:
        """Return the active branch with a prompt that waits for the models, and its future answer."""
        turn = self.turn
        prompt = turn.prompt
        if turn.is_answered or prompt is None or prompt.text != waiting:
            prompt = Node(_WAITING_PROMPT, turn.parent, Role.USER, waiting)
        answer = Node(_WAITING_ANSWER, prompt.id, Role.ASSISTANT, "", state=State.WRITING)
        return (*self.tree.path_to(turn.parent), prompt, answer)

    def read_before(self, prompt: Node | None) -> tuple[str, tuple[Node, ...]]:
        """Return the summary and the messages that the model reads before a prompt, or for None in the whole branch."""
        summary, nodes = readable(self.tree.path_to(self.turn.parent if prompt is None else prompt.id))
        return summary, tuple(nodes if prompt is None else nodes[:-1])

    @property
    def summary(self) -> str | None:
        """The summary that the model reads instead of earlier messages, if any."""
        return self.read_before(None)[0] or None

    def set_numbers(self, prompt: Node, stats: Document) -> None:
        """Store the numbers of a prompt, such as its compaction."""
        self.library.do(lambda store: store.set_stats(prompt.id, stats))
        self.tree = self.tree.with_node(replace(prompt, stats=stats))

    @property
    def similar_answers(self) -> tuple[str, ...]:
        """Earlier answers to the last prompt or its siblings, newest first."""
        prompt, tree = self.turn.prompt, self.tree
        if prompt is None:
            return ()
        answers = [reply for sibling in tree.siblings(prompt.id) for reply in tree.replies(sibling.id)]
        answers = sorted((reply for reply in answers if reply.id != tree.leaf), key=lambda reply: -reply.id)
        texts = (text for reply in answers[:_SIMILAR_ANSWERS] for text in (reply.reasoning, reply.text))
        return tuple(text for text in texts if text.strip())

    def _create(self, store: Store) -> int:
        if self._stored_input:
            store.save_pending_input("")
            self._stored_input = ""
        self.number = number = store.create(self.settings)
        return number

    # Branches

    # The commands below raise AppError if the store refuses.

    def switch(self, message: int) -> None:
        """Activate the branch through a message."""
        tree = self.tree.switched(message)
        if tree.leaf is not None and tree.leaf != self.tree.leaf:
            self._activate(tree.leaf)

    def _activate(self, leaf: int) -> None:
        self._with_store(lambda store, number: store.switch(number, leaf))
        self.tree = replace(self.tree, leaf=leaf)

    def rewrite(self, answer: Node, text: str) -> None:
        """Add the user's own answer as a branch and continue from it."""
        node = self._with_store(
            lambda store, number: store.add(number, Role.ASSISTANT, text, parent=answer.parent, state=answer.state)
        )
        if node is None:
            raise AppError("The answer was not saved.")
        self.tree = self.tree.with_node(node)

    def delete(self, message: Node) -> None:
        """Remove a message; see `Tree.without_message`. `undelete` restores it."""
        before, after = self.tree, self.tree.without_message(message.id)
        if message.role is Role.SYSTEM or not self._replace_tree(after):
            raise AppError("The message was not deleted.")
        self._deletions.append((before, after))

    @property
    def can_undelete(self) -> bool:
        """Return whether nothing was added since a message was deleted."""
        return bool(self._deletions) and self._deletions[-1][1].nodes is self.tree.nodes

    def undelete(self) -> None:
        """Restore the last deleted message, if `can_undelete`."""
        if not self.can_undelete or not self._replace_tree(self._deletions[-1][0]):
            raise AppError("The message was not restored.")
        self._deletions.pop()

    def _replace_tree(self, tree: Tree) -> bool:
        before = self.tree
        stored = self._with_store(lambda store, number: store.replace_tree(number, before, tree))
        self.tree = stored or before
        return stored is not None

    def fork(self, message: Node) -> int:
        """Copy the branch up to a message into a new conversation; return its id.

        A prompt has no answer there yet, so it becomes the copy's unsent text.
        """
        is_prompt = message.role is Role.USER
        path = self.tree.path_to(message.parent if is_prompt else message.id)
        unsent_text = self.library.as_typed(message.text) if is_prompt else ""
        copy = self._with_store(lambda store, number: store.fork(number, path, unsent_text))
        if copy is None:
            raise AppError("The conversation was not copied.")
        return copy

    # Unsent text and queued prompts

    def set_unsent_text(self, text: str) -> None:
        """Store the text of the input line after the queued prompts."""
        self.unsent_text = text
        self.library.do(self._store_input)

    def queue(self, text: str) -> None:
        self.library.open_store()
        self.queued = (*self.queued, text)
        self.library.do(self._store_input)

    def leave(self, unsent_text: str) -> None:
        """Store the text of the input line; list a new conversation if it has a queued prompt."""
        if self.number is None and self.queued:
            self.library.do(lambda store: store.name(self._create(store), title_of(self.queued[0])))
        self.set_unsent_text(unsent_text)

    def unqueue(self, at: int) -> str:
        """Remove and return a queued prompt; the store keeps it until `set_unsent_text` or its answer begins."""
        text = self.queued[at]
        self.queued = tuple(other for i, other in enumerate(self.queued) if i != at % len(self.queued))
        return text

    def _store_input(self, store: Store) -> None:
        texts = [self.library.as_typed(text) for text in self.queued]
        text = reduce(joined, filter(None, [*texts, self.unsent_text]), "")
        if text == self._stored_input:
            return
        if self.number is None:
            store.save_pending_input(text)
        else:
            store.set_unsent_text(self.number, text)
        self._stored_input = text

    def take_unsent_text(self) -> str:
        """Return the unsent text of an earlier run in an empty conversation."""
        self.unsent_text = self._stored_input = self.library.do(lambda store: store.take_pending_input()) or ""
        return self.unsent_text

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Store the conversation's own settings, once it has a prompt."""
        if settings != self.settings:
            self.settings = settings
            self._with_store(lambda store, number: store.set_settings(number, settings))
