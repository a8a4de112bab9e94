"""Build and devices of the installed llama.cpp; a crash is contained."""

from typing import Any

import psutil
import pytest

from app.llama import devices as module
from app.llama import library
from app.llama.devices import build, devices, parse_features


def test_the_cpu_is_a_device_of_every_build() -> None:
    (cpu,) = [device for device in devices() if device.kind == "cpu"]

    assert (cpu.name, cpu.backend) == ("CPU", "CPU")
    assert cpu.description
    assert cpu.total_bytes == pytest.approx(psutil.virtual_memory().total, rel=0.01)


def test_the_build_describes_itself() -> None:
    found = build()

    assert found.binding == library.binding_version
    assert "CPU" in found.backends
    assert found.version
    assert found.ggml.count(".") == 2
    assert found.supports_offload is bool(library.native.llama_supports_gpu_offload())
    assert found.features


def test_features() -> None:
    text = "CUDA : ARCHS = 890,900 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | AVX2 = 1 | "

    assert parse_features(text) == ("ARCHS=890,900", "USE_GRAPHS", "SSE3", "AVX2")
    assert parse_features("") == ()
    assert parse_features("garbage | = | : | a = 0") == ()


class Registry:
    """A fake registry of the library."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def __call__(self, name: str, *arguments: Any) -> Any:
        return self.answers.get(name.removeprefix("ggml_backend_"))


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)", "software"),
        ("Vulkan0", "SwiftShader Device (Subzero)", "software"),
        ("Vulkan0", "Microsoft Basic Render Driver", "software"),
        ("MTL0", "Apple M2 Max", "igpu"),
        ("Metal", "Apple Paravirtual device", "igpu"),
        ("MTL1", "Intel(R) Iris(TM) Plus Graphics", "igpu"),
        ("MTL0", "AMD Radeon Pro 5500M", "gpu"),
        ("Vulkan0", "Intel(R) Arc(tm) A770 Graphics (DG2)", "gpu"),
        ("CUDA0", "NVIDIA GeForce RTX 4090", "gpu"),
    ],
)
def test_devices_without_memory_of_their_own_are_recognized(
    monkeypatch: pytest.MonkeyPatch, name: str, description: str, kind: str
) -> None:
    answers = {"dev_count": 1, "dev_type": 1, "dev_name": name.encode(), "dev_description": description.encode()}
    monkeypatch.setattr(module, "library_call", Registry(**answers))

    assert [device.kind for device in devices()] == [kind]
