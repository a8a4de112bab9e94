"""What the installed llama.cpp says of itself: its build, its devices, and what a crash there does to us."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.core.child import python_command
from app.core.errors import ModelLoadError
from app.llama import devices as module
from app.llama import library, throughput
from app.llama.devices import build, devices, is_software, parse_features
from app.llama.probe import Device, Throughput, probe, probe_throughput


def test_the_processor_is_a_device_of_every_build() -> None:
    (cpu,) = [device for device in devices() if device.kind == "cpu"]

    assert (cpu.name, cpu.backend) == ("CPU", "CPU")
    assert cpu.description
    assert cpu.total_bytes == pytest.approx(psutil.virtual_memory().total, rel=0.01)


def test_free_main_memory_is_what_can_be_had() -> None:
    (cpu,) = [device for device in devices() if device.kind == "cpu"]
    (limited,) = [device for device in devices(ram_available=1 << 30) if device.kind == "cpu"]

    # ggml itself says that all of it is free.
    assert cpu.free_bytes < cpu.total_bytes
    assert cpu.free_bytes == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert limited.free_bytes == 1 << 30


def test_the_build_describes_itself() -> None:
    found = build()

    assert found.binding == library.binding_version
    assert "CPU" in found.backends
    assert found.version
    assert found.ggml.count(".") == 2
    assert found.supports_offload is library.supports_offload()
    assert found.features


def test_the_library_is_loaded_once() -> None:
    devices()
    build()

    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists what a process has loaded")
    loaded = {line.split()[-1] for line in maps.read_text().splitlines() if "libggml-base" in line}
    # A second registry would come from a second file.
    assert len(loaded) == 1


def test_features() -> None:
    text = "CUDA : ARCHS = 890,900 | USE_GRAPHS = 1 | CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | AVX2 = 1 | "

    assert parse_features(text) == ("ARCHS=890,900", "USE_GRAPHS", "SSE3", "AVX2")
    assert parse_features("") == ()
    assert parse_features("garbage | = | : | a = 0") == ()


def test_a_function_that_a_release_does_not_have_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module._PROTOTYPES, "ggml_no_such_function", (ctypes.c_char_p, []))

    assert module.library_text("ggml_no_such_function") == ""


class Registry:
    """Stands in for the library's registry."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def __call__(self, name: str, *arguments: Any) -> Any:
        return self.answers.get(name.removeprefix("ggml_backend_"))


def test_null_pointers_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "library_call", Registry(dev_count=3, reg_count=2))

    assert devices() == ()
    assert build().backends == ()


def test_a_device_without_names_and_with_garbage_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"dev_count": 1, "dev_get": 1, "dev_type": 1, "dev_description": b"\xff\x1b[2JEvil", "dev_backend_reg": 0}
    monkeypatch.setattr(module, "library_call", Registry(**answers))

    assert devices() == (Device("", "\ufffd [2JEvil", "gpu", "", 0, 0),)


def test_a_registry_without_end_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "library_call", Registry(dev_count=1 << 60, dev_get=1, dev_type=1))

    assert len(devices()) == 256


@pytest.mark.parametrize(
    ("binding", "kinds"),
    [("0.3.36", ["cpu", "gpu", "igpu", "accel", "accel", "accel"]), ("0.4.0", ["cpu", "gpu", *["accel"] * 4])],
)
def test_kinds_are_numbers_of_one_release(monkeypatch: pytest.MonkeyPatch, binding: str, kinds: list[str]) -> None:
    monkeypatch.setattr(library, "binding_version", binding)

    assert [module._kind(number) for number in (0, 1, 2, 3, 4, 99)] == kinds


@pytest.mark.parametrize(
    ("name", "description", "kind"),
    [
        ("MTL0", "Apple M2 Max", "igpu"),
        ("Metal", "Apple Paravirtual device", "igpu"),
        ("MTL1", "Intel(R) Iris(TM) Plus Graphics", "igpu"),
        ("MTL0", "AMD Radeon Pro 5500M", "gpu"),
        ("Vulkan0", "Intel(R) Arc(tm) A770 Graphics (DG2)", "gpu"),
        ("CUDA0", "NVIDIA GeForce RTX 4090", "gpu"),
    ],
)
def test_what_metal_lists_is_no_card_of_its_own(
    monkeypatch: pytest.MonkeyPatch, name: str, description: str, kind: str
) -> None:
    answers = {"dev_type": 1, "dev_name": name.encode(), "dev_description": description.encode()}
    monkeypatch.setattr(module, "library_call", Registry(**answers))

    assert module._kind_of(1) == kind


# From a child process


@pytest.mark.parametrize(
    ("description", "software"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", True),
        ("SwiftShader Device (Subzero)", True),
        ("Microsoft Basic Render Driver", True),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", False),
        ("Intel(R) Arc(tm) A770 Graphics (DG2)", False),
    ],
)
def test_a_card_that_the_processor_plays(description: str, software: bool) -> None:
    assert is_software(description) is software


def test_the_probe_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A folder of the user's with our names in it must not be imported instead of us.
    for name in ("app", "llama_cpp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)

    found, listed = probe(ram_available=1 << 30)

    assert found == build()
    assert listed == devices(ram_available=1 << 30)


def child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the probe's child run something else."""
    monkeypatch.setattr("app.core.child.python_command", lambda *_: (sys.executable, "-c", code))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import os, sys; sys.stderr.write('ggml: out of memory\\n'); os.abort()",
            "ended by signal ABRT.*ggml: out of memory",
        ),
        ("import sys; sys.exit(5)", "ended with code 5.*no word"),
        ("", "ended with code 0"),
        ("print('\\x1b[2Jrubbish')", "no answer that can be read"),
        ('print(\'{"build": {}, "devices": [{"x": 1}]}\')', "no answer that can be read"),
        ('print(\'{"message": "It is gone.", "hint": "Look."}\')', "It is gone"),
    ],
)
def test_a_crash_in_a_driver_is_a_sentence(monkeypatch: pytest.MonkeyPatch, code: str, message: str) -> None:
    child(monkeypatch, code)

    with pytest.raises(ModelLoadError, match=message):
        probe()


def test_a_driver_that_hangs_costs_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    child(monkeypatch, "import time; time.sleep(60)")

    with pytest.raises(ModelLoadError, match=r"within 0\.5 seconds"):
        probe(seconds=0.5)


def test_the_speed_of_reading_weights_is_measured_in_a_child() -> None:
    found = probe_throughput(1)

    assert found is not None
    assert 1e8 < found.bytes_per_s < 1e13


def test_a_release_without_the_functions_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(throughput._PROTOTYPES, "ggml_no_such_function", (None, []))

    assert throughput.throughput(1) is None


def test_a_child_that_dies_or_says_nothing_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    good = "print('[1.5, false]')"
    for code in ("import os; os.abort()", "pass", "print(1.5)", "print('[NaN, true]')", f"{good}; raise SystemExit(1)"):
        monkeypatch.setattr("app.core.child.python_command", lambda *_, code=code: python_command("-c", code))
        assert probe_throughput(1) is None
    monkeypatch.setattr("app.core.child.python_command", lambda *_: python_command("-c", good))
    assert probe_throughput(1) == Throughput(1.5, alone=False)


def test_the_best_of_many_products_counts_and_how_much_of_the_processor_they_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0, 0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("time.process_time", lambda: now[1])
    seconds = iter([9.0, 3.0, 2.0, 1.0, 2.0, 2.0, 2.0])

    def compute() -> bool:
        taken = next(seconds)
        now[0] += taken
        # Two threads, one of which is kept waiting for half of the time.
        now[1] += 1.5 * taken
        return True

    rounds = throughput._rounds(compute)

    assert rounds is not None
    assert (rounds.best_s, rounds.share(2), rounds.share(0)) == (1.0, 0.75, 1.0)
    assert throughput._rounds(lambda: False) is None
