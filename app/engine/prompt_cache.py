"""Save the caches of earlier prompts, so that returning to a conversation does not read it again.

llama-server calls this its prompt cache (`--cache-ram`). Tandem saves both models together, and files can outlive the
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from app.engine.cache import SavedCache, TokenCache, common_prefix

FEWEST = 128
"""Shorter prompts are not worth saving or restoring."""
_LOST_SHARE = 0.25
"""A prompt that discards a smaller share of the cached tokens saves nothing first: an edit of the last message is
common, and a copy of the whole cache would take memory from other conversations."""
_STORED_S = 2.0
"""States that take longer to read are also written to disk."""
_STORED_TOKENS = 1024
"""Tokens from which a state is written to disk while the reading speed is unknown."""


@dataclass(frozen=True, slots=True)
class SavedPrompt:
    """Both caches after an answer, and the name of its conversation, if any."""

    name: str
    target: SavedCache
    draft: SavedCache | None = None

    @property
    def n_bytes(self) -> int:
        return self.target.n_bytes + (self.draft.n_bytes if self.draft is not None else 0)

    def restore(self, target: TokenCache, draft: TokenCache | None) -> None:
        target.restore(self.target)
        if draft is not None and self.draft is not None:
            draft.restore(self.draft)


class StateStore(Protocol):
    """Saved states on disk. No method raises for a disk error."""

    def find(self, cache: TokenCache, prompt: Sequence[int], n_least: int) -> SavedPrompt | None:
        """Return the state that saves most tokens of a prompt, if it saves at least `n_least`."""

    def save(self, saved: SavedPrompt) -> None:
        """Queue a state for writing; it replaces an earlier state of the same conversation."""

    def write_soon(self) -> None:
        """Write the queued states in the background; called when no answer is running, which it would slow down."""

    def close(self) -> None:
        """Wait until everything is written."""


class PromptCache:
    """Saves the caches of a pair when another prompt replaces them, and restores them when it returns.

    Above `budget_bytes`, the oldest state is dropped first. `draft` returns the draft model's cache, if any; `store`
    writes states that took long to read.
    """

    def __init__(
        self,
        target: TokenCache,
        draft: Callable[[], TokenCache | None],
        budget_bytes: int = 0,
        store: StateStore | None = None,
    ) -> None:
        self._target = target
        self._draft = draft
        self._budget_bytes = budget_bytes
        self._store = store
        self._saved: list[SavedPrompt] = []
        """Saved states, oldest first."""
        self._name = ""

    @property
    def n_bytes(self) -> int:
        """Return the memory of all saved states."""
        return sum(saved.n_bytes for saved in self._saved)

    def prepare(self, prompt: Sequence[int], name: str = "") -> None:
        """Make the caches share as much as possible with the next prompt; `name` identifies its conversation."""
        target = self._target
        n_shared = common_prefix(target.tokens, prompt)
        found = self._find(prompt, n_shared + FEWEST)
        if len(target) - n_shared >= max(FEWEST, _LOST_SHARE * len(target)):
            self._keep()
        if found is not None:
            found.restore(target, self._draft())
        self._name = name

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Lend the caches to other work, and restore them after it.

        Without memory for a copy, the next prompt finds a state on disk, or reads everything again.
        """
        copied = self._copied() if self._budget_bytes and len(self._target) else None
        if copied is not None and copied.n_bytes + self.n_bytes > self._budget_bytes:
            copied = None
        if copied is None:
            self.prepare((), self._name)
        yield
        if copied is not None:
            copied.restore(self._target, self._draft())

    def write_soon(self) -> None:
        """Write states to disk in the background, after an answer."""
        if self._store is not None:
            self._store.write_soon()

    def close(self) -> None:
        """Write the present state to disk if it took long to read; forget all others. A second call does nothing."""
        self._saved.clear()
        store, self._store = self._store, None
        if store is not None:
            if self._is_worth_storing and (saved := self._copied()) is not None:
                store.save(saved)
            store.close()

    def _find(self, prompt: Sequence[int], n_least: int) -> SavedPrompt | None:
        """Return the state that saves most tokens; remove it from memory, because the cache will hold it."""
        target = self._target
        best = max(self._saved, key=lambda saved: target.n_reusable(saved.target, prompt), default=None)
        n_best = target.n_reusable(best.target, prompt) if best is not None else 0
        if self._store is not None and (stored := self._store.find(target, prompt, max(n_least, n_best + 1))):
            return stored
        if best is None or n_best < n_least:
            return None
        self._saved.remove(best)
        return best

    def _keep(self) -> None:
        store = self._store if self._is_worth_storing else None
        if not (self._budget_bytes or store) or (saved := self._copied()) is None:
            return
        if store is not None:
            store.save(saved)
        # A state that the new state continues is no longer useful.
        tokens = self._target.tokens
        kept = [old for old in self._saved if common_prefix(old.target.tokens, tokens) < len(old.target.tokens)]
        self._saved = [*kept, saved]
        while self._saved and self.n_bytes > self._budget_bytes:
            del self._saved[0]

    def _copied(self) -> SavedPrompt | None:
        if self._target.is_broken or (saved := self._target.save()) is None:
            return None
        draft = self._draft()
        return SavedPrompt(self._name, saved, draft.save() if draft is not None and not draft.is_broken else None)

    @property
    def _is_worth_storing(self) -> bool:
        n_tokens = len(self._target)
        seconds = self._target.seconds_to_read(n_tokens)
        return seconds >= _STORED_S if seconds is not None else n_tokens >= _STORED_TOKENS
