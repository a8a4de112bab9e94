"""The tokens in a model's KV cache: reused by the next prompt, and read in batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.core.errors import ComputeError, Interrupted
from app.engine.interfaces import Cancelled, Follower, Logits, SavedState, TokenModel
from app.engine.pictures import part_end, whole_pictures

_FAST_NS = 2_000_000_000
"""A faster batch that can be stopped is followed by a batch twice as long."""
_LONGEST_NS = 250_000_000
"""Longest time of a batch that cannot be stopped."""
_LONGEST_QUEUE_NS = 125_000_000
"""Queued batches that take longer are awaited. A faster device continues without a pause."""
_SLOWDOWN_LIMIT = 1.5
"""Ratio of the times per token in shorter and longer batches above which shorter batches do not pay. With experts in
RAM, every batch may copy them to the GPU, however short it is."""
_MAX_GROWTH = 4
"""Largest growth of a batch that is tried because longer batches may pay."""
_MIN_TIMED_TOKENS = 32
"""Fewest prompt tokens that measure the speed, if a whole batch has more."""
_TEMPLATE_TAIL = 16
"""Tokens at the end of a prompt that the next prompt may lack: chat templates open a new answer, and its reasoning,
with tokens that earlier answers do not get."""
_KEEP_EVERY = 2048
"""Tokens of a long prompt between two saved states. After a document, usually only the question is edited."""


class PromptChunks:
    """Chooses the size of the next prompt batch from the times of earlier batches, so that a stop takes effect soon.

    A long batch reads the weights once for many tokens. The CPU ends a batch in the middle when the user stops it, but
    other devices compute every queued batch to its end.

    Args:
        first: Tokens of the first batch; every batch has at least half as many.
        stops_inside: Whether a stop ends a batch in the middle. Then each prompt begins with a batch of `first` tokens,
            so that its batches do not depend on earlier prompts.

    Attributes:
        ns_per_token: Nanoseconds of a prompt token in the last batches; None before enough tokens.
    """

    def __init__(self, first: int, longest: int, *, stops_inside: bool) -> None:
        self.size = self._first = first
        self._shortest, self._longest = max(1, first // 2), longest
        self._stops_inside = stops_inside
        self.ns_per_token: float | None = None
        self._times: dict[int, float] = {}
        """Nanoseconds of the last batch of each size."""

    def begin(self) -> None:
        if self._stops_inside:
            self.size = self._first

    def must_wait(self, n_queued: int) -> bool:
        """Return whether the device must compute the queued tokens before it gets more."""
        if self._stops_inside:
            return False
        return self.ns_per_token is None or n_queued * self.ns_per_token > _LONGEST_QUEUE_NS

    def observe(self, n_tokens: int, ns: int) -> None:
        """Learn from the time of a batch, or of several queued batches."""
        if n_tokens >= self.size:
            # The rest of a prompt says little about longer batches.
            size = self._next_size(max(1.0, ns * self.size / n_tokens))
            self.size = max(self._shortest, min(self._longest, size))
        # Try a longer batch: the first batch on a GPU may include the compilation of shaders.
        if n_tokens >= min(_MIN_TIMED_TOKENS, self.size):
            self.ns_per_token = ns / n_tokens

    def _next_size(self, ns: float) -> int:
        if self._stops_inside:
            return 2 * self.size if ns < _FAST_NS else self.size
        size, times = self.size, self._times
        if max(ns / times.get(size, ns), times.get(size, ns) / ns) > _SLOWDOWN_LIMIT:
            # Other programs slow the device down, or no longer do.
            times.clear()
        for n in [n for n, t in times.items() if (t / ns if n < size else ns / t) > _SLOWDOWN_LIMIT]:
            # The shorter of two batches waited, for example until the driver had compiled shaders.
            del times[n]
        times[size] = ns
        # Twice the tokens take at most twice the time, because a batch reads the weights only once.
        allowed = size * 2.0 ** math.floor(math.log2(_LONGEST_NS / ns))
        return int(max(allowed, self._shortest_worthwhile()))

    def _shortest_worthwhile(self) -> float:
        """Return the batch size above which the fixed part of its time matters little."""
        size, times = self.size, self._times
        if len(times) == 1:
            return 2 * size if times[size] <= _LONGEST_NS or size == self._shortest else 1
        shortest, longest = min(times), max(times)
        token_ns = max(1.0, (times[longest] - times[shortest]) / (longest - shortest))
        batch_ns = times[shortest] - shortest * token_ns
        wanted = min(batch_ns / token_ns / (_SLOWDOWN_LIMIT - 1), _MAX_GROWTH * longest)
        return 2.0 ** math.ceil(math.log2(max(1.0, wanted)))


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the number of leading tokens that two sequences share."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    # A list never equals a tuple, even with the same tokens.
    return next((i for i in range(n) if a[i] != b[i]), n)


@dataclass(frozen=True, slots=True)
class SavedCache:
    """A copy of a cache: its tokens and the model's state."""

    tokens: tuple[int, ...]
    state: SavedState

    @property
    def n_bytes(self) -> int:
        return len(self.state.data) + sum(len(data) for _, data in self.state.snapshots)


class TokenCache:
    """A model and the tokens it has evaluated.

    `len(cache.tokens) == model.n_past` between any two calls, even after a failure or cancellation. Pictures are runs
    of negative ids, and only whole pictures are cached; see `app.engine.pictures`.

    Args:
        translate: Maps token ids to ids that the model knows, one to one; None for the same ids. It also replaces the
            ids of pictures, which a draft model does not see.

    Attributes:
        is_broken: Whether the computation of a batch failed; then the model must not be used again.
    """

    def __init__(self, model: TokenModel, translate: Callable[[Sequence[int]], Sequence[int]] | None = None) -> None:
        self._model = model
        self._translate = translate
        self._tokens: list[int] = []
        self._chunks = PromptChunks(model.n_chunk, model.n_batch, stops_inside=model.stops_inside)
        self.is_broken = False
        self.follower: Follower | None = None

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> Sequence[int]:
        """Return the evaluated tokens, first position first."""
        return self._tokens

    @property
    def n_ctx(self) -> int:
        return self._model.n_ctx

    @property
    def n_batch(self) -> int:
        return self._model.n_batch

    @property
    def n_rollback(self) -> int:
        """Return the longest draft that can be rejected; see `TokenModel.n_rollback`."""
        return self._model.n_rollback

    @property
    def native_ns(self) -> int:
        return self._model.native_ns

    def logits(self, i: int) -> Logits:
        return self._model.logits(i)

    def reuse(self, prompt: Sequence[int]) -> int:
        """Roll back to the common prefix with a new prompt; return how many of its tokens need no evaluation.

        The last prompt token is always evaluated again, because its logits choose the first token. The token before it
        is evaluated again if the follower needs its hidden row.
        """
        n_shared = whole_pictures(prompt, common_prefix(self._tokens, prompt[:-1]))
        if self.follower is not None and not self.follower.can_follow_from(n_shared):
            n_shared -= 1
        return self.rollback(n_shared)

    def read(self, prompt: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Evaluate the missing part of a prompt; see `process`.

        A recurrent model saves its state shortly before the end, because the next prompt leaves out the reasoning of
        this answer. In a long prompt it also saves earlier states, for edits and branches, and one after each picture.
        """
        if self.n_rollback < self.n_ctx and len(prompt) > 2 * _TEMPLATE_TAIL:
            last_kept = len(self)
            end = whole_pictures(prompt, len(prompt) - _TEMPLATE_TAIL)
            for done in self.process(prompt[len(self) : end], cancelled):
                if done - last_kept >= _KEEP_EVERY or self._tokens[-1] < 0:
                    self._model.keep_state()
                    last_kept = done
                yield done
            self._model.keep_state()
        yield from self.process(prompt[len(self) :], cancelled)

    def process(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
        """Evaluate tokens in chunks, with logits only for the last token.

        `PromptChunks` chooses their sizes. Yields the cached tokens after each chunk. Raises `Interrupted` if canceled
        between or inside chunks; evaluated tokens stay.
        """
        chunks, model = self._chunks, self._model
        has_pictures = self._translate is None and min(tokens, default=0) < 0
        chunks.begin()
        done = waited_at = 0
        waited_ns = model.native_ns
        while done < len(tokens):
            if cancelled():
                raise Interrupted
            end = part_end(tokens, done, chunks.size) if has_pictures else done + chunks.size
            chunk = tokens[done:end]
            done += len(chunk)
            # A GPU queues batches without outputs.
            waits = done == len(tokens) or chunks.must_wait(done - waited_at)
            if chunk[0] < 0 and has_pictures:
                self._evaluate_picture(chunk, int(waits), cancelled)
            else:
                self.evaluate(chunk, n_outputs=int(waits))
            if waits or model.stops_inside:
                chunks.observe(done - waited_at, model.native_ns - waited_ns)
                waited_at, waited_ns = done, model.native_ns
            yield len(self._tokens)

    def _evaluate_picture(self, ids: Sequence[int], n_outputs: int, cancelled: Cancelled) -> None:
        """Evaluate a whole picture, which may be longer than a batch, or nothing of it."""
        for start in range(0, len(ids), self.n_batch):
            if cancelled():
                self.rollback(len(self) - start)
                raise Interrupted
            self.evaluate(ids[start : start + self.n_batch], n_outputs)

    def evaluate(self, tokens: Sequence[int], n_outputs: int) -> None:
        """Evaluate one batch, with logits for its last `n_outputs` tokens."""
        try:
            self._model.decode(self._as_read(tokens), n_outputs)
        except BaseException as error:
            self.is_broken = self.is_broken or isinstance(error, ComputeError)
            # A failed batch may leave some of its tokens in the cache; only the library knows how many.
            self._tokens.extend(tokens)
            del self._tokens[self._model.n_past :]
            raise
        self._tokens.extend(tokens)
        if self.follower is not None:
            self.follower.follow(self._tokens, len(tokens), n_outputs)

    def _as_read(self, tokens: Sequence[int]) -> Sequence[int]:
        return tokens if self._translate is None else self._translate(tokens)

    def seconds_to_read(self, n_tokens: int) -> float | None:
        """Estimate the seconds to read more prompt tokens at the last prefill speed, if it is known."""
        ns_per_token = self._chunks.ns_per_token
        return n_tokens * ns_per_token * 1e-9 if ns_per_token is not None else None

    def rollback(self, length: int) -> int:
        """Remove all tokens after the first `length`; return how many are left.

        A recurrent model that cannot roll back that far returns to an earlier saved state, or empties the cache. A cut
        inside a picture removes the whole picture.
        """
        if length < len(self._tokens):
            length = whole_pictures(self._tokens, length)
            if not (self._model.truncate(length) or self._model.restore_state(length)):
                self._model.clear()
            del self._tokens[self._model.n_past :]
        return len(self._tokens)

    def n_reusable(self, saved: SavedCache, prompt: Sequence[int]) -> int:
        """Return how many tokens of a prompt need no evaluation after a copy is restored."""
        n_shared = whole_pictures(prompt, common_prefix(saved.tokens, prompt[:-1]))
        if n_shared == len(saved.tokens) or self.n_rollback == self.n_ctx:
            return n_shared
        return max((n for n, _ in saved.state.snapshots if n <= n_shared), default=0)

    def save(self) -> SavedCache | None:
        """Copy the cache into RAM; None if there is no room."""
        state = self._model.save_sequence()
        return SavedCache(tuple(self._tokens), state) if state is not None else None

    def restore(self, saved: SavedCache) -> None:
        """Restore a copy, unless the cache already holds its tokens or can be rolled back to them.

        After a failure, the cache is empty.
        """
        has_all = common_prefix(saved.tokens, self._tokens) == len(saved.tokens)
        if has_all and (not saved.tokens or self.n_rollback == self.n_ctx):
            return
        if self.follower is not None:
            self.follower.forget()
        self._model.restore_sequence(saved.state, self._as_read(saved.tokens))
        self._tokens = list(saved.tokens[: self._model.n_past])
