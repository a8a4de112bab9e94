"""Keeps the chat's conversation in the store while it goes on; everything here runs on the screen's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from app.chat.message import Begun, Message, Role
from app.chat.tree import State, Tree
from app.engine.text import Segment
from app.engine.types import FinishReason
from app.events import Finished
from app.ui.keeping.disk import StoreOpener
from app.ui.keeping.kept import COUNTS, Opened, Place, numbers, place_in
from app.ui.keeping.shelf import Shelf

if TYPE_CHECKING:
    from app.chat.journal import Journal
    from app.chat.store import Store

__all__ = ["Keeper", "Opened", "StoreOpener"]

_T = TypeVar("_T")
_ON_DISK_S = 1.0
"""What is shown is on disk after so long."""
_SLACK_S = 0.01
_STATES = {
    FinishReason.STOP: State.COMPLETE,
    FinishReason.CANCELLED: State.STOPPED,
    FinishReason.LENGTH: State.CUT,
    FinishReason.CONTEXT: State.CUT,
}


class Keeper(Shelf):
    """Between the chat and the store: all conversations, and the one that is going on.

    Without a store it keeps nothing and says nothing. No method raises for what a disk can do: what went wrong is
    said, and the chat goes on in memory.

    Args:
        open_store: Opens the store, called by `open_store`; None keeps nothing.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        super().__init__(open_store)
        self._journal: Journal | None = None
        self._place = Place()
        self._empty_draft = ""
        self._troubled = False

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
    def is_deleted(self) -> bool:
        """Whether the conversation that is going on was deleted."""
        return self._place.conversation in self._deleted

    def close(self, draft: str | None = None) -> None:
        """Let go of the store; an answer on its way counts as cut, with all that was shown of it.

        Args:
            draft: What is typed and not sent; None leaves what is kept.
        """
        if draft is not None:
            self.draft(draft)
        self._journal = None
        self._disk.close()

    # One answer

    def ask(self, prompt: str, before: Sequence[Message] = ()) -> None:
        """A prompt is put to the model, and an answer begins.

        Args:
            prompt: What the user sent.
            before: What was said until then, for a conversation that is not in the store.
        """
        self._do(lambda store: self._ask(store, prompt, before))

    def again(self, prompt: int | None = None) -> Opened | None:
        """Another answer begins; what there is stays beside it.

        Args:
            prompt: What is to be answered; None for the last prompt.

        Returns:
            What the model reads before that prompt, and the prompt; None if there is none.
        """
        place = self._place
        asked = place.asked if prompt is None else place.tree.nodes.get(prompt)
        if place.conversation is None or asked is None:
            return None
        before = replace(place, again=None)
        place.replied_to, place.asked = asked.parent, asked
        self._do(self._begin)
        place.again = before
        return place.opened()

    def go_on(self, answer: int) -> Opened | None:
        """More of an answer that ended early; it is to be the active leaf.

        Returns:
            What the model reads before its prompt, the prompt, and what there is; None if it cannot go on.
        """
        return self._do(lambda store: self._go_on(store, answer))

    def add(self, segments: Iterable[Segment]) -> None:
        """Take what the screen shows of the answer."""
        if self._journal is not None:
            for segment in segments:
                self._journal.add(segment.text, reasoning=segment.reasoning)

    def tick(self, next_s: float) -> None:
        """Write what has waited long enough.

        Args:
            next_s: Seconds until the next call.
        """
        journal = self._journal
        if journal is None:
            return
        from app.chat.journal import WAIT_S

        if next_s + WAIT_S > _ON_DISK_S + _SLACK_S:
            journal.flush()
        else:
            journal.tick()
        if journal.trouble is not None and not self._troubled:
            self._disk.tell(journal.trouble)
        self._troubled = journal.trouble is not None

    def finish(self, event: Finished, **more: Any) -> None:
        """The answer has ended.

        Args:
            event: How, with the whole text.
            more: What else to keep beside its numbers; those of the part that it was continued from stay with them.
        """
        stats = {**numbers(event), **more}
        if self._journal is not None and self._journal.continues:
            stats |= self._earlier(self._journal.node.id)
        self._end(_STATES[event.reason], text=event.text or None, reasoning=event.reasoning or None, stats=stats)

    def fail(self) -> str:
        """The answer has failed; what was shown of it stays in the store.

        Returns:
            The text that the conversation goes on from: that of an answer which counted before it was continued.
        """
        journal = self._journal
        if journal is None or not journal.continues:
            self._end(State.FAILED)
            return ""
        state = journal.start.state
        self._end(state)
        return journal.node.text if state in COUNTS else ""

    # One conversation

    def leave(self, draft: str = "") -> Opened:
        """Begin an empty conversation; an answer on its way is stopped.

        Args:
            draft: What is typed and not sent; it waits for the return.

        Returns:
            The empty conversation, with what was typed when it was left.
        """
        self._end(State.STOPPED)
        self.draft(draft)
        if self._place.conversation is None:
            self._empty_draft = draft
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
        self._deleted = [each for each in self._deleted if each != conversation]
        self._place = place_in(conversation, found.tree, found.draft, found.settings)
        return self._place.opened()

    def draft(self, text: str) -> None:
        """Keep what was typed and not sent, if anything was said in the conversation."""
        place = self._place
        if place.conversation is not None and text != place.draft:
            self._do(lambda store: store.set_draft(place.conversation or 0, text))
            place.draft = text

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
        self._place = place_in(number, place.tree.with_node(node), place.draft, place.settings)
        return self._place.opened()

    # Behind it

    def _ask(self, store: Store, prompt: str, before: Sequence[Message]) -> None:
        place = self._place
        if place.conversation is None:
            conversation, tree = store.create(place.settings), Tree()
            for message in before:
                tree = tree.with_node(store.add(conversation, message.role, message.content, parent=tree.leaf))
            self._place = place = Place(conversation, tree, tree.leaf, settings=place.settings)
            self._empty_draft = ""
        number = place.conversation
        assert number is not None
        asked = place.asked
        # A prompt that came to nothing and is sent once more is the same one.
        if asked is None or (asked.text, asked.parent) != (prompt, place.replied_to):
            place.asked = store.add(number, Role.USER, prompt, parent=place.replied_to)
            place.tree = place.tree.with_node(place.asked)
        if place.draft:
            store.set_draft(number, "")
            place.draft = ""
        self._begin(store)

    def _begin(self, store: Store) -> None:
        place = self._place
        if place.conversation is None or place.asked is None:
            # Another Tandem has removed the conversation; its prompts are on the screen only.
            return
        place.again, place.answered, self._troubled = None, None, False
        self._journal = store.answer(place.conversation, place.asked.id)
        place.tree = place.tree.with_node(self._journal.node)

    def _go_on(self, store: Store, answer: int) -> Opened | None:
        place = self._place
        # Another Tandem may have gone on with it since.
        now = store.load(place.conversation or 0).tree.nodes.get(answer)
        if now is None or not now.state.can_continue or now.parent is None:
            return None
        before, asked = replace(place, again=None), place.tree.nodes[now.parent]
        self._journal, self._troubled = store.resume(answer), False
        place.replied_to, place.asked, place.answered, place.again = asked.parent, asked, None, before
        place.tree = place.tree.with_node(self._journal.node)
        return replace(place.opened(), begun=Begun(now.text, now.reasoning))

    def _end(self, state: State, **what: Any) -> None:
        journal, self._journal = self._journal, None
        if journal is None:
            return
        place = self._place
        shown = f"{what.get('text') or journal.node.text}{what.get('reasoning') or journal.node.reasoning}"
        idle = journal.continues and journal.is_empty and state is not State.COMPLETE
        if idle or not shown.strip():
            self._do(lambda store: journal.discard())
            self._step_back(place, journal)
            return
        node = self._do(lambda store: journal.finish(state, **what))
        if node is None:
            return
        place.tree, place.answered = place.tree.with_node(node), node.id
        if node.text.strip() and state in COUNTS:
            place.replied_to, place.again = node.id, None
        elif place.again is not None and not journal.continues:
            tree = self._return_to(place, place.again)
            if tree.leaf is not None:
                leaf = tree.leaf
                self._do(lambda store: store.switch(place.conversation or 0, leaf))

    def _step_back(self, place: Place, journal: Journal) -> None:
        """Nothing came of an answer, or of more of one."""
        start, before = journal.start, place.again
        if journal.continues:
            place.tree = place.tree.with_node(start)
        else:
            leaf = before.tree.leaf if before is not None else start.parent
            place.tree = place.tree.without(start.id, leaf)
        if before is not None:
            self._return_to(place, before)

    def _return_to(self, place: Place, before: Place) -> Tree:
        """Stand where the chat stood before another answer was asked for."""
        place.tree = replace(place.tree, leaf=before.tree.leaf)
        place.replied_to, place.asked, place.again = before.replied_to, before.asked, None
        return place.tree

    def _earlier(self, answer: int) -> dict[str, Any]:
        """The numbers of the parts of an answer before the one that has ended."""
        old = dict(self._do(lambda store: store.stats(answer)) or {})
        parts = [*old.pop("earlier", []), *([old] if old else [])]
        return {"earlier": parts} if parts else {}

    def _do(self, action: Callable[[Store], _T], conversation: int | None = None) -> _T | None:
        """Let the store do something for a conversation; None for the one that is going on."""
        return self._disk.do(action, self._place.conversation if conversation is None else conversation)

    def _lose(self, conversation: int | None) -> None:
        if conversation is None or conversation == self._place.conversation:
            self._place = Place()
