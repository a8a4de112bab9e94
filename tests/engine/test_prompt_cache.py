"""Caches that are saved when another prompt replaces them, and restored when it returns."""

from collections.abc import Sequence
from itertools import cycle, islice

import pytest

from app.engine.cache import TokenCache
from app.engine.prompt_cache import FEWEST, PromptCache, SavedPrompt
from tests.fakes import FakeModel, always

A, B, C = (list(islice(cycle(part), 2 * FEWEST)) for part in ((1, 2, 3), (4, 5), (6, 7, 8, 9)))
_STATE = 2 * FEWEST
"""Bytes of a saved state of the fake model: one for each token."""


class FakeStore:
    """States on a disk that is a list."""

    def __init__(self) -> None:
        self.saved: list[SavedPrompt] = []
        self.is_closed = False

    def find(self, cache: TokenCache, prompt: Sequence[int], n_least: int) -> SavedPrompt | None:
        found = (saved for saved in self.saved if cache.n_reusable(saved.target, prompt) >= n_least)
        return next(found, None)

    def save(self, saved: SavedPrompt) -> None:
        self.saved.append(saved)

    def write_soon(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class Conversations:
    """A fake model's cache that reads prompts through a prompt cache."""

    def __init__(self, budget_bytes: int, store: FakeStore | None = None, *, can_truncate: bool = True) -> None:
        self.model = FakeModel(always(1), n_ctx=4096)
        self.model.can_truncate = can_truncate
        self.cache = TokenCache(self.model)
        self.draft: TokenCache | None = None
        self.prompt_cache = PromptCache(self.cache, lambda: self.draft, budget_bytes, store)

    def read(self, prompt: Sequence[int], name: str = "") -> int:
        """Read a prompt; return how many of its tokens needed no reading."""
        self.prompt_cache.prepare(prompt, name)
        n_cached = self.cache.reuse(prompt)
        list(self.cache.read(prompt, lambda: False))
        return n_cached


@pytest.mark.parametrize(
    ("budget", "prompts", "n_reused", "n_bytes"),
    [
        pytest.param(10 * _STATE, [A, B, [*A, 9, 9], [*B, 9, 9]], [len(A), len(B)], None, id="comes back"),
        pytest.param(0, [A, B, [*A, 9]], [0], 0, id="no memory"),
        pytest.param(_STATE, [A, B, C, [*B, 9], [*A, 9]], [len(B), 0], 0, id="the oldest is dropped first"),
        pytest.param(10 * _STATE, [A, B, [*A, *C], B], [len(B) - 1], len(A) + len(C), id="replaces what it continues"),
        pytest.param(10 * _STATE, [[*A, *A, 1, 2, 3, 4], [*A, *A, 5, 6]], [2 * len(A)], 0, id="a small edit"),
    ],
)
def test_a_conversation_that_comes_back_is_not_read_again(
    budget: int, prompts: list[list[int]], n_reused: list[int], n_bytes: int | None
) -> None:
    chats = Conversations(budget)
    assert [chats.read(prompt) for prompt in prompts][-len(n_reused) :] == n_reused
    assert n_bytes is None or chats.prompt_cache.n_bytes == n_bytes


def test_the_draft_model_is_saved_and_restored_with_the_target() -> None:
    chats = Conversations(10 * _STATE)
    draft = chats.draft = TokenCache(FakeModel(always(1), n_ctx=4096))
    for prompt in (A, B, A):
        chats.read(prompt)
        before = len(draft.tokens)
        draft.reuse(prompt)
        list(draft.read(prompt, lambda: False))
    assert before == len(A)


def test_a_recurrent_model_goes_back_to_an_earlier_state_of_another_conversation() -> None:
    chats = Conversations(10 * _STATE, can_truncate=False)
    chats.read(A)
    chats.read(B)
    assert 0 < chats.read([*A[:-8], 9, 9, 9, 9]) < len(A)


@pytest.mark.parametrize(("token_s", "is_stored"), [(0.01, True), (0.0001, False)])
def test_a_state_that_took_long_to_read_is_stored_under_its_conversation(
    token_s: float, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FakeStore()
    chats = Conversations(0, store)
    monkeypatch.setattr(chats.cache, "seconds_to_read", lambda n_tokens: token_s * n_tokens)
    chats.read(A, "7")
    chats.read(B, "8")
    assert [saved.name for saved in store.saved] == ["7"] * is_stored
    assert chats.read([*A, 9], "7") == len(A) * is_stored
    chats.prompt_cache.close()
    assert store.is_closed
    assert store.saved[-1:] == [] or store.saved[-1].name == "7"
    assert bool(store.saved) is is_stored
