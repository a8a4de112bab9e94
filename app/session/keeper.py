"""Keeps the chat's conversation in the store while it goes on; everything here runs on the screen's thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.conversations.disk import SAVED, StoreOpener
from app.conversations.ending import ending_in, numbers_of, numbers_of_failure
from app.conversations.message import Begun, Message, Role
from app.conversations.tree import Document, State, Tree
from app.core.errors import AppError
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.session.kept import COUNTS, Opened, Place, numbers
from app.session.stored_conversation import Conversation
from app.worker.events import Finished

if TYPE_CHECKING:
    from app.conversations.journal import Journal
    from app.conversations.store import Store

_ON_DISK_S = 1.0
"""What is shown is on disk after so long."""
_SLACK_S = 0.01
_STATES = {
    FinishReason.STOP: State.COMPLETE,
    FinishReason.CANCELLED: State.STOPPED,
    FinishReason.LENGTH: State.CUT,
    FinishReason.CONTEXT: State.CUT,
    FinishReason.REPETITION: State.CUT,
}


class Keeper(Conversation):
    """Between the chat and the store: all conversations, the one that is going on, and the answer on its way in it.

    Without a store it keeps nothing and says nothing. No method raises for what a disk can do: what went wrong is
    said, and the chat goes on in memory.

    Args:
        open_store: Opens the store, called by `open_store`; None keeps nothing.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        super().__init__(open_store)
        self._journal: Journal | None = None
        self._troubled = False
        self.models: Document = {}
        """Names of the models that answer now, by role; kept with every answer."""

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
        from app.conversations.journal import WAIT_S

        if next_s + WAIT_S > _ON_DISK_S + _SLACK_S:
            journal.flush()
        else:
            journal.tick()
        self._tell_trouble(journal)

    def finish(self, event: Finished) -> None:
        """Keep an answer that has ended, with its numbers and those of the part that it was continued from.

        Args:
            event: How, with the whole text.
        """
        stats = {**numbers(event), **self.models}
        if self._journal is not None and self._journal.continues:
            stats |= self._earlier(self._journal.node.id)
        why = numbers_of(event.reason, event.repeats, at_limit=event.at_limit)
        self._end(_STATES[event.reason], why, text=event.text or None, reasoning=event.reasoning or None, stats=stats)

    def fail(self, error: AppError) -> tuple[str, str]:
        """The answer has failed; what was shown of it stays in the store, and why.

        Args:
            error: Why.

        Returns:
            The text and the thinking that the conversation goes on from: those of an answer which counted before it was
            continued.
        """
        journal = self._journal
        if journal is None or not journal.continues:
            why = numbers_of_failure(error)
            self._end(State.FAILED, why, stats={**why, **self.models})
            return "", ""
        state = journal.start.state
        self._end(state, {})
        return (journal.node.text, journal.node.reasoning) if state in COUNTS else ("", "")

    # Behind it

    def _tell_trouble(self, journal: Journal) -> None:
        """Say that an answer does not get to the disk, and when it does."""
        trouble, was_in_trouble = journal.trouble, self._troubled
        self._troubled = trouble is not None
        if trouble is not None and not was_in_trouble:
            self._disk.tell(trouble)
        elif trouble is None and was_in_trouble and self.is_on_disk:
            self._disk.say(SAVED)

    def _ask(self, store: Store, prompt: str, before: Sequence[Message]) -> None:
        if self._place.conversation is None:
            if self._empty_draft:
                store.keep_unsent("")
                self._empty_draft = ""
            if before or not self._take_up(store, prompt):
                self._create(store, before)
        place = self._place
        number = place.conversation
        assert number is not None
        asked = place.asked
        # A prompt that came to nothing and is sent once more is the same one.
        stood = replace(place, again=None)
        is_new = asked is None or (asked.text, asked.parent) != (prompt, place.replied_to)
        if is_new:
            place.asked = store.add(number, Role.USER, prompt, parent=place.replied_to)
            place.tree = place.tree.with_node(place.asked)
            if self.is_beside_another:
                store.call_after(number, place.tree.opening)
        if place.draft:
            store.set_draft(number, "")
            place.draft = ""
        self._begin(store)
        place.again = None if is_new else stood

    def _create(self, store: Store, before: Sequence[Message]) -> None:
        settings, tree = self._place.settings, Tree()
        conversation = store.create(settings)
        for message in before:
            said = store.add(conversation, message.role, message.content, message.reasoning, parent=tree.leaf)
            tree = tree.with_node(said)
        self._place = Place(conversation, tree, tree.leaf, settings=settings)

    def _begin(self, store: Store) -> None:
        place = self._place
        if place.conversation is None or place.asked is None:
            # Another Tandem has removed the conversation; its prompts are on the screen only.
            return
        place.again, place.answered, self._troubled = None, None, False
        self._journal = store.answer(place.conversation, place.asked.id, models=self.models)
        # Another Tandem may have deleted it.
        self._is_back(place.conversation)
        place.tree = place.tree.with_node(self._journal.node)

    def _go_on(self, store: Store, answer: int) -> Opened | None:
        place = self._place
        number = place.conversation or 0
        # Another Tandem may have gone on with it since.
        now = store.load(number).tree.nodes.get(answer)
        if now is None or not now.state.can_continue or now.parent is None:
            return None
        before, asked = replace(place, again=None), place.tree.nodes[now.parent]
        self._journal, self._troubled = store.resume(answer), False
        self._is_back(number)
        place.replied_to, place.asked, place.answered, place.again = asked.parent, asked, None, before
        place.tree = place.tree.with_node(self._journal.node)
        return replace(place.opened(), begun=Begun(now.text, now.reasoning))

    def _end(self, state: State, why: Document, **what: Any) -> None:
        """The answer on its way ends; if nothing is to be kept of it, its prompt is told why."""
        journal, self._journal = self._journal, None
        if journal is None:
            return
        place = self._place
        shown = f"{what.get('text') or journal.node.text}{what.get('reasoning') or journal.node.reasoning}"
        idle = journal.continues and journal.is_empty and state is not State.COMPLETE
        if idle or not shown.strip():
            self._do(lambda store: journal.discard())
            self._step_back(place, journal)
            if not journal.continues:
                self._note(place, journal.start.parent, why)
            return
        node = self._do(lambda store: journal.finish(state, **what))
        if node is None:
            return
        self._tell_trouble(journal)
        place.tree, place.answered = place.tree.with_node(node), node.id
        if node.text.strip() and state in COUNTS:
            place.replied_to, place.again = node.id, None
        elif place.again is not None and place.again.tree.leaf == node.parent:
            # There is no earlier answer that it would be beside.
            place.again = None
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

    def _note(self, place: Place, prompt: int | None, why: Document) -> None:
        """Keep with a prompt why nothing came of it, unless it has an earlier answer."""
        if prompt is None or prompt not in place.tree.nodes or place.tree.has_replies(prompt):
            return
        self._do(lambda store: store.set_stats(prompt, why))
        told = replace(place.tree.nodes[prompt], ending=ending_in(why))
        place.tree = place.tree.with_node(told)
        if place.asked is not None and place.asked.id == prompt:
            place.asked = told

    def _return_to(self, place: Place, before: Place) -> Tree:
        """Stand where the chat stood before another answer was asked for."""
        place.tree = replace(place.tree, leaf=before.tree.leaf)
        place.replied_to, place.asked, place.again = before.replied_to, before.asked, None
        place.answered = before.answered
        return place.tree

    def _earlier(self, answer: int) -> dict[str, Any]:
        """The numbers of the parts of an answer before the one that has ended."""
        old = dict(self._do(lambda store: store.stats(answer)) or {})
        parts = [*old.pop("earlier", []), *([old] if old else [])]
        return {"earlier": parts} if parts else {}

    def _stop(self) -> None:
        self._end(State.STOPPED, numbers_of(FinishReason.CANCELLED))
