"""Device names and flags become llama.cpp's placement, or one clear error."""

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import UsageError
from app.hardware.devices import Device
from app.llama import loading
from app.llama.child import SafeFiles
from app.llama.fitting.fit_pair import fitted
from app.llama.library import native
from app.llama.loading import label, place
from app.models.memory_estimate import ModelMemory
from app.settings.model_params import ModelParams
from app.settings.placement import KV_TYPES
from tests.llama.conftest import OpenPair
from tests.llama.params import pair_params
from tests.tandem import Tandem

pytestmark = pytest.mark.native
GB = 1_000_000_000
CARDS = {"CUDA0": 0x1000, "CUDA1": 0x2000, "Vulkan0": 0x3000}


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices with invalid addresses."""
    monkeypatch.setattr(loading, "graphics", lambda **_: CARDS)


def pointers(raw: Any) -> list[int | None]:
    array = ctypes.cast(raw.devices, ctypes.POINTER(ctypes.c_void_p))
    found = []
    for i in range(20):
        found.append(array[i])
        if array[i] is None:
            break
    return found


# Parameters for llama.cpp


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(("CUDA1",), [0x2000, None]), (("cuda1", "CUDA0"), [0x2000, 0x1000, None]), (("cpu",), [None])],
)
def test_the_array_of_devices_ends_with_null(cards: None, devices: tuple[str, ...], expected: list[int | None]) -> None:
    raw = native.llama_model_default_params()
    kept = place(raw, ModelParams(devices=devices))
    assert pointers(raw) == expected
    assert kept


@pytest.mark.parametrize("others", [{}, {"CUDA0": 0x1000}])
def test_a_software_renderer_is_used_only_by_name(monkeypatch: pytest.MonkeyPatch, others: dict[str, int]) -> None:
    played = {**others, "Vulkan0": 0x3000}
    monkeypatch.setattr(loading, "graphics", lambda *, software=True: played if software else others)
    raw = native.llama_model_default_params()
    kept = place(raw, ModelParams())

    assert pointers(raw) == [*others.values(), None]
    assert label(ModelParams()) == ("CUDA0" if others else "CPU")
    kept = place(raw, ModelParams(devices=("vulkan0",)))
    assert pointers(raw) == [0x3000, None]
    assert kept


def test_a_device_that_is_not_there_is_an_error(cards: None) -> None:
    with pytest.raises(UsageError, match="no device CUDA2 here") as caught:
        place(native.llama_model_default_params(), ModelParams(devices=("CUDA0", "CUDA2")))
    assert "CUDA0, CUDA1, Vulkan0, cpu" in caught.value.hint


def test_the_label_names_the_devices(cards: None) -> None:
    assert label(ModelParams()) == "CUDA0 + CUDA1 + Vulkan0"
    assert label(ModelParams(devices=("CUDA1",))) == "CUDA1"
    assert label(ModelParams(devices=("cpu",))) == label(ModelParams(n_gpu_layers=0)) == "CPU"


# A pair


@pytest.mark.parametrize("shared", [{"n_gpu_layers": 30}, {"cpu_experts": 1}, {"overrides": ("ffn_up=cpu",)}])
def test_the_cpu_shares_a_model_that_is_not_whole_on_a_gpu(shared: dict[str, Any]) -> None:
    assert ModelParams().is_whole_on_gpu(30)
    assert ModelParams(n_gpu_layers=31).is_whole_on_gpu(30)
    assert not ModelParams(**shared).is_whole_on_gpu(30)


def test_both_models_get_their_own_settings(
    open_pair: OpenPair, tiny: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, ...]] = []
    load, create = native.llama_model_load_from_file, native.llama_init_from_model

    def loads(path: bytes, raw: Any) -> Any:
        seen.append((raw.n_gpu_layers, raw.split_mode))
        return load(path, raw)

    def creates(model: Any, raw: Any) -> Any:
        seen.append((raw.n_ctx, raw.type_k, raw.type_v, raw.flash_attn_type))
        return create(model, raw)

    monkeypatch.setattr(native, "llama_model_load_from_file", loads)
    monkeypatch.setattr(native, "llama_init_from_model", creates)
    files = [tiny(llama__context_length=512) for _ in range(2)]
    target, draft = ModelParams(n_gpu_layers=2, devices=("cpu",)), ModelParams(n_gpu_layers=0, split=False)
    settings = {"model.kv_type": "f32", "draft.kv_type": "bf16", "model.flash_attn": "on"}
    open_pair(*files, n_ctx=256, model=target, draft_model=draft, settings=settings)

    f32, bf16 = (KV_TYPES[name].ggml_type for name in ("f32", "bf16"))
    assert seen == [(2, 1), (256, f32, f32, 1), (0, 0), (256, bf16, bf16, 1)]


# Memory of the machine


def memory(gigabytes: float) -> Device:
    return Device("cpu", "cpu", "CPU", int(gigabytes * GB))


def test_without_a_gpu_the_parameters_stay(rooms: Callable[..., None], demo_target: Path) -> None:
    rooms(memory(32))
    wanted = pair_params(demo_target, None, 1)

    found = fitted(wanted, ())

    assert replace(found, memory=(), n_ctx_room=0) == wanted
    assert found.n_ctx_room == 8192
    assert [taken.device for taken in found.memory] == ["cpu"]


def test_llama_cpp_estimates_memory_only_if_it_is_tight(
    rooms: Callable[..., None], demo_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def measure(need: ModelMemory, path: Path, *_: object) -> ModelMemory:
        asked.append(path)
        return need

    monkeypatch.setattr("app.llama.footprint.measure", measure)
    wanted = pair_params(demo_target, None, 1, 8192, memory_dir=tmp_path / "drafting")
    SafeFiles(wanted.safe_files).add(demo_target)
    rooms(memory(32))
    fitted(wanted, ())
    assert asked == []
    rooms(memory(0.4))
    fitted(wanted, ())
    assert asked == [demo_target]


def test_the_command_line_shows_the_refusal_and_loads_nothing(
    rooms: Callable[..., None], tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms(memory(0.1))
    monkeypatch.setattr(native, "llama_model_load_from_file", lambda *_: pytest.fail("it was loaded"))

    error = tandem("run", "--temp", "0", "Hi", code=1).err
    assert "does not fit" in error
    assert "--ctx 1024" in error or "--ctx 2048" in error
    assert "Traceback" not in error
    assert "There is no device CUDA0 here" in tandem("run", "--device", "CUDA0", "Hi", code=2).err
