"""One answer on its way to the disk: pieces are appended, and become the message when the answer ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from app.conversations.ending import UNKNOWN, Ending, ending_in
from app.conversations.tree import TELLING, Document, Node, State, model_in
from app.core.errors import StoreError

WAIT_S = 0.8
"""How long a piece may wait; with a tick at least every fifth of a second, none waits longer than a second."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text that follows what was there."""

    text: str
    reasoning: bool


class Keeper(Protocol):
    """What a journal writes to. Every method raises `StoreError` when the disk refuses."""

    def keep(self, message: int, first: int, pieces: Sequence[Piece]) -> bool:
        """Append pieces, numbered from `first`; False if another process is in the way just now."""

    def fold(self, node: Node, stats: Document | None) -> None:
        """Replace a message and all its pieces; its numbers too, if there are any."""

    def drop(self, node: Node, leaf: int | None) -> None:
        """Take a message out, and make another one the active leaf."""


class Journal:
    """Keeps an answer while it is written. The caller adds what it shows and ticks; there is no thread in here.

    A disk that refuses never stops an answer: the pieces stay in memory, `trouble` says why, and the next tick tries
    again.

    Args:
        keeper: The store.
        node: The message as it was before; a new one is being written, one that is continued is not.
        leaf: The active leaf to go back to if nothing of a new one is to be kept.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, keeper: Keeper, node: Node, leaf: int | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keeper = keeper
        self.start = node
        """The message as it was before."""
        self._leaf = leaf
        self._clock = clock
        self._text: list[str] = [node.text]
        self._reasoning: list[str] = [node.reasoning]
        self._pending: list[Piece] = []
        self._since = 0.0
        self._kept = 0
        self.trouble: StoreError | None = None
        """Why the newest pieces are not on disk; None while they are, or wait for their time."""
        self.ended = False

    @property
    def continues(self) -> bool:
        """Whether it is more of an answer that ended early."""
        return self.start.state is not State.WRITING

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return len(self._text) + len(self._reasoning) == 2

    @property
    def waits(self) -> bool:
        """Whether something of it is not on disk yet."""
        return bool(self._pending)

    @property
    def node(self) -> Node:
        """The message as it is by now."""
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        return replace(self.start, state=State.WRITING, text=text, reasoning=reasoning, ending=UNKNOWN)

    def add(self, text: str, *, reasoning: bool = False) -> None:
        """Take what the answer grew by."""
        if not text:
            return
        if not self._pending:
            self._since = self._clock()
        (self._reasoning if reasoning else self._text).append(text)
        self._pending.append(Piece(text, reasoning))

    def tick(self) -> None:
        """Write what has waited long enough."""
        if self._pending and self._clock() - self._since >= WAIT_S:
            self.flush()

    def flush(self) -> None:
        """Write what waits, now."""
        if self.ended or not self._pending:
            return
        pieces = _joined(self._pending)
        try:
            if self._keeper.keep(self.start.id, self._kept, pieces):
                self._kept += len(pieces)
                self._pending.clear()
                self.trouble = None
        except StoreError as error:
            self.trouble = error
            # The next try comes after the same wait, not with the next token.
            self._since = self._clock()

    def finish(
        self, state: State, *, text: str | None = None, reasoning: str | None = None, stats: Document | None = None
    ) -> Node:
        """The answer has ended.

        Args:
            state: How.
            text: The whole answer; None takes what was added, behind what was there before.
            reasoning: The same for the thinking.
            stats: The answer's numbers; None leaves what was there.

        Returns:
            The message as it is on disk.

        Raises:
            StoreError: The disk refuses. Nothing is lost yet: `finish` can be called again.
        """
        node = self.node
        node = replace(
            node,
            state=state,
            ending=self._ending(state, stats),
            model=self.start.model if stats is None else model_in(stats),
            text=node.text if text is None else text,
            reasoning=node.reasoning if reasoning is None else reasoning,
        )
        self._keeper.fold(node, stats)
        self.ended = True
        self._pending.clear()
        self.trouble = None
        return node

    def _ending(self, state: State, stats: Document | None) -> Ending:
        """Why it is not whole, as it will be read from the disk."""
        if state not in TELLING:
            return UNKNOWN
        return self.start.ending if stats is None else ending_in(stats)

    def discard(self) -> int | None:
        """Nothing came of it: take a new message out of the conversation, leave a continued one as it was.

        Returns:
            The active leaf from then on.

        Raises:
            StoreError: The disk refuses.
        """
        if not self.continues:
            self._keeper.drop(self.start, self._leaf)
        else:
            self._keeper.fold(self.start, None)
        self.ended = True
        self._pending.clear()
        return self._leaf


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Pieces of one kind that follow each other as one."""
    found: list[list[Piece]] = []
    for piece in pieces:
        if found and found[-1][0].reasoning == piece.reasoning:
            found[-1].append(piece)
        else:
            found.append([piece])
    return [Piece("".join(piece.text for piece in run), run[0].reasoning) for run in found]
