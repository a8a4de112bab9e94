"""One conversation: its branches, the answer being written, the prompts that wait, and all of it in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from app.conversations.attached import joined
from app.conversations.message import (
    Ending,
    Message,
    Prefill,
    ResultOf,
    Role,
    calls_as_numbers,
    calls_in,
    without_ending,
)
from app.conversations.titles import title_of
from app.conversations.tree import Document, Node, State, Tree, as_messages, readable
from app.core.errors import AppError
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.session.library import Library
from app.session.turn import Outcome, Turn, counts
from app.worker.events import Finished

if TYPE_CHECKING:
    from app.conversations.journal import Journal
    from app.conversations.store import Store

_T = TypeVar("_T")
_WAITING_PROMPT, _WAITING_ANSWER = -1, -2
"""Ids of messages that are in no conversation yet."""
_SIMILAR_ANSWERS = 4
"""Earlier answers to the same prompt that n-gram drafting may search."""
_STATE_BY_REASON = {
    FinishReason.STOP: State.COMPLETE,
    FinishReason.CANCELLED: State.STOPPED,
    FinishReason.LENGTH: State.CUT,
    FinishReason.CONTEXT: State.CUT,
    FinishReason.REPETITION: State.CUT,
}


class Conversation:
    """One conversation as a tree of messages with an active branch, in a library that stores it.

    Args:
        models: Returns the names of the loaded models by role, stored with every answer.

    Attributes:
        number: Id in the store; None until the first prompt.
        settings: Settings of this conversation alone.
        unsent_text: Text of the input line, as stored last.
        queued: Prompts that wait for their turn, first one first; they are stored in front of `unsent_text`.
    """

    def __init__(self, library: Library, models: Callable[[], Document]) -> None:
        self.library = library
        self.number: int | None = None
        self.tree = Tree()
        self.settings: Document = {}
        self.unsent_text = ""
        self.queued: tuple[str, ...] = ()
        self._models = models
        self._stored_input = ""
        """Text that the store holds for the input line."""
        self._running: Journal | None = None
        self._save_failed = False
        self._deletions: list[tuple[Tree, Tree]] = []
        """The tree before and after each deletion of a message."""

    def load(self, number: int) -> bool:
        """Take over a stored conversation; return whether it exists."""
        found = self.library.do(lambda store: store.load(number))
        if found is None:
            return False
        self.number, self.tree, self.settings = number, found.tree, found.settings
        self.unsent_text = self._stored_input = found.unsent_text
        return True

    def _with_store(self, action: Callable[[Store, int], _T]) -> _T | None:
        """Run a store action on this conversation; None before its first prompt or on a disk error."""
        number = self.number
        return None if number is None else self.library.do(lambda store: action(store, number))

    # What it holds

    @property
    def turn(self) -> Turn:
        return Turn.of(self.tree.path)

    @property
    def messages(self) -> tuple[Node, ...]:
        """The active branch with the running answer as far as it is written."""
        path, running = self.tree.path, self._running
        if running is None or not path or path[-1].id != running.start.id:
            return path
        return (*path[:-1], running.node)

    def messages_with(self, waiting: str) -> tuple[Node, ...]:
        """Return the active branch with a prompt that waits for the models, and the answer that it will get."""
        turn = self.turn
        prompt = turn.prompt
        if turn.is_answered or prompt is None or prompt.text != waiting:
            prompt = Node(_WAITING_PROMPT, turn.parent, Role.USER, waiting)
        answer = Node(_WAITING_ANSWER, prompt.id, Role.ASSISTANT, "", state=State.WRITING)
        return (*self.tree.path_to(turn.parent), prompt, answer)

    @property
    def running(self) -> int | None:
        """Id of the answer being written."""
        return self._running.start.id if self._running is not None else None

    def read_before(self, prompt: Node | None) -> tuple[str, tuple[Node, ...]]:
        """Return the summary and the messages that the model reads before a prompt; for None, of the whole branch."""
        summary, nodes = readable(self.tree.path_to(self.turn.parent if prompt is None else prompt.id))
        return summary, tuple(nodes if prompt is None else nodes[:-1])

    def messages_before(self, prompt: Node | None) -> tuple[Message, ...]:
        """Return the messages that the model reads before a prompt; for None, of the whole branch."""
        return as_messages(self.read_before(prompt)[1])

    def set_numbers(self, prompt: Node, stats: Document) -> None:
        """Store the numbers of a prompt, such as what the model reads before it from now on."""
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

    @property
    def since_prompt(self) -> tuple[Message, ...]:
        """Return the calls of tools, and their results, between the last prompt and the running answer."""
        prompt, running = self.turn.prompt, self._running
        path = self.tree.path_to(running.start.parent if running is not None else self.tree.leaf)
        return as_messages(node for node in path if prompt is not None and node.id > prompt.id)

    # Answers

    # The commands below raise AppError where the store refuses.

    def ask(self, text: str, instead_of: int | None = None) -> None:
        """Add a prompt and begin its answer.

        The unanswered last prompt is used again if it has the same text. The prompt becomes a branch beside
        `instead_of`.
        """
        self.library.open_store()
        if self.library.do(lambda store: self._ask(store, text, instead_of)) is None:
            raise AppError("The prompt was not sent.")

    def _ask(self, store: Store, text: str, instead_of: int | None) -> Node:
        replaced = self.tree.nodes.get(instead_of) if instead_of is not None else None
        turn = self.turn if replaced is None else Turn(replaced, parent=replaced.parent)
        number = self.number if self.number is not None else self._create(store)
        prompt = turn.prompt
        is_new = prompt is None or (prompt.text, prompt.parent) != (text, turn.parent)
        if prompt is None or is_new:
            prompt = store.add(number, Role.USER, text, parent=turn.parent)
            self.tree = self.tree.with_node(prompt)
            if prompt.parent is None:
                store.retitle(number, text, [node.text for node in self.tree.siblings(prompt.id)])
        self._store_input(store)
        return self._begin(store, number, prompt.id)

    def _create(self, store: Store) -> int:
        if self._stored_input:
            store.save_pending_input("")
            self._stored_input = ""
        self.number = number = store.create(self.settings)
        return number

    def regenerate(self, prompt: Node | None) -> None:
        """Begin another answer to a prompt."""
        id_ = prompt.id if prompt is not None and prompt.role is Role.USER else None
        if id_ is None or self._with_store(lambda store, number: self._begin(store, number, id_)) is None:
            raise AppError("There is no prompt to answer.")

    def go_on(self) -> None:
        """Begin the answer to the results of tools at the end of the branch."""
        leaf = self.tree.leaf
        if leaf is None or self._with_store(lambda store, number: self._begin(store, number, leaf)) is None:
            raise AppError("The answer was not continued.")

    def add_result(self, result: ResultOf, text: str, state: State = State.COMPLETE) -> None:
        """Add the result of a tool at the end of the branch."""
        leaf = self.tree.leaf
        node = self._with_store(
            lambda store, number: store.add(number, Role.TOOL, text, parent=leaf, state=state, stats=result.numbers)
        )
        if node is None:
            raise AppError("The result of the tool was not saved.")
        self.tree = self.tree.with_node(node)

    def _begin(self, store: Store, number: int, parent: int) -> Node:
        journal = store.answer(number, parent, models=self._models())
        self.tree = self.tree.with_node(journal.node)
        self._running, self._save_failed = journal, False
        return journal.node

    def resume(self, answer: Node) -> Prefill:
        """Continue an answer that ended early; return what it holds."""
        can_continue = answer.state.can_continue and answer.parent is not None
        journal = self.library.do(lambda store: store.resume(answer.id)) if can_continue else None
        if journal is None:
            raise AppError("This answer cannot be continued.")
        self._running, self._save_failed = journal, False
        self.tree = replace(self.tree.with_node(journal.node), leaf=answer.id)
        return Prefill(answer.text, answer.reasoning)

    def add(self, segments: Iterable[Segment]) -> None:
        """Append shown text to the running answer."""
        if self._running is not None:
            for segment in segments:
                if segment.is_call:
                    # It is stored when it is complete.
                    continue
                self._running.add(segment.text, reasoning=segment.reasoning)

    def save_due(self, next_s: float) -> None:
        """Write text that has waited long enough, if the next call comes in `next_s` seconds."""
        if self._running is not None:
            self._running.save_due(next_s)
            self._report_saving(self._running)

    def finish(self, event: Finished) -> Outcome:
        """Store an ended answer with its numbers; of a continued one, those of its last part."""
        ending = Ending(event.reason, event.repeats, at_limit=event.at_limit)
        stats = {**ending.numbers, **event.numbers.document, **self._models()}
        if event.calls and event.reason is FinishReason.STOP and self._running is not None:
            answer = self._running.start.id
            calls = [replace(call, id=f"call{answer}n{n}") for n, call in enumerate(event.calls)]
            stats |= calls_as_numbers(calls)
        return self._end(_STATE_BY_REASON[event.reason], ending, event.text or None, event.reasoning or None, stats)

    def fail(self, error: AppError) -> Outcome:
        """Store why an answer failed, with the text it has."""
        ending = Ending(failure=error)
        if self._running is not None and self._running.continues:
            return replace(self._end(self._running.start.state, ending), reverted=True)
        return self._end(State.FAILED, ending, stats={**ending.numbers, **self._models()})

    def stop(self) -> Outcome:
        """End the running answer without waiting for the engine."""
        return self._end(State.STOPPED, Ending(FinishReason.CANCELLED))

    def _end(
        self,
        state: State,
        ending: Ending,
        text: str | None = None,
        reasoning: str | None = None,
        stats: Document | None = None,
    ) -> Outcome:
        """Store the end of the running answer; for arguments see `Journal.finish`."""
        journal, self._running = self._running, None
        if journal is None:
            return Outcome(ending, "")
        parent = journal.start.parent
        prompt = self.turn.prompt
        # Another Tandem may have changed the active branch.
        fallback = journal.leaf if journal.leaf in self.tree.nodes else parent
        thought = bool((reasoning or journal.node.reasoning).strip())
        outcome = Outcome(ending, prompt.text if prompt is not None else "", thought)
        idle = journal.continues and journal.is_empty and state is not State.COMPLETE
        has_calls = bool(calls_in(stats or {}))
        if idle or not ((text or journal.node.text).strip() or thought or has_calls):
            self._discard(journal, fallback, ending)
            reverted = journal.continues or fallback != parent
            has_results = parent is not None and self.tree.nodes[parent].role is Role.TOOL
            return replace(outcome, reverted=reverted, counts=has_results or (idle and counts(journal.start)))
        node = journal.finish(state, text=text, reasoning=reasoning, stats=stats)
        self._report_saving(journal)
        self.tree = self.tree.with_node(node)
        is_good = counts(node) and state is not State.FAILED
        if is_good or journal.continues or fallback is None or fallback == parent:
            return replace(outcome, counts=counts(node))
        self._activate(fallback)
        return replace(outcome, reverted=True)

    def _discard(self, journal: Journal, fallback: int | None, ending: Ending) -> None:
        self.library.do(lambda store: journal.discard())
        self._report_saving(journal)
        start = journal.start
        if journal.continues:
            self.tree = self.tree.with_node(start)
            return
        self.tree = self.tree.without(start.id, fallback)
        prompt = self.tree.nodes.get(start.parent or 0)
        if prompt is not None and not self.tree.replies(prompt.id):
            self.set_numbers(prompt, without_ending(prompt.stats) | ending.numbers)

    def _report_saving(self, journal: Journal) -> None:
        failed_before, self._save_failed = self._save_failed, journal.error is not None
        if journal.error is not None and not failed_before:
            self.library.report(journal.error)

    # Branches

    def switch(self, message: int) -> None:
        """Make the branch through a message the active one."""
        tree = self.tree.switched(message)
        if tree.leaf is not None and tree.leaf != self.tree.leaf:
            self._activate(tree.leaf)

    def _activate(self, leaf: int) -> None:
        self._with_store(lambda store, number: store.switch(number, leaf))
        self.tree = replace(self.tree, leaf=leaf)

    def rewrite(self, answer: Node, text: str) -> None:
        """Add the user's own answer beside one and continue from it."""
        node = self._with_store(
            lambda store, number: store.add(number, Role.ASSISTANT, text, parent=answer.parent, state=answer.state)
        )
        if node is None:
            raise AppError("The answer was not saved.")
        self.tree = self.tree.with_node(node)

    def delete(self, message: Node) -> None:
        """Remove a message, as `Tree.without_message` does; `undelete` restores it."""
        before, after = self.tree, self.tree.without_message(message.id)
        if message.role is Role.SYSTEM or not self._replace_tree(after):
            raise AppError("The message was not deleted.")
        self._deletions.append((before, after))

    @property
    def can_undelete(self) -> bool:
        """Return whether nothing was added since a message was deleted."""
        return bool(self._deletions) and self._deletions[-1][1].nodes is self.tree.nodes

    def undelete(self) -> None:
        """Restore the message that was deleted last, if `can_undelete`."""
        if not self.can_undelete or not self._replace_tree(self._deletions[-1][0]):
            raise AppError("The message was not restored.")
        self._deletions.pop()

    def _replace_tree(self, tree: Tree) -> bool:
        before = self.tree
        stored = self._with_store(lambda store, number: store.replace_tree(number, before, tree))
        self.tree = stored or before
        return stored is not None

    def fork(self, message: Node) -> int:
        """Copy the branch up to a message into a new conversation; return its id."""
        path = self.tree.path_to(message.id)
        copy = self._with_store(lambda store, number: store.fork(number, path))
        if copy is None:
            raise AppError("The conversation was not copied.")
        return copy

    # Unsent text

    def set_unsent_text(self, text: str) -> None:
        """Store the text of the input line, behind the prompts that wait."""
        self.unsent_text = text
        self.library.do(self._store_input)

    def queue(self, text: str) -> None:
        """Let a prompt wait."""
        self.library.open_store()
        self.queued = (*self.queued, text)
        self.library.do(self._store_input)

    def leave(self, unsent_text: str) -> None:
        """Store the text of the input line; list a new conversation if a prompt waits in it."""
        if self.number is None and self.queued:
            self.library.do(self._create_named)
        self.set_unsent_text(unsent_text)

    def _create_named(self, store: Store) -> None:
        store.name(self._create(store), title_of(self.queued[0]))

    def unqueue(self, at: int) -> str:
        """Return a prompt that waits no more; the store keeps it until `set_unsent_text` or its answer begins."""
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
        """Return what an earlier run left in the input line of an empty conversation."""
        self.unsent_text = self._stored_input = self.library.do(lambda store: store.take_pending_input()) or ""
        return self.unsent_text

    # Settings and end

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Store the conversation's own settings, at its first prompt at the earliest."""
        if settings != self.settings:
            self.settings = settings
            self._with_store(lambda store, number: store.set_settings(number, settings))

    def abandon(self) -> None:
        """Take no more text; the store counts a running answer as cut once it closes."""
        self._running = None
