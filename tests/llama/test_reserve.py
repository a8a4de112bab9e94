"""GPUs compute the largest batch at load, and enough memory must stay free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.core.errors import DecodeError, NoMemoryError
from app.hardware.devices import Device
from app.llama import reserve as module
from app.llama.context import Context
from app.llama.params import ModelParams
from app.llama.reserve import reserve
from tests.llama.conftest import NewContext

pytestmark = pytest.mark.native
_GPU = Device("CUDA0", "gpu", "CUDA", 1 << 30)
_MIB = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the CPU's device a GPU; its free memory at each look, the last value for all later ones."""
    left = [1 << 30]
    monkeypatch.setattr(module, "graphics", lambda software: {"CUDA0": 7})
    monkeypatch.setattr(module, "describe", lambda _: replace(_GPU, free_bytes=left.pop(0) if left[1:] else left[0]))
    return left


@pytest.fixture
def context(new_context: NewContext) -> Context:
    return new_context(n_ctx=512, n_batch=64)


@pytest.mark.usefixtures("free")
def test_the_largest_batch_is_computed_and_forgotten(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    decode = context.decode

    def watched(tokens: Sequence[int], n_outputs: int) -> None:
        sizes.append(len(tokens))
        decode(tokens, n_outputs)

    monkeypatch.setattr(context, "decode", watched)
    reserve(context, ModelParams(), is_planned=True)

    assert sizes == [context.n_batch, 1]
    assert (context.n_past, context.native_ns) == (0, 0)


@pytest.mark.parametrize(("before", "after"), [(100, 100), (300, 10)])
def test_too_little_free_memory_is_refused(context: Context, free: list[int], before: int, after: int) -> None:
    free[:] = [before * _MIB] * 2 + [after * _MIB]

    with pytest.raises(NoMemoryError, match="On CUDA0 there is not enough memory for the batches of") as refused:
        reserve(context, ModelParams(), is_planned=True)

    assert refused.value.device == "CUDA0"


def test_a_placement_by_the_user_may_fill_a_gpu(context: Context, free: list[int]) -> None:
    free[:] = [0]

    reserve(context, ModelParams(), is_planned=False)


@pytest.mark.usefixtures("free")
def test_a_failed_batch_is_a_lack_of_memory(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise DecodeError("Memory ran out while the model computed a batch.")

    monkeypatch.setattr(context, "warm_up", fail)

    with pytest.raises(NoMemoryError, match="Memory ran out"):
        reserve(context, ModelParams(), is_planned=True)


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    "params",
    [
        ModelParams(devices=("cpu",)),
        ModelParams(n_gpu_layers=0),
        ModelParams(n_gpu_layers=9),
        ModelParams(cpu_experts=1),
    ],
)
def test_a_model_with_layers_on_the_cpu_computes_nothing_ahead(
    context: Context, monkeypatch: pytest.MonkeyPatch, params: ModelParams
) -> None:
    monkeypatch.setattr(context, "warm_up", lambda: pytest.fail("it computed a batch"))

    reserve(context, params, is_planned=True)
