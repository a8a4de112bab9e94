"""Keeps the chat's conversation in the store while it goes on; everything here runs on the screen's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from app.chat.message import Message, Role
from app.chat.tree import Document, Node, State, Summary, said
from app.engine.text import Segment
from app.engine.types import FinishReason
from app.errors import StoreError
from app.events import Finished

if TYPE_CHECKING:
    from app.chat.journal import Journal
    from app.chat.search import Hit
    from app.chat.store import Store

StoreOpener = Callable[[], "Store"]
"""Opens the store; may raise `StoreError`."""

_T = TypeVar("_T")
_ON_DISK_S = 1.0
"""What is shown is on disk after so long."""
_SLACK_S = 0.01
_COUNTS = (State.COMPLETE, State.STOPPED, State.CUT)
_STATES = {
    FinishReason.STOP: State.COMPLETE,
    FinishReason.CANCELLED: State.STOPPED,
    FinishReason.LENGTH: State.CUT,
    FinishReason.CONTEXT: State.CUT,
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation to go on with.

    Attributes:
        path: What is shown.
        said: What the model reads.
        asked: The last prompt, which can be answered again; None if there is none.
        draft: What was typed and not sent.
    """

    path: tuple[Node, ...] = ()
    said: tuple[Message, ...] = ()
    asked: str | None = None
    draft: str = ""


@dataclass(slots=True)
class _Place:
    """Where the chat stands in the store.

    Attributes:
        conversation: Its id; None while nothing was said.
        replied_to: What the next prompt replies to.
        asked: The prompt that was put last.
        active: The active leaf.
        draft: The unsent text that is kept.
        again: The active leaf before another answer was asked for; None unless that is so.
        settings: The conversation's own.
    """

    conversation: int | None = None
    replied_to: int | None = None
    asked: Node | None = None
    active: int | None = None
    draft: str = ""
    again: int | None = None
    settings: Document = field(default_factory=dict)


class Keeper:
    """Between the chat and the store. Without a store it keeps nothing and says nothing.

    No method raises for what a disk can do: what went wrong is said, and the chat goes on in memory.

    Args:
        open_store: Opens the store, called by `open_store`; None keeps nothing.
    """

    def __init__(self, open_store: StoreOpener | None = None) -> None:
        self._opener = open_store
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._place = _Place()
        self._empty_draft = ""
        self._troubled = False
        self._deleted: list[int] = []
        self.say: Callable[[str], object] = lambda text: None
        """Told what the user should know, as one line."""

    @property
    def keeps(self) -> bool:
        """Whether there is a store, or will be."""
        return self._opener is not None

    @property
    def is_open(self) -> bool:
        return self._store is not None

    @property
    def conversation(self) -> int | None:
        """The id of the conversation that is going on; None while nothing was said in it."""
        return self._place.conversation

    def open_store(self) -> None:
        """Open the store; takes about a millisecond. One that cannot be opened is one in memory."""
        if self._opener is None or self._store is not None:
            return
        try:
            self._store = self._opener()
        except StoreError as error:
            self._store = _memory()
            self._say(error, self._store.notice)
        else:
            if self._store.notice:
                self.say(self._store.notice)

    def close(self, draft: str | None = None) -> None:
        """Let go of the store; an answer on its way counts as cut, with all that was shown of it.

        Args:
            draft: What is typed and not sent; None leaves what is kept.
        """
        if draft is not None:
            self.draft(draft)
        store, self._store, self._journal, self._opener = self._store, None, None, None
        if store is not None:
            with suppress(StoreError):
                store.close()

    def tidy(self) -> None:
        """Remove for good what was deleted long ago; for when there is nothing else to do."""
        if self._store is not None:
            with suppress(StoreError):
                self._store.purge()

    # One conversation

    def ask(self, prompt: str, before: Sequence[Message] = ()) -> None:
        """A prompt is put to the model, and an answer begins.

        Args:
            prompt: What the user sent.
            before: What was said until then, for a conversation that is not in the store.
        """
        self._do(lambda store: self._ask(store, prompt, before))

    def again(self) -> None:
        """Another answer to the last prompt begins; the one that is there stays beside it."""
        place = self._place
        if place.conversation is not None and place.asked is not None:
            self._do(self._begin)
            place.again = place.active

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
            self._say(journal.trouble)
        self._troubled = journal.trouble is not None

    def finish(self, event: Finished, **more: Any) -> None:
        """The answer has ended.

        Args:
            event: How, with the whole text.
            more: What else to keep beside its numbers.
        """
        stats = {**_numbers(event), **more}
        self._end(_STATES[event.reason], text=event.text or None, reasoning=event.reasoning or None, stats=stats)

    def fail(self) -> None:
        """The answer has failed; what was shown of it stays in the store."""
        self._end(State.FAILED)

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
        self._place = _Place()
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
        path = found.tree.path
        replied_to, asked = _end_of(path)
        leaf = path[-1].id if path else None
        self._place = _Place(conversation, replied_to, asked, leaf, found.draft, settings=found.settings)
        heard = said(found.tree.path_to(replied_to))
        return Opened(path, heard, asked.text if asked is not None else None, found.draft)

    def draft(self, text: str) -> None:
        """Keep what was typed and not sent, if anything was said in the conversation."""
        place = self._place
        if place.conversation is not None and text != place.draft:
            self._do(lambda store: store.set_draft(place.conversation or 0, text))
            place.draft = text

    @property
    def settings(self) -> Document:
        """What the conversation was given of its own."""
        return self._place.settings

    def set_setting(self, key: str, value: object) -> None:
        """Keep something with the conversation, once anything was said in it; None takes it away."""
        place = self._place
        place.settings = {name: kept for name, kept in {**place.settings, key: value}.items() if kept is not None}
        self.with_conversation(lambda store, number: store.set_settings(number, place.settings))

    def with_conversation(self, action: Callable[[Store, int], _T]) -> _T | None:
        """What the store does with the conversation; None while nothing was said in it, or if the disk refuses."""
        number = self._place.conversation
        return None if number is None else self._do(lambda store: action(store, number))

    def with_store(self, action: Callable[[Store], _T]) -> _T | None:
        """What the store finds over all conversations; None without one, or if the disk refuses."""
        return self._do(action)

    # All of them

    def summaries(self) -> tuple[Summary, ...]:
        """All conversations, pinned ones first, then by when something was last said."""
        return self._do(lambda store: store.summaries()) or ()

    def search(self, query: str) -> tuple[Hit, ...]:
        """Conversations that hold every word; an answer on its way is found when it has ended."""
        return self._do(lambda store: store.search(query)) or ()

    def pin(self, conversation: int, pinned: bool) -> None:
        self._do(lambda store: store.pin(conversation, pinned), conversation)

    def delete(self, conversation: int) -> None:
        """Take one off the list; `undelete` brings it back."""
        self._do(lambda store: store.delete(conversation), conversation)
        self._deleted.append(conversation)

    def undelete(self) -> int | None:
        """Bring back what was deleted last since the program began; returns its id, or None if there is nothing."""
        if not self._deleted:
            return None
        conversation = self._deleted[-1]
        self._do(lambda store: store.undelete(conversation), conversation)
        return self._deleted.pop()

    @property
    def can_undelete(self) -> bool:
        return bool(self._deleted)

    @property
    def is_deleted(self) -> bool:
        """Whether the conversation that is going on was deleted."""
        return self._place.conversation in self._deleted

    # Behind it

    def _ask(self, store: Store, prompt: str, before: Sequence[Message]) -> None:
        place = self._place
        if place.conversation is None:
            conversation, leaf = store.create(place.settings), None
            for message in before:
                leaf = store.add(conversation, message.role, message.content, parent=leaf).id
            self._place = place = _Place(conversation, leaf, settings=place.settings)
            self._empty_draft = ""
        number = place.conversation
        assert number is not None
        asked = place.asked
        # A prompt that came to nothing and is sent once more is the same one.
        if asked is None or (asked.text, asked.parent) != (prompt, place.replied_to):
            place.asked = store.add(number, Role.USER, prompt, parent=place.replied_to)
        if place.draft:
            store.set_draft(number, "")
            place.draft = ""
        self._begin(store)

    def _begin(self, store: Store) -> None:
        place = self._place
        assert place.conversation is not None
        assert place.asked is not None
        place.again, self._troubled = None, False
        self._journal = store.answer(place.conversation, place.asked.id)

    def _end(self, state: State, **what: Any) -> None:
        journal, self._journal = self._journal, None
        if journal is None:
            return
        place = self._place
        shown = f"{what.get('text') or journal.node.text}{what.get('reasoning') or journal.node.reasoning}"
        if not shown.strip():
            place.active = self._do(lambda store: journal.discard())
            return
        node = self._do(lambda store: journal.finish(state, **what))
        if node is None:
            return
        if node.text.strip() and state in _COUNTS:
            place.replied_to = place.active = node.id
        elif place.again is not None:
            leaf = place.again
            self._do(lambda store: store.switch(place.conversation or 0, leaf))
        else:
            place.active = node.id

    def _do(self, action: Callable[[Store], _T], conversation: int | None = None) -> _T | None:
        """Let the store do something; what a disk refuses is said and done in memory.

        Args:
            action: What to do; done twice if the first time fails.
            conversation: Which one it concerns; None for the one that is going on.

        Returns:
            What came of it; None if nothing did.
        """
        store = self._store
        if store is None:
            return None
        try:
            return action(store)
        except StoreError as error:
            self._say(error)
            concerned = self._place.conversation if conversation is None else conversation
            if not self._is_there(store, concerned):
                if concerned == self._place.conversation:
                    self._place = _Place()
            else:
                self._forget_disk(store)
        with suppress(StoreError):
            return action(self._store or store)
        return None

    def _is_there(self, store: Store, conversation: int | None) -> bool:
        """Whether a conversation is where it was: then it is the disk, and not another Tandem that has removed it."""
        try:
            known = {None, *self._deleted, *(summary.id for summary in store.summaries())}
        except StoreError:
            return True
        return conversation in known

    def _forget_disk(self, store: Store) -> None:
        try:
            store.go_on_in_memory()
        except StoreError:
            self._store, self._place = _memory(), _Place()

    def _say(self, error: StoreError, more: str = "") -> None:
        self.say(" ".join(filter(None, (error.message, error.hint, more))))


def _end_of(path: Sequence[Node]) -> tuple[int | None, Node | None]:
    """What the next prompt replies to, and the prompt that can be answered again.

    A prompt without an answer, or with one that came to nothing, is not gone on from: models read turn and turn about.
    """
    last = path[-1] if path else None
    if last is None or last.role is Role.USER:
        return (last.parent, last) if last is not None else (None, None)
    asked = path[-2] if len(path) > 1 and last.role is Role.ASSISTANT and path[-2].role is Role.USER else None
    if asked is not None and not (last.text.strip() and last.state in _COUNTS):
        return asked.parent, asked
    return last.id, asked


def _memory() -> Store:
    from app.chat.store import Store

    return Store.in_memory()


def _numbers(event: Finished) -> dict[str, Any]:
    """The numbers of an answer, as JSON has them; what was not measured is left out."""
    stats, drafting = event.stats, event.drafting
    found = {
        "reason": event.reason.value,
        "prompt_n": stats.prompt_n,
        "cache_n": stats.cache_n,
        "predicted_n": stats.predicted_n,
        "predicted_per_second": round(stats.predicted_per_second, 2),
        "first_token_ms": round(stats.first_token_ns / 1e6, 1),
        "predicted_ms": round(stats.predicted_ns / 1e6, 1),
        "draft_n": stats.draft_n,
        "draft_n_accepted": stats.draft_n_accepted,
        "acceptance": stats.acceptance_rate,
        "mean_accepted_length": stats.mean_accepted_length,
        "mode": event.plan.mode,
        "drafter": event.plan.drafter,
        "speedup": drafting.speedup if drafting is not None else None,
    }
    return {name: value for name, value in found.items() if value is not None}
