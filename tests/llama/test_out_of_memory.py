"""Memory that runs out while a pair is loaded or answers, and a device that has gone since the last run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import loading
from app.cli.engine import PairLoader
from app.cli.options import read_options
from app.cli.placement import Placement
from app.core.errors import DecodeError, ModelLoadError, NoMemoryError, UsageError
from app.hardware.device_room import DeviceRoom
from app.hardware.rpc import Endpoint, RemoteDevice, RpcServer
from app.llama import library
from app.llama import pair as pairs
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.fitting import fit_pair, out_of_memory
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.llama.fitting.fit_pair import fitted
from app.llama.fitting.missing_devices import without_missing, without_other_split
from app.llama.library import native
from app.llama.loading import no_memory, scarce_device
from app.llama.model import Model
from app.llama.pair import load_pair
from app.llama.pair_params import PairParams
from app.llama.params import ModelParams
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
def test_what_llama_cpp_logs_is_recognized(log: str, device: str | None) -> None:
    assert scarce_device(log) == device


def test_it_is_said_in_a_sentence() -> None:
    assert no_memory("CUDA0", "big.gguf").message.startswith("On CUDA0 there is not enough memory for big.gguf")
    assert no_memory("cpu", "big.gguf").message.startswith("There is not enough RAM")
    assert no_memory("", "big.gguf").message.startswith("There is not enough memory")


def refusing(monkeypatch: pytest.MonkeyPatch, function: str, log: str = CUDA) -> None:
    """llama.cpp logs why, and gives nothing."""

    def refuse(*_: Any) -> None:
        library._errors.extend(log.split("; "))

    monkeypatch.setattr(native, function, refuse)


def test_a_model_and_a_context_that_find_no_memory(
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


def test_another_reason_is_told_as_before(monkeypatch: pytest.MonkeyPatch, demo_target: Path) -> None:
    refusing(monkeypatch, "llama_model_load_from_file", "unknown model architecture: 'x'")

    with pytest.raises(ModelLoadError, match="unknown model architecture") as caught:
        Model(open_model_file(demo_target))
    assert not isinstance(caught.value, NoMemoryError)


def test_a_batch_that_finds_no_memory(monkeypatch: pytest.MonkeyPatch, new_context: NewContext) -> None:
    context = new_context()
    monkeypatch.setattr(native, "llama_decode", lambda *_: -2)

    with pytest.raises(DecodeError, match="Memory ran out while") as caught:
        context.decode([1], 1)
    assert "--ctx" in caught.value.hint
    assert context.n_past == 0


def test_a_draft_that_finds_no_memory_costs_no_answer(
    monkeypatch: pytest.MonkeyPatch, demo_target: Path, demo_draft: Path
) -> None:
    class Short(Model):
        def __init__(self, file: Any, params: Any, on_progress: Any) -> None:
            if file.path == demo_draft:
                raise no_memory("CUDA0", file.path.name)
            super().__init__(file, params, on_progress)

    monkeypatch.setattr(pairs, "Model", Short)
    pair = load_pair(PairParams(demo_target, demo_draft, 1, n_ctx=256), CancelFlag(), lambda *_: True)

    assert pair.drafter is None
    assert "Running without a draft. On CUDA0 there is not enough memory" in pair.notices[0]
    pair.close()


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[DeviceRoom, ...]]:
    """A function that gives this machine these devices."""

    def give(*devices: DeviceRoom) -> tuple[DeviceRoom, ...]:
        for module in (fit_pair, out_of_memory, loading):
            monkeypatch.setattr(module, "memory_rooms", lambda: devices)
        return devices

    return give


CARD, MAIN = DeviceRoom("CUDA0", "gpu", "CUDA", 24 * GB), DeviceRoom("cpu", "cpu", "CPU", 32 * GB)


@pytest.mark.parametrize("device", ["CUDA0", "cuda0", ""])
def test_a_load_that_ran_out_comes_with_offers(
    rooms: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    demo_target: Path,
    demo_draft: Path,
    device: str,
) -> None:
    rooms(CARD, MAIN)

    def fail(*_: Any) -> Any:
        raise no_memory(device, "big.gguf")

    monkeypatch.setattr(loading, "load_pair", fail)
    given = argparse.Namespace(target=str(demo_target), draft=str(demo_draft))
    load = PairLoader(read_options(given))

    with pytest.raises(DoesNotFitError, match=r"not enough memory for big\.gguf") as caught:
        load(CancelFlag(), lambda *_: True)
    flags = [offer.flags[0] for offer in caught.value.offers if offer.flags]
    assert "--ctx" in flags
    assert "--draft-device" in flags


def test_a_load_that_ran_out_on_a_server_is_weighed_with_it(
    rooms: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, demo_target: Path, demo_draft: Path
) -> None:
    rooms(MAIN)
    server = RpcServer(Endpoint("a", 1), "1.2.3.4:1", (7, 0, 0), (RemoteDevice(24 * GB, 24 * GB),))
    monkeypatch.setattr("app.cli.remote.reach", lambda endpoints: (server,))
    loaded: list[PairParams] = []

    def fail(params: PairParams, *_: Any) -> Any:
        loaded.append(params)
        raise no_memory("RPC0", "big.gguf")

    monkeypatch.setattr(loading, "load_pair", fail)
    given = argparse.Namespace(target=str(demo_target), draft=str(demo_draft), rpc=["a:1"])

    with pytest.raises(DoesNotFitError, match=r"On RPC0 there is not enough memory for big\.gguf") as caught:
        PairLoader(read_options(given))(CancelFlag(), lambda *_: True)
    assert [(params.rpc, params.model.devices, params.draft_model.devices) for params in loaded] == [
        (("1.2.3.4:1",), ("RPC0",), ("cpu",))
    ]
    # Of a model that is all in RAM nothing would be left to it.
    assert "--gpu-layers" in [offer.flags[0] for offer in caught.value.offers if offer.flags]


# A device that has gone


def test_a_stored_device_that_is_gone_is_said_and_replaced(rooms: Callable[..., Any], demo_target: Path) -> None:
    found = rooms(CARD, MAIN)
    stored = PairParams(
        demo_target,
        demo_target,
        1,
        model=ModelParams(devices=("CUDA1", "CUDA2"), tensor_split=(3, 1)),
        draft_model=ModelParams(devices=("CUDA0",), split=False),
    )

    params = fitted(without_missing(stored, found), (None, None), ())

    assert params.model.devices == ("CUDA0",)
    assert params.draft_model.devices == ("CUDA0",)
    assert params.notices[0].startswith("CUDA1, CUDA2 are not there any more")
    kept = replace(stored, model=ModelParams(devices=("cuda0",)))
    assert without_missing(kept, found) is kept


def test_only_a_stored_one_is_replaced(rooms: Callable[..., Any], demo_target: Path) -> None:
    rooms(MAIN)
    options = read_options(argparse.Namespace(target=str(demo_target), device=("CUDA7",)))
    with pytest.raises(UsageError, match="no device CUDA7"):
        loading.pair_params(options)

    stored = replace(options, placement=Placement(model=ModelParams(devices=("CUDA7",)), stored=True))
    assert "CUDA7 is not there any more" in loading.pair_params(stored).notices[0]


def test_shares_from_an_earlier_run_do_not_count_where_there_are_other_devices_now(
    rooms: Callable[..., Any], demo_target: Path
) -> None:
    rooms(CARD, MAIN)
    split = ModelParams(tensor_split=(3, 1))
    typed = replace(read_options(argparse.Namespace(target=str(demo_target))), placement=Placement(model=split))
    with pytest.raises(UsageError, match=r"2 shares for 1 device\."):
        loading.pair_params(typed)

    stored = replace(typed, placement=replace(typed.placement, stored_split=True))
    params = loading.pair_params(stored)
    assert params.notices == ("The tensor split is for 2 devices, and there is 1 now; the layers go by free memory.",)
    assert (params.model.devices, params.model.tensor_split) == (("CUDA0",), ())
    two = rooms(CARD, replace(CARD, name="CUDA1"), MAIN)
    kept = PairParams(demo_target, None, 1, model=split)
    assert without_other_split(kept, two) is kept
    one = without_other_split(replace(kept, model=ModelParams(tensor_split=(1,))), two)
    assert one.notices == ("The tensor split is for 1 device, and there are 2 now; the layers go by free memory.",)


def test_what_is_said_about_the_settings_reaches_the_user(demo_target: Path) -> None:
    params = PairParams(demo_target, None, 1, n_ctx=256, notices=("CUDA7 is not there any more.",))
    pair = load_pair(params, CancelFlag(), lambda *_: True)

    assert pair.notices == ["CUDA7 is not there any more."]
    pair.close()
