"""Too little memory: recognized, reported with offers, and found before the first answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.options import read_pair
from app.core.errors import DecodeError, DoesNotFitError, NoMemoryError
from app.engine.draft_model import HiddenDrafter
from app.engine.interfaces import Judge
from app.engine.types import Draft
from app.hardware.devices import Device
from app.llama import library
from app.llama import reserve as module
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.library import native
from app.llama.model import Model
from app.llama.native_errors import no_memory, scarce_device
from app.llama.reserve import reserve
from app.settings.model_params import ModelParams
from tests.llama.conftest import Load, NewContext
from tests.llama.tiny_heads import KINDS

pytestmark = pytest.mark.native
GB = 1_000_000_000
CUDA = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory; "
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296; "
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer"
)


@pytest.mark.parametrize(
    ("log", "device"),
    [
        (CUDA, "CUDA0"),
        ("ggml_gallocr_reserve_n_impl: failed to allocate Vulkan1 buffer of size 317718528", "Vulkan1"),
        ("llama_model_load: error loading model: unable to allocate CUDA0_Split buffer", "CUDA0"),
        ("unable to allocate CUDA_Host buffer", "cpu"),
        ("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 99", ""),
        ("alloc_tensor_range: failed to allocate CPU buffer of size 99", "cpu"),
        ("alloc_tensor_range: failed to allocate CPU_REPACK buffer of size 99", "cpu"),
        ("llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache", ""),
        ("failed to allocate compute pp buffers", ""),
        ("vk::Device::allocateMemory: ErrorOutOfDeviceMemory", ""),
        ("ggml_metal_buffer_init: error: failed to allocate buffer, size = 99.00 MiB", ""),
        (
            "ggml_metal_buffer: failed to allocate Metal buffer of 9 bytes; unable to allocate MTL0_Private buffer",
            "MTL0",
        ),
        ("error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", ""),
        ("tensor 'blk.0' data is not within the file bounds, model is corrupted or incomplete", None),
        ("", None),
    ],
)
def test_out_of_memory_logs_are_recognized(log: str, device: str | None) -> None:
    assert scarce_device(log) == device


def test_the_error_names_the_device() -> None:
    assert no_memory("CUDA0", "big.gguf").message.startswith("On CUDA0 there is not enough memory for big.gguf")
    assert no_memory("cpu", "big.gguf").message.startswith("There is not enough RAM")
    assert no_memory(None, "big.gguf").message.startswith("There is not enough memory")


def refusing(monkeypatch: pytest.MonkeyPatch, function: str, log: str = CUDA) -> None:
    """Let a function of llama.cpp log why and return nothing."""

    def refuse(*_: Any) -> None:
        library._errors.extend(log.split("; "))

    monkeypatch.setattr(native, function, refuse)


def test_a_model_or_context_without_memory_is_an_error(
    monkeypatch: pytest.MonkeyPatch, demo_target: Path, new_context: NewContext
) -> None:
    with monkeypatch.context() as patch:
        refusing(patch, "llama_init_from_model", "failed to allocate buffer for kv cache")
        with pytest.raises(NoMemoryError, match="a context of 256 tokens"):
            new_context(256)
    with monkeypatch.context() as patch:
        refusing(patch, "llama_model_load_from_file")
        with pytest.raises(NoMemoryError, match="On CUDA0 there is not enough") as caught:
            Model(open_model_file(demo_target))
    assert caught.value.device == "CUDA0"


CARD, MAIN = Device("CUDA0", "gpu", "CUDA", 24 * GB), Device("cpu", "cpu", "CPU", 32 * GB)


@pytest.mark.parametrize("device", ["cuda0", None])
def test_a_load_that_ran_out_comes_with_offers(
    rooms: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    demo_target: Path,
    demo_draft: Path,
    device: str | None,
) -> None:
    rooms(CARD, MAIN)

    def fail(*_: Any) -> Any:
        raise no_memory(device, "big.gguf")

    monkeypatch.setattr("app.llama.pair.NativePair", fail)
    load = read_pair({"target": str(demo_target), "draft": str(demo_draft)})

    with pytest.raises(DoesNotFitError, match=r"not enough memory for big\.gguf") as caught:
        load(CancelFlag(), lambda *_: True)
    changed = {name for offer in caught.value.offers for name in offer.settings}
    assert {"model.ctx", "draft.device"} <= changed


_GPU = Device("CUDA0", "gpu", "CUDA", 1 << 30)
_MIB = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the CPU's device a GPU; its free memory at each query, repeating the last value."""
    left = [1 << 30]
    monkeypatch.setattr(module, "devices_of", lambda params: {} if params.on_cpu else {"CUDA0": 7})
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


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("kind", ["mtp-hybrid", "eagle3", "dflash", "gemma4"])
def test_draft_layers_draft_over_the_largest_batch_and_forget_it(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    drafted: list[tuple[int, int]] = []
    draft = HiddenDrafter.draft

    def watched(self: HiddenDrafter, tokens: Sequence[int], limit: int, judge: Judge) -> Draft:
        found = draft(self, tokens, limit, judge)
        drafted.append((len(tokens), len(found)))
        return found

    monkeypatch.setattr(HiddenDrafter, "draft", watched)
    target, layers = KINDS[kind].write(tmp_path)
    pair = load(target, layers, mtp=layers is None)

    ((n_tokens, n_drafted),) = drafted
    assert n_tokens == pair.target.n_batch + 1
    assert n_drafted > 0
    assert (len(pair.target), pair.target.native_ns) == (0, 0)


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
    def fail(tokens: Sequence[int], n_outputs: int) -> None:
        raise DecodeError("Memory ran out while the model computed a batch.")

    monkeypatch.setattr(context, "decode", fail)

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
    monkeypatch.setattr(context, "decode", lambda *_: pytest.fail("it computed a batch"))

    reserve(context, params, is_planned=True)
