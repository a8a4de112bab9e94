"""A context on the small real model: its content is right after every operation."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.core.errors import ComputeError, Interrupted, UsageError
from app.engine.cache import TokenCache
from app.engine.types import MAX_DRAFT
from app.llama import library
from app.llama.cancel import CancelFlag
from app.llama.context import Context
from app.llama.library import native
from app.llama.model import Model
from app.settings.model_params import ModelParams
from app.settings.placement import CPU
from tests.hanging import HANGS_S
from tests.llama.conftest import NewContext, OpenModel
from tests.llama.generation import rows_alone

pytestmark = pytest.mark.native
TEXT = "The river rises in the hills, and before it reaches the sea it has"


def assert_true_to_the_library(context: Context) -> None:
    assert context.n_past == native.llama_memory_seq_pos_max(context._memory, 0) + 1


@pytest.fixture
def tokens(model: Model) -> list[int]:
    return model.tokenize(TEXT, parse_special=False)


def test_rows_are_those_of_the_last_tokens_in_order(new_context: NewContext, tokens: list[int]) -> None:
    context = new_context()
    alone = [row.copy() for row in rows_alone(new_context(), tokens, 0)]
    context.decode(tokens, 4)
    for row in range(4):
        difference = np.abs(context.logits(row) - alone[len(tokens) - 4 + row]).max()
        others = np.abs(context.logits(row) - alone[len(tokens) - 5 + row]).max()
        assert difference < 0.2 < others


def test_the_longest_verify_batch_gives_the_logits_of_single_tokens(new_context: NewContext, model: Model) -> None:
    """The kernels of single tokens and batches round equally, except for flash attention from 64 tokens."""
    tokens = (model.tokenize(TEXT, parse_special=False) * 9)[: 16 + MAX_DRAFT + 1]
    alone = [row.copy() for row in rows_alone(new_context(), tokens, 16)]
    context = new_context(n_outputs=MAX_DRAFT + 1)
    context.decode(tokens[:16], 0)
    context.decode(tokens[16:], MAX_DRAFT + 1)
    differences = [np.abs(context.logits(row) - alone[row]).max() for row in range(MAX_DRAFT + 1)]
    assert np.median(differences) < 0.05


def test_a_row_is_a_view_that_lasts_until_the_next_decode(context: Context, tokens: list[int]) -> None:
    context.decode(tokens, 2)
    assert context.logits(1) is context.logits(1)
    assert context.logits(0) is not context.logits(1)
    assert context.logits(0).shape == (context.model.n_vocab,)
    assert context.logits(0).dtype == np.float32


@pytest.mark.parametrize("n_outputs", [1, 8])
def test_logits_after_a_truncation_equal_those_of_a_fresh_context(
    new_context: NewContext, tokens: list[int], n_outputs: int
) -> None:
    context, fresh = new_context(), new_context()
    keep = len(tokens) - n_outputs
    context.decode([*tokens[:keep], *range(100, 130)], 1)
    assert context.truncate(keep)
    assert_true_to_the_library(context)
    with pytest.raises(UsageError, match="0 output rows"):
        context.logits(0)
    context.decode(tokens[keep:], n_outputs)

    fresh.decode(tokens[:keep], 1)
    fresh.decode(tokens[keep:], n_outputs)
    for row in range(n_outputs):
        np.testing.assert_allclose(context.logits(row), fresh.logits(row), atol=1e-3)


# Canceling


@pytest.mark.parametrize(("n_outputs", "waited"), [(0, 0), (1, 1), (3, 1)])
def test_a_batch_with_outputs_is_synchronized(
    context: Context, tokens: list[int], monkeypatch: pytest.MonkeyPatch, n_outputs: int, waited: int
) -> None:
    real, seen = native.llama_synchronize, []
    monkeypatch.setattr(native, "llama_synchronize", lambda handle: seen.append(real(handle)))
    context.decode(tokens, n_outputs)
    flags = list(context._batch._flags[: len(tokens)])
    with pytest.raises(UsageError, match="There is no row"):
        context.logits(n_outputs)

    assert len(seen) == waited
    assert sum(flags) == n_outputs
    assert flags == sorted(flags)


def test_an_error_while_synchronizing_fails_the_batch(
    context: Context, tokens: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metal computes after the call has returned without an error."""
    context.decode(tokens, 1)

    def fail(handle: Any) -> None:
        for line in (b"error: command buffer 0 failed with status 5\n", b"Caused GPU Timeout\n"):
            library._on_log(4, line, ctypes.c_void_p(0))

    monkeypatch.setattr(native, "llama_synchronize", fail)
    with pytest.raises(ComputeError, match="command buffer 0 failed with status 5; Caused GPU Timeout"):
        context.decode(tokens, 1)
    with pytest.raises(UsageError, match="0 output rows"):
        context.logits(0)
    assert_true_to_the_library(context)


def test_a_prompt_on_the_cpu_is_read_in_smaller_chunks(
    open_model: OpenModel, new_context: NewContext, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_model(tiny(), ModelParams(devices=(CPU,)))
    context = new_context(1024, of=model, cancel=CancelFlag(), n_batch=512)
    prompt = [*range(2, 252)] * 2 + [*range(2, 102)]
    on_cpu = TokenCache(context)
    told = [*on_cpu.process(prompt, cancelled=lambda: False)]
    assert (told[0], told[-1]) == (128, 600)
    assert len(told) > 2
    one = context.logits(0).copy()

    context.clear()
    monkeypatch.setattr(context.model, "on_cpu", False)
    on_card = TokenCache(context)
    told = [*on_card.process(prompt, cancelled=lambda: False)]
    assert (told[0], told[-1]) == (64, 600)
    assert int(one.argmax()) == int(context.logits(0).argmax())
    monkeypatch.setattr(context.model, "on_gpu", True)
    assert context.n_chunk == 1


def test_the_cancel_flag_stops_a_long_prompt_inside_a_decode(
    new_context: NewContext, tokens: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = CancelFlag()
    context = new_context(2048, cancel=flag, n_batch=256)
    cache = TokenCache(context)
    inside = threading.Event()
    calls: list[int] = []
    decode = native.llama_decode

    def watch(*arguments: Any) -> int:
        calls.append(len(calls))
        if len(calls) == 2:
            assert not flag()
            inside.set()
        return int(decode(*arguments))

    monkeypatch.setattr(native, "llama_decode", watch)

    def stop() -> None:
        assert inside.wait(HANGS_S)
        flag.set()

    other = threading.Thread(target=stop)
    other.start()
    prompt = (tokens * 200)[:2000]
    with pytest.raises(Interrupted):
        list(cache.process(prompt, cancelled=lambda: False))
    other.join(HANGS_S)

    # The first batch stays. The canceled batch leaves no token, or all of them if it ended just before.
    assert context.n_past == len(cache.tokens)
    assert context.n_chunk <= len(cache) < 2000
    assert list(cache.tokens) == prompt[: len(cache)]
    assert_true_to_the_library(context)

    monkeypatch.undo()
    flag.clear()
    done = len(cache)
    cache.evaluate(prompt[done : done + 10], n_outputs=1)
    (row,) = rows_alone(new_context(2048), prompt[: done + 10], done + 9)
    # Batches of other sizes round differently; a lost or duplicate cell moves logits by several.
    assert np.abs(cache.logits(0) - row).max() < 1.5


def test_an_exception_from_a_signal_handler_keeps_the_position(
    context: Context, tokens: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = native.llama_decode

    def interrupted(*arguments: Any) -> int:
        decode(*arguments)
        raise KeyboardInterrupt

    cache = TokenCache(context)
    monkeypatch.setattr(native, "llama_decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.evaluate(tokens, n_outputs=1)
    assert context.n_past == len(tokens) == len(cache)
    assert_true_to_the_library(context)
    monkeypatch.undo()
    cache.evaluate(tokens[:1], n_outputs=1)


# Texts


def test_a_long_piece_is_whole(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.llama.model._PIECE_BYTES", 1)
    token = max(range(model.n_vocab), key=lambda t: len(model.header.tokens[t]))
    assert len(model._piece(token)) > 10


@pytest.mark.parametrize("damage", ["cut", "garbage", "longer"])
def test_a_damaged_saved_sequence_leaves_an_empty_usable_context(
    new_context: NewContext, tokens: list[int], damage: str
) -> None:
    context = new_context()
    context.decode(tokens, 0)
    saved = context.save_sequence()
    assert saved is not None
    whole, half = bytearray(saved.data), len(saved.data) // 2
    data = {"cut": whole[:half], "garbage": bytearray(b"\xff" * half), "longer": whole + b"more"}[damage]

    assert not context.restore_sequence(replace(saved, data=data), tokens)

    assert context.n_past == 0
    assert_true_to_the_library(context)
    context.decode(tokens, 1)
    assert context.n_past == len(tokens)
