"""The conversation that goes on, with its branches, as the store keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from app.conversations.disk import StoreOpener
from app.conversations.message import Role
from app.conversations.tree import Node, Tree
from app.session.kept import Opened, Place, place_in
from app.session.shelf import Shelf

if TYPE_CHECKING:
    from app.conversations.store import Store

_T = TypeVar("_T")
_BESIDE = 4
"""Earlier answers in whose place another one comes that are looked at for it."""


class Conversation(Shelf):
    """Where the chat stands: in one of the conversations, and in which of its branches.

    Args:
        open_store: Opens the store, called by `open_store`; None keeps nothing.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        super().__init__(open_store)
        self._place = Place()
        self._empty_draft = ""
        self._unanswered: int | None = None
        """The conversation left last in which nothing but a prompt was said."""

    @property
    def conversation(self) -> int | None:
        """The id of the conversation that is going on; None while nothing was said in it."""
        return self._place.conversation

    @property
    def tree(self) -> Tree:
        """What was said in it, with every branch."""
        return self._place.tree

    @property
    def exchange(self) -> tuple[int | None, int | None]:
        """The prompt that was put last and the answer to it, as far as they are kept."""
        place = self._place
        return place.asked.id if place.asked is not None else None, place.answered

    @property
    def is_beside_another(self) -> bool:
        """Whether the prompt that was put last is a branch beside earlier ones."""
        asked = self._place.asked
        return asked is not None and len(self.tree.siblings(asked.id)) > 1

    @property
    def beside(self) -> tuple[str, ...]:
        """What was answered before to the prompt that was put last, or to those beside it; the newest first."""
        asked, tree = self._place.asked, self.tree
        if asked is None:
            return ()
        answers = [reply for prompt in tree.siblings(asked.id) for reply in tree.replies(prompt.id)]
        answers = sorted((reply for reply in answers if reply.id != tree.leaf), key=lambda reply: -reply.id)
        texts = (text for reply in answers[:_BESIDE] for text in (reply.reasoning, reply.text))
        return tuple(text for text in texts if text.strip())

    @property
    def is_deleted(self) -> bool:
        """Whether the conversation that is going on was deleted here; what others delete is gone on with."""
        return self._place.is_deleted

    def delete(self, conversation: int) -> None:
        super().delete(conversation)
        if conversation == self._place.conversation:
            self._place.is_deleted = True

    def undelete(self) -> int | None:
        conversation = super().undelete()
        if conversation == self._place.conversation:
            self._place.is_deleted = False
        return conversation

    def leave(self, draft: str = "") -> Opened:
        """Begin an empty conversation; an answer on its way is stopped.

        Args:
            draft: What is typed and not sent; it waits for the return.

        Returns:
            The empty conversation, with what was typed when it was left.
        """
        self._stop()
        self.draft(draft)
        if len(self.tree.nodes) == 1:
            self._unanswered = self.conversation
        self._place = Place()
        return Opened(draft=self._empty_draft)

    def open(self, conversation: int, draft: str = "") -> Opened | None:
        """Leave the conversation for another one, as `leave` does.

        Returns:
            What to go on with; None if there is nothing, and the old conversation goes on.
        """
        found = self._do(lambda store: store.load(conversation), conversation)
        if found is None:
            return None
        self.leave(draft)
        # Somebody has brought it back, or it could not be chosen.
        self._is_back(conversation)
        self._place = place_in(conversation, found.tree, found.draft, found.settings)
        return self._place.opened()

    def look_again(self) -> Opened | None:
        """Take in what another Tandem has said in the conversation since it was read.

        Returns:
            What to go on with, at the end of the branch that goes on here; None if nothing was said in that one.
        """
        place = self._place
        number, leaf = place.conversation, place.tree.leaf
        standing = None if number is None else self._do(lambda store: store.standing(number))
        # Without any it was removed, which is found out when there is something to keep.
        if not standing or standing == {node.id: node.state for node in place.tree.nodes.values()}:
            return None
        found = self._do(lambda store: store.load(number or 0))
        if found is None:
            return None
        tree = found.tree
        if leaf is not None and leaf in tree.nodes:
            tree = replace(tree, leaf=tree.newest_leaf(leaf))
        if len(tree.path) == len(place.tree.path) and all(map(Node.says_as, tree.path, place.tree.path)):
            place.tree = tree
            return None
        self._place = place_in(number or 0, tree, place.draft, place.settings)
        return self._place.opened()

    def draft(self, text: str) -> None:
        """Keep what was typed and not sent."""
        place = self._place
        if place.conversation is None:
            self._keep_unsent(text)
        elif text != place.draft:
            number, bring_back = place.conversation, bool(text) and not self.is_deleted
            self._do(lambda store: store.set_draft(number, text, bring_back=bring_back))
            place.draft = text
            if bring_back:
                self._is_back(number)
            if self._place.conversation is None:
                # Another Tandem has removed the conversation.
                self._keep_unsent(text)

    def take_unsent(self) -> str:
        """What the last run left typed in a conversation where nothing was said yet; empty if nothing."""
        self._empty_draft = self._do(lambda store: store.take_unsent()) or ""
        return self._empty_draft

    def left_typed(self) -> str:
        """The title of the last conversation where something was typed in it and not sent; "" where nothing was."""
        return self._do(lambda store: store.left_typed()) or ""

    def _keep_unsent(self, text: str) -> None:
        if text != self._empty_draft:
            self._empty_draft = text
            self._do(lambda store: store.keep_unsent(text))

    def set_aside(self, text: str) -> None:
        """Keep what was typed here and gave way to something else."""
        self._do(lambda store: store.set_aside(text, self.conversation))

    def keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Keep the conversation's own settings; before anything was said in it, until something is."""
        place = self._place
        if settings != place.settings:
            place.settings = settings
            if place.conversation is not None:
                self._do(lambda store: store.set_settings(place.conversation or 0, settings))

    def with_conversation(self, action: Callable[[Store, int], _T]) -> _T | None:
        """What the store does with the conversation; None while nothing was said in it, or if the disk refuses."""
        number = self._place.conversation
        return None if number is None else self._do(lambda store: action(store, number))

    def with_store(self, action: Callable[[Store], _T]) -> _T | None:
        """What the store finds over all conversations; None without one, or if the disk refuses."""
        return self._do(action)

    # Its branches

    def switch(self, message: int) -> Opened | None:
        """Make the branch through a message the active one; returns what to go on with, None if it is not there."""
        place = self._place
        if place.conversation is None or message not in place.tree.nodes:
            return None
        number, tree = place.conversation, place.tree.switched(message)
        if tree.leaf is not None:
            leaf = tree.leaf
            self._do(lambda store: store.switch(number, leaf))
        self._place = place_in(number, tree, place.draft, place.settings)
        return self._place.opened()

    def go_before(self, prompt: int) -> Opened | None:
        """Go back to where a prompt was put: the next one is a branch beside it."""
        place = self._place
        asked = place.tree.nodes.get(prompt)
        if asked is None:
            return None
        # The same words are no other prompt: their answer becomes a branch.
        place.replied_to, place.asked, place.answered = asked.parent, asked, None
        return place.opened()

    def rewrite(self, answer: int, text: str) -> Opened | None:
        """Put an answer of the user's own words beside one, and go on from it."""
        place = self._place
        old = place.tree.nodes.get(answer)
        if old is None or place.conversation is None:
            return None
        number = place.conversation
        node = self._do(lambda store: store.add(number, Role.ASSISTANT, text, parent=old.parent, state=old.state))
        if node is None:
            return None
        self._is_back(number)
        self._place = place_in(number, place.tree.with_node(node), place.draft, place.settings)
        return self._place.opened()

    # Behind it

    def _take_up(self, store: Store, prompt: str) -> bool:
        """Be where a prompt was put that nothing came of, if it is put again: the list is not to have it twice."""
        number, settings = self._unanswered, self._place.settings
        if number is None or number in self._deleted or not store.lists(number):
            return False
        found = store.load(number)
        if [node.text for node in found.tree.nodes.values()] != [prompt]:
            return False
        if found.draft.strip() not in ("", prompt.strip()):
            # It would be taken for what is sent now.
            return False
        if settings != found.settings:
            store.set_settings(number, settings)
        self._place = place_in(number, found.tree, found.draft, settings)
        return True

    def _stop(self) -> None:
        """An answer on its way counts as stopped; there is none here."""

    def _do(self, action: Callable[[Store], _T], conversation: int | None = None) -> _T | None:
        """Let the store do something for a conversation; None for the one that is going on."""
        return self._disk.do(action, self._place.conversation if conversation is None else conversation)

    def _lose(self, conversation: int | None) -> None:
        if conversation is None or conversation == self._place.conversation:
            self._place = Place()
