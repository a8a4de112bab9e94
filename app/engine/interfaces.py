"""What the engine asks of the world. The native library and the scripted fakes of the tests both answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from app.engine.types import Draft, DraftingStatus, StepResult

if TYPE_CHECKING:
    # NumPy takes a tenth of the time to the first frame, and the screen never sees a row.
    import numpy as np
    from numpy.typing import NDArray

Logits: TypeAlias = "NDArray[np.float32]"
"""One row of raw logits, shape (n_vocab,)."""

Cancelled = Callable[[], bool]
"""Whether the user asked to stop; read between decodes."""

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""

IsEnd = Callable[[int], bool]
"""Whether an id ends an answer."""


def never() -> bool:
    """For what nobody asks for."""
    return False


def always() -> bool:
    """For what nobody forbids."""
    return True


@dataclass(frozen=True, slots=True)
class Controls:
    """What whoever waits for an answer may change while it is made; everything is read again and again.

    Attributes:
        cancelled: Read between decodes: whether to stop.
        inspected: Read in every round: whether somebody wants to see what the models thought in it.
        drafts: Read in every round: whether anything may be drafted in it. The strategy begins with the first such one.
    """

    cancelled: Cancelled = never
    inspected: Callable[[], bool] = never
    drafts: Callable[[], bool] = always


UNCONTROLLED = Controls()
"""Nobody stops it, looks at it or forbids drafts."""


def never_ends(token: int) -> bool:
    """For a text that only its length ends."""
    return False


@dataclass(frozen=True, slots=True)
class SavedState:
    """Copy of the whole state of a context, in RAM.

    Attributes:
        n_past: Tokens that it covers.
        data: Serialized KV cache.
        snapshots: Earlier recurrent states, which cannot be rolled back, each with its number of tokens.
    """

    n_past: int
    data: bytearray = field(repr=False)
    snapshots: tuple[tuple[int, Any], ...] = field(default=(), repr=False)


class TokenModel(Protocol):
    """A language model with one sequence in its KV cache."""

    @property
    def n_ctx(self) -> int:
        """Tokens that fit into the cache."""

    @property
    def n_batch(self) -> int:
        """Most tokens that one `decode` takes."""

    @property
    def n_chunk(self) -> int:
        """Tokens of a prompt in the first `decode`, 1 to `n_batch`: while it lasts, nobody hears how far it is."""

    @property
    def n_past(self) -> int:
        """Tokens that the cache holds now."""

    @property
    def n_rollback(self) -> int:
        """Most tokens at the end of a batch that `truncate` takes back right after it: the longest draft there can be.

        It is `n_ctx` where a cache can be cut anywhere and 0 where nothing can be taken back. Between them is a model
        that keeps so many earlier states; it takes back at most all but the first token of a batch, and once.
        """

    @property
    def native_ns(self) -> int:
        """Nanoseconds spent inside native calls so far."""

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Append `tokens` to the cache and compute logits for the last `n_outputs` of them.

        Raises:
            DecodeError: The batch was refused or failed; `n_past` tells what is left.
            Interrupted: A cancel cut the batch short; `n_past` tells what is left.
        """

    def logits(self, row: int) -> Logits:
        """The logits of one output of the last decode, 0 being the first; valid until the next decode."""

    def truncate(self, n_past: int) -> bool:
        """Keep the first `n_past` tokens; False if this kind of model cannot be cut there."""

    def clear(self) -> None:
        """Forget everything."""

    def keep_state(self) -> None:
        """Keep the state as it is now, besides some kept before, where `truncate` could not come back to it."""

    def restore_state(self, n_past: int) -> bool:
        """Go back to the last state of at most `n_past` tokens, all of them still held; False if none was kept."""

    def save_sequence(self) -> SavedState | None:
        """Return a copy of the whole sequence; None if free memory is short or the library fails."""

    def restore_sequence(self, state: SavedState) -> bool:
        """Replace the sequence by a saved one; on failure return False and leave the cache empty."""


class Sampler(Protocol):
    """Chooses tokens from the target's logits. It holds the state that penalties and random draws need."""

    @property
    def native_ns(self) -> int:
        """Nanoseconds spent inside native calls so far."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Start an answer: forget earlier ones and let the penalties see the end of the prompt."""

    def sample(self, row: int) -> int:
        """Choose from one output row of the target's last decode, and count the choice as emitted.

        Rows must be taken in order and only as far as the choices are kept, so that the state is the one
        that plain decoding would have.
        """


class Verdict(Enum):
    """What to do with a candidate that a draft model proposes."""

    DROP = "drop"
    """Leave it out and stop."""
    LAST = "last"
    """Take it and stop; the next one would cost another evaluation."""
    TAKE = "take"
    """Take it and go on."""


Judge = Callable[[int, float], Verdict]
"""Asked with the depth (0 first) and the probability of a candidate before it is taken."""


class ModelDrafting(Protocol):
    """A draft model as strategies use it."""

    @property
    def native_ns(self) -> int:
        """Nanoseconds spent inside native calls so far."""

    def unread(self, tokens: Sequence[int]) -> int:
        """Forget what is not the beginning of these tokens; returns how many must be evaluated before it can draft."""

    def read(self, tokens: Sequence[int], limit: int) -> None:
        """Evaluate the next `limit` of the tokens that are missing."""

    def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Evaluate a prompt. Yields how many of its tokens are done after each chunk."""

    def catch_up(self, tokens: Sequence[int]) -> None:
        """Evaluate whatever of the sequence is still missing, so that drafting can begin."""

    def draft(self, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        """Propose up to `limit` tokens that follow `tokens`, catching up first if need be."""

    def accept(self, n_accepted: int) -> None:
        """Learn how many tokens of the last draft the target kept."""


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """What a strategy is told of an answer before it proposes anything.

    Attributes:
        sequence: What the target was given and has chosen so far; its last token was just chosen.
        most_tokens: Most that may follow.
        is_end: Behind such a token nothing comes, so no draft is worth checking further than in front of it.
        single_so_far_ns: Nanoseconds of the tokens that this answer has already, where drafting was off until now.
    """

    sequence: Sequence[int]
    most_tokens: int
    is_end: IsEnd = never_ends
    single_so_far_ns: int = 0


class Strategy(Protocol):
    """Decides what is drafted, and learns from what became of it. One object serves one answer."""

    @property
    def native_ns(self) -> int:
        """Nanoseconds spent inside native calls so far."""

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        """Get ready for an answer. Yields how many tokens of its text a draft model has read, after each chunk."""

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """What to let the target check after `sequence`, at most `limit` tokens; empty for a plain step."""

    def lose_model(self) -> None:
        """The draft model failed while `begin` or `propose` used it: the rest of the answer goes on without it.

        After a `propose` that failed the round goes on without a draft, and `observe` is told of it.
        """

    def observe(self, result: StepResult) -> None:
        """Learn what became of the last proposal."""

    @property
    def status(self) -> DraftingStatus | None:
        """What is being done and why; None for a strategy that never drafts."""
