"""Check memory that runs out while loading or answering, and a device that disappeared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.options import read_pair
from app.core.errors import DecodeError, DoesNotFitError, NoMemoryError, UsageError
from app.hardware.devices import Device
from app.llama import library
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.library import native
from app.llama.loading import no_memory, scarce_device
from app.llama.model import Model
from app.worker import loading
from tests.llama.conftest import NewContext

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
    assert no_memory("", "big.gguf").message.startswith("There is not enough memory")


def refusing(monkeypatch: pytest.MonkeyPatch, function: str, log: str = CUDA) -> None:
    """llama.cpp logs why, and gives nothing."""

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


def test_a_batch_without_memory_is_an_error(monkeypatch: pytest.MonkeyPatch, new_context: NewContext) -> None:
    context = new_context()
    monkeypatch.setattr(native, "llama_decode", lambda *_: -2)

    with pytest.raises(DecodeError, match="Memory ran out while") as caught:
        context.decode([1], 1)
    assert "model.ctx" in caught.value.hint
    assert context.n_past == 0


CARD, MAIN = Device("CUDA0", "gpu", "CUDA", 24 * GB), Device("cpu", "cpu", "CPU", 32 * GB)


@pytest.mark.parametrize("device", ["cuda0", ""])
def test_a_load_that_ran_out_comes_with_offers(
    rooms: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    demo_target: Path,
    demo_draft: Path,
    device: str,
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


# A device that has gone


def test_a_device_that_is_gone_and_shares_of_other_devices_are_usage_errors(
    rooms: Callable[..., None], demo_target: Path
) -> None:
    rooms(CARD, MAIN)
    gone = read_pair({"target": str(demo_target), "device": ("CUDA7",)})
    with pytest.raises(UsageError, match="no device CUDA7"):
        loading.measured_params(gone)
    split = read_pair({"target": str(demo_target), "tensor_split": (3.0, 1.0)})
    with pytest.raises(UsageError, match=r"2 shares for 1 device\."):
        loading.measured_params(split)
