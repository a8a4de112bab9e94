"""A conversation with its running answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

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
from app.conversations.tree import Document, Node, State, as_messages
from app.core.errors import AppError
from app.engine.text.segments import Segment
from app.engine.types import FinishReason
from app.session.branches import Branches, Turn, counts
from app.session.library import Library
from app.session.state import Outcome
from app.worker.events import Finished

if TYPE_CHECKING:
    from app.conversations.journal import Journal
    from app.conversations.store import Store

_STATE_BY_REASON = {
    FinishReason.STOP: State.COMPLETE,
    FinishReason.CANCELLED: State.STOPPED,
    FinishReason.LENGTH: State.CUT,
    FinishReason.CONTEXT: State.CUT,
    FinishReason.REPETITION: State.CUT,
}


class Conversation(Branches):
    """A conversation, and its running answer.

    Commands raise AppError if the store refuses.

    Args:
        models: Returns the names of the loaded models by role, stored with every answer.
    """

    def __init__(self, library: Library, models: Callable[[], Document]) -> None:
        super().__init__(library)
        self._models = models
        self._running: Journal | None = None
        self._save_failed = False

    @property
    def messages(self) -> tuple[Node, ...]:
        """The active branch, including the written part of the running answer."""
        path, running = self.tree.path, self._running
        if running is None or not path or path[-1].id != running.start.id:
            return path
        return (*path[:-1], running.node)

    @property
    def running(self) -> int | None:
        """Id of the running answer."""
        return self._running.start.id if self._running is not None else None

    @property
    def since_prompt(self) -> tuple[Message, ...]:
        """Return the tool calls and results between the last prompt and the running answer."""
        prompt, running = self.turn.prompt, self._running
        path = self.tree.path_to(running.start.parent if running is not None else self.tree.leaf)
        return as_messages(node for node in path if prompt is not None and node.id > prompt.id)

    def ask(self, text: str, instead_of: int | None = None) -> None:
        """Add a prompt and begin its answer.

        The unanswered last prompt is reused if it has the same text. The prompt becomes a branch beside `instead_of`.
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

    def regenerate(self, prompt: Node | None) -> None:
        """Begin another answer to a prompt."""
        id_ = prompt.id if prompt is not None and prompt.role is Role.USER else None
        if id_ is None or self._with_store(lambda store, number: self._begin(store, number, id_)) is None:
            raise AppError("There is no prompt to answer.")

    def go_on(self) -> None:
        """Begin the answer to the tool results at the end of the branch."""
        leaf = self.tree.leaf
        if leaf is None or self._with_store(lambda store, number: self._begin(store, number, leaf)) is None:
            raise AppError("The answer was not continued.")

    def add_result(self, result: ResultOf, text: str, state: State = State.COMPLETE) -> None:
        """Append a tool result to the branch."""
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

    @property
    def prefill(self) -> Prefill | None:
        """The earlier text of a running answer that is continued."""
        start = self._running.start if self._running is not None and self._running.continues else None
        return Prefill(start.text, start.reasoning) if start is not None else None

    def resume(self, answer: Node) -> None:
        """Continue an answer that ended early."""
        can_continue = answer.state.can_continue and answer.parent is not None
        journal = self.library.do(lambda store: store.resume(answer.id)) if can_continue else None
        if journal is None:
            raise AppError("This answer cannot be continued.")
        self._running, self._save_failed = journal, False
        self.tree = replace(self.tree.with_node(journal.node), leaf=answer.id)

    def add(self, segments: Iterable[Segment]) -> None:
        """Append shown text to the running answer."""
        if self._running is not None:
            for segment in segments:
                if segment.call:
                    # A call is stored when it is complete.
                    continue
                self._running.add(segment.text, reasoning=segment.reasoning)

    def save_due(self, next_s: float) -> None:
        """Write text that has waited long enough, if the next call comes in `next_s` seconds."""
        if self._running is not None:
            self._running.save_due(next_s)
            self._report_saving(self._running)

    def finish(self, event: Finished) -> Outcome:
        """Store an ended answer with its numbers."""
        ending = Ending(event.reason, event.repeats, at_limit=event.at_limit)
        numbers = event.stats.after(self._running.start.numbers) if self._running is not None else event.stats
        stats = {**ending.numbers, **numbers.document, **self._models()}
        if event.calls and event.reason is FinishReason.STOP and self._running is not None:
            answer = self._running.start.id
            calls = [replace(call, id=f"call{answer}n{n}") for n, call in enumerate(event.calls)]
            stats |= calls_as_numbers(calls)
        return self._end(_STATE_BY_REASON[event.reason], ending, event.text or None, event.reasoning or None, stats)

    def fail(self, error: AppError) -> Outcome:
        """Store why an answer failed, with its text."""
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

    def discard(self) -> None:
        """Remove the running answer, which another answer replaces."""
        journal, self._running = self._running, None
        if journal is not None:
            self._discard(journal, journal.start.parent, Ending())

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

    def abandon(self) -> None:
        """Accept no more text; on closing, the store marks a running answer as interrupted."""
        self._running = None
