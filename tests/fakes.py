"""Scripted models and samplers: the real interfaces without weights."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from app.core.errors import DecodeError, Interrupted
from app.engine.interfaces import Logits, SavedState

Rule = Callable[[Sequence[int]], Mapping[int, float]]
"""Returns the distribution of the next token after all tokens so far."""

_Y = TypeVar("_Y")
_R = TypeVar("_R")
END = 0
N_VOCAB = 64


def to_end(work: Generator[_Y, None, _R]) -> tuple[_R, list[_Y]]:
    """Run work to its end; return its result and what it yielded."""
    yielded: list[_Y] = []
    while True:
        try:
            yielded.append(next(work))
        except StopIteration as done:
            return done.value, yielded


def always(token: int) -> Rule:
    """Return the same token every time."""
    return lambda _: {token: 1.0}


def script(tokens: Sequence[int], start: int) -> Rule:
    """Return `tokens` after a prompt of `start` tokens, then END, whatever the sequence contains."""

    def rule(sequence: Sequence[int]) -> Mapping[int, float]:
        at = len(sequence) - start
        return {tokens[at] if 0 <= at < len(tokens) else END: 1.0}

    return rule


def mixing(seed: int, n_vocab: int = N_VOCAB) -> Rule:
    """Return a token that depends on all earlier tokens, so that a wrong cell in a cache changes the text."""

    def rule(sequence: Sequence[int]) -> Mapping[int, float]:
        state = seed
        for token in sequence:
            state = (state * 1_000_003 + token + 1) % 2_147_483_647
        return {1 + state % (n_vocab - 1): 1.0}

    return rule


class FakeModel:
    """A `TokenModel` whose logits follow a rule.

    Attributes:
        batches: Every decoded batch.
        cells: Tokens in the KV cache.
        fail_at: Number of the decode call that raises, counted from 1; 0 for none.
        fail_with: The exception; half of the batch stays in the cache.
        can_truncate: Whether the cache can be cut anywhere; False for a recurrent model.
        n_snapshots: Number of earlier states of a recurrent model.
        decode_ns: Native time of a batch.
    """

    def __init__(self, rule: Rule, n_ctx: int = 512, n_batch: int = 16, n_vocab: int = N_VOCAB) -> None:
        self.rule = rule
        self.n_ctx = n_ctx
        self.n_batch = self.n_chunk = n_batch
        self.stops_inside = True
        self.n_vocab = n_vocab
        self.native_ns = 0
        self.decode_ns = 1000
        self.batches: list[tuple[int, ...]] = []
        self.cells: list[int] = []
        self.fail_at = 0
        self.fail_with: Exception = DecodeError("The fake failed.")
        self.can_truncate = True
        self.n_snapshots = self._n_revocable = 0
        self._kept: list[int] = []
        self._rows: list[Logits] = []

    @property
    def n_past(self) -> int:
        return len(self.cells)

    @property
    def n_rollback(self) -> int:
        return self.n_ctx if self.can_truncate else self.n_snapshots

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        assert 0 < len(tokens) <= self.n_batch
        assert 0 <= n_outputs <= len(tokens)
        assert len(self.cells) + len(tokens) <= self.n_ctx, "the engine must not decode beyond the context"
        self.batches.append(tuple(tokens))
        self.native_ns += self.decode_ns
        if len(self.batches) == self.fail_at:
            self.cells.extend(tokens[: len(tokens) // 2])
            raise self.fail_with
        self._rows, self._n_revocable = [], min(len(tokens) - 1, self.n_snapshots)
        for index, token in enumerate(tokens):
            self.cells.append(token)
            if index >= len(tokens) - n_outputs:
                self._rows.append(self._row())

    def _row(self) -> Logits:
        logits = np.full(self.n_vocab, -50.0, dtype=np.float32)
        for token, probability in self.rule(self.cells).items():
            logits[token] = np.log(probability)
        return logits

    def logits(self, i: int) -> Logits:
        return self._rows[i]

    def truncate(self, n_past: int) -> bool:
        assert 0 <= n_past <= len(self.cells)
        done = self.can_truncate or len(self.cells) - n_past <= self._n_revocable
        if done and n_past < len(self.cells):
            self._n_revocable = 0
            self._shrink(n_past)
        return done

    def clear(self) -> None:
        self._shrink(0)

    def keep_state(self) -> None:
        if not self.can_truncate:
            self._kept.append(len(self.cells))

    def restore_state(self, n_past: int) -> bool:
        best = max((n for n in self._kept if n <= n_past), default=0)
        if best:
            self._n_revocable = 0
            self._shrink(best)
        return best > 0

    def save_sequence(self) -> SavedState | None:
        return SavedState(bytearray(self.cells), tuple((n, b"") for n in self._kept))

    def restore_sequence(self, state: SavedState, tokens: Sequence[int]) -> bool:
        self.cells, self._kept, self._n_revocable = list(state.data), [n for n, _ in state.snapshots], 0
        return True

    def _shrink(self, n_past: int) -> None:
        del self.cells[n_past:]
        self._kept = [n for n in self._kept if n <= n_past]


class FakeSampler:
    """Sample from a fake target: greedy, or with a seed."""

    def __init__(self, model: FakeModel, seed: int | None = None) -> None:
        self._model = model
        self._seed = seed
        self.native_ns = 0
        self.seed = seed or 0
        self.prompt: tuple[int, ...] = ()
        self.emitted: list[int] = []
        self.closed = False
        self._random = np.random.default_rng(seed)

    def begin(self, prompt: Sequence[int]) -> None:
        self.prompt = tuple(prompt)
        self.emitted = []
        self._random = np.random.default_rng(self._seed)

    def sample(self, i: int) -> int:
        logits = self._model.logits(i)
        if self._seed is None:
            token = int(logits.argmax())
        else:
            weights = np.exp(logits.astype(np.float64))
            token = int(self._random.choice(len(weights), p=weights / weights.sum()))
        self.emitted.append(token)
        return token

    def n_allowed(self, tokens: Sequence[int]) -> int:
        return len(tokens)

    def close(self) -> None:
        self.closed = True


INTERRUPTED = Interrupted()
