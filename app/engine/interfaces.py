"""Protocols between the engine and its models, samplers and strategies; tests implement them with scripted fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from app.engine.drafting_report import Speedup
from app.engine.types import NO_DRAFT, Draft, DraftingStatus

if TYPE_CHECKING:
    # Importing NumPy takes a tenth of the time to the first frame, and the screen needs no logits.
    import numpy as np
    from numpy.typing import NDArray

Logits: TypeAlias = "NDArray[np.float32]"
"""Raw logits of one output, shape (n_vocab,)."""

Rows: TypeAlias = "NDArray[np.float32]"
"""Hidden rows, shape (n_tokens, width)."""

Cancelled = Callable[[], bool]
"""Returns whether the user stopped the answer; called between decodes."""

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""

IsEnd = Callable[[int], bool]
"""Returns whether a token ends an answer."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Switches that the caller may change during an answer.

    Attributes:
        cancelled: Whether to stop; read between decodes.
        waits: Wait for some seconds or until a stop; return whether it was stopped.
        inspected: Whether to read probabilities for the inspector; read in each step.
        drafts: Whether to draft; read in each step. The strategy begins at the first step that may draft.
    """

    cancelled: Cancelled = lambda: False
    waits: Callable[[float], bool] = lambda seconds: False
    inspected: Callable[[], bool] = lambda: False
    drafts: Callable[[], bool] = lambda: True


UNCONTROLLED = Controls()
"""Never canceled or inspected, always drafting."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """Copy of the whole state of a context, in RAM.

    Attributes:
        snapshots: Earlier states of a recurrent model, each with its number of tokens.
    """

    data: bytearray | memoryview = field(repr=False)
    snapshots: tuple[tuple[int, Any], ...] = field(default=(), repr=False)


class NativeTimed(Protocol):
    """Something that calls the native library."""

    @property
    def native_ns(self) -> int:
        """Nanoseconds spent inside native calls so far."""


class TokenModel(NativeTimed, Protocol):
    """A language model with one sequence in its KV cache."""

    @property
    def n_ctx(self) -> int:
        """Tokens that fit into the cache."""

    @property
    def n_batch(self) -> int:
        """Largest number of tokens in one `decode`."""

    @property
    def n_chunk(self) -> int:
        """Prompt tokens of the first `decode`, 1 to `n_batch`; progress is reported between decodes."""

    @property
    def stops_inside(self) -> bool:
        """Whether a cancellation ends a long `decode` in the middle."""

    @property
    def n_past(self) -> int:
        """Tokens that the cache holds now."""

    @property
    def n_rollback(self) -> int:
        """Number of final tokens of a batch that `truncate` can remove right after it: the longest possible draft.

        `n_ctx` for a cache that can be cut anywhere, 0 for recurrent state that cannot be rolled back. Other recurrent
        models store that many earlier states. They can roll back once per batch, and not past its first token. A
        sliding-window cache can be rolled back by one batch.
        """

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Append `tokens` to the cache and compute logits for the last `n_outputs` of them.

        Without outputs, a device may compute the batch later. A batch of negative ids is a picture or the next part of
        a picture, which is encoded first; see `app.engine.pictures`.

        Raises:
            DecodeError: The batch was refused or failed; `n_past` counts the remaining tokens.
            Interrupted: A cancellation ended the batch early; `n_past` counts the remaining tokens.
        """

    def logits(self, i: int) -> Logits:
        """Return the logits of output `i` of the last decode; valid until the next decode."""

    def truncate(self, n_past: int) -> bool:
        """Keep the first `n_past` tokens; False if this kind of model cannot be cut there."""

    def clear(self) -> None:
        """Empty the cache."""

    def keep_state(self) -> None:
        """Save the present state, unless `truncate` can return to it."""

    def restore_state(self, n_past: int) -> bool:
        """Return to the last saved state of at most `n_past` tokens; False if there is none."""

    def save_sequence(self) -> SavedState | None:
        """Return a copy of the whole sequence; None if free memory is short or the library fails."""

    def restore_sequence(self, state: SavedState, tokens: Sequence[int]) -> bool:
        """Replace the sequence by a saved copy of these tokens; on failure, return False and leave the cache empty."""


class Sampler(NativeTimed, Protocol):
    """Samples tokens from the target's logits. It holds the state of penalties and of the random generator."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Start an answer: forget earlier answers, and let the penalties see the end of the prompt."""

    def sample(self, i: int) -> int:
        """Sample from output `i` of the target's last decode, and count the token as emitted.

        Call it in order, and only for emitted tokens, so that the state is the same as without drafts.
        """


class Verdict(Enum):
    """Decision about a token proposed by the draft model."""

    DROP = "drop"
    """Drop the token and stop."""
    LAST = "last"
    """Accept the token and stop."""
    TAKE = "take"
    """Accept the token and continue."""


Judge = Callable[[int, float], Verdict]
"""Decides about a token from its depth (0 first) and probability."""


class HeadModel(NativeTimed, Protocol):
    """Draft layers that read the target's hidden rows, and their KV cache.

    All positions are positions of the target's tokens.
    """

    @property
    def n_ctx(self) -> int:
        """Positions that fit into the KV cache."""

    @property
    def longest(self) -> int:
        """Longest possible draft in tokens."""

    @property
    def row_shift(self) -> int:
        """1 if position i takes token i and the target's row i - 1; 0 if it takes row i alone."""

    def compute_rows(self, is_on: bool) -> None:
        """Set whether the target computes hidden rows; without them it is faster."""

    def hidden_rows(self, n: int) -> Rows:
        """Return a copy of the hidden rows of the target's last batch of `n` tokens, shape (n, width)."""

    def read(self, start: int, tokens: Sequence[int], rows: Rows, n_outputs: int) -> None:
        """Evaluate tokens with their rows from position `start`; compute the last logits if `n_outputs` is 1.

        Raises `DecodeError` if the batch was refused or failed.
        """

    def draft_next(self, position: int, token: int) -> None:
        """Evaluate a drafted token with the row of the previous evaluation; compute the next logits."""

    def block(self, position: int, token: int, n: int) -> None:
        """Compute `n` drafted tokens after `token`, the last token, in one pass."""

    def drafted(self, i: int) -> tuple[int, float]:
        """Return token `i` of the last evaluation and its probability; `i` is 0 outside a block.

        The tokens of a block are read in order, because each may depend on the previous token.
        """

    @property
    def first_logits(self) -> Logits | None:
        """Return the logits of token 0, until the next evaluation; None for layers that score only a few candidates."""

    def rollback(self, position: int) -> None:
        """Remove this and all later positions from the KV cache."""

    def clear(self) -> None:
        """Empty the KV cache; the next read may begin at any position."""


class Follower(Protocol):
    """Draft layers that receive the hidden rows of each target batch."""

    def can_follow_from(self, n_past: int) -> bool:
        """Return whether the target can continue after its first `n_past` tokens without a missing row."""

    def follow(self, tokens: Sequence[int], n_new: int, n_outputs: int) -> None:
        """Store the rows of the last batch, for the last `n_new` of `tokens`, which is the whole cache."""

    def forget(self) -> None:
        """Forget all tokens, because the target's cache was replaced."""


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """An answer as a strategy sees it at its start.

    Attributes:
        sequence: Prompt and answer so far; the last token was just chosen.
        undrafted_ns: Nanoseconds of the answer so far, if drafting was off until now.
    """

    sequence: Sequence[int]
    max_tokens: int
    is_end: IsEnd = lambda token: False
    undrafted_ns: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """Outcome of a step, as a strategy learns from it.

    Attributes:
        tokens: The emitted tokens, accepted tokens first.
        work_ns: Nanoseconds since the end of the previous step, by the work clock.
        draft_ns: Part of `work_ns` spent on the proposal.
        stretch: Wall time over time by the work clock; above 1 while other programs compete.
    """

    n_past: int
    draft: Draft
    tokens: tuple[int, ...]
    n_accepted: int
    work_ns: int
    draft_ns: int
    stretch: float = 1.0


class Strategy:
    """Proposes drafts and learns from the steps of an answer. These defaults draft nothing."""

    def begin(self, start: AnswerStart, cancelled: Cancelled) -> Iterator[int]:
        """Prepare for an answer; yield the tokens that the draft model has read after each chunk."""
        return iter(())

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        """Return a draft of at most `limit` tokens after `sequence`; empty for a single-token step."""
        return NO_DRAFT

    def lose_model(self) -> None:
        """Continue without the draft model, which failed in `begin` or `propose`.

        After a failed `propose` the step has no draft; `observe` is called for it.
        """

    def observe(self, result: StepResult) -> None:
        """Learn from a finished step."""

    @property
    def status(self) -> DraftingStatus | None:
        """Return source and reason of the last draft; None for a strategy that never drafts."""
        return None

    @property
    def speedup(self) -> Speedup | None:
        """Return the speedup, whose time includes the draft model's reading; None after too few drafts."""
        return None
