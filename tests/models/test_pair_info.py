"""Check the longest context, remarks about a longer one, and the length that a text needs."""

from dataclasses import replace

import pytest

from app.models.pair_info import (
    ModelInfo,
    PairInfo,
    context_limit,
    context_line,
    context_remark,
    enough_for,
)

TARGET = ModelInfo("Big", "big.gguf", "Q4_K_M", 1000, 100, n_ctx_train=8192)
DRAFT = ModelInfo("Small", "small.gguf", "Q8_0", 100, 100, n_ctx_train=2048)
PAIR = PairInfo(TARGET, DRAFT, 4096, "CPU")
TRAINED = "Big was trained for 8,192 tokens"
MEMORY = "memory had room for 6,144 tokens at the last loading"


@pytest.mark.parametrize(
    ("pair", "n_ctx", "reason"),
    [
        (PAIR, 8192, TRAINED),
        (replace(PAIR, n_ctx_room=8192), 8192, TRAINED),
        (replace(PAIR, n_ctx_room=6144), 6144, MEMORY),
        # The loaded context fits.
        (replace(PAIR, n_ctx_room=256), 4096, "memory had room for 4,096 tokens at the last loading"),
        (replace(PAIR, target=replace(TARGET, n_ctx_train=8000)), 8192, "Big was trained for 8,000 tokens"),
        (
            replace(PAIR, target=replace(TARGET, n_ctx_train=0)),
            8192,
            "the file of Big does not state its training context",
        ),
    ],
)
def test_the_longest_context_and_why(pair: PairInfo, n_ctx: int, reason: str) -> None:
    limit = context_limit(pair)

    assert (limit.n_ctx, limit.reason) == (n_ctx, reason)
    most = f"at most {n_ctx:,}" if n_ctx > 4096 else "the maximum"
    assert context_line(pair) == f"Now 4,096, {most} here: {reason}."


@pytest.mark.parametrize(
    ("n_tokens", "n_ctx"),
    [(100, 2048), (1024, 2048), (1025, 3072), (5000, 7168), (7000, 8192), (8191, 8192), (8192, 0), (9000, 0)],
)
def test_a_context_that_would_do_has_room_for_an_answer(n_tokens: int, n_ctx: int) -> None:
    assert enough_for(PAIR, n_tokens) == n_ctx


@pytest.mark.parametrize(
    ("pair", "n_ctx", "said"),
    [
        (PAIR, 8192, None),
        (PAIR, 8193, f"At most 8,192 tokens: {TRAINED}."),
        (replace(PAIR, n_ctx_room=6144), 6144, None),
        (replace(PAIR, n_ctx_room=6144), 6400, f"At most 6,144 tokens: {MEMORY}."),
    ],
)
def test_a_context_beyond_the_limit_is_remarked(pair: PairInfo, n_ctx: int, said: str | None) -> None:
    assert context_remark(pair, n_ctx) == said
