"""The right build of llama-cpp-python for machines that we do not have, and the command that installs it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.hardware.builds import Advice, advice, driver_cuda, known_builds, missed
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine

GIB = 1 << 30
INDEX = "https://abetlen.github.io/llama-cpp-python/whl/"
PIN = "llama-cpp-python==0.3.36"
RTX = Gpu("nvidia", "RTX 4090", 24 * GIB, 23 * GIB, "550.54.15", "CUDA 12.4", target="8.9", api="12.4")
RADEON = Gpu("amd", "RX 7900 XTX", 24 * GIB, 23 * GIB, "amdgpu", "ROCm 7.2.0", target="gfx1100")
ARC = Gpu("intel", "Arc A770", None, None, "xe", "")
IRIS = Gpu("intel", "Iris Xe", None, None, "i915", "", integrated=True)
APPLE = Gpu("apple", "Apple M2", None, None, "Metal 3", "", integrated=True)


@dataclass(frozen=True)
class Build:
    backends: tuple[str, ...] = ("CPU",)
    features: tuple[str, ...] = ("AVX2",)


@dataclass(frozen=True)
class Device:
    kind: str
    backend: str
    description: str


def machine(*gpus: Gpu, system: str = "linux", arch: str = "x86_64", vulkan: bool = True) -> Machine:
    return Machine(system, "cpu", 8, 16, 64 * GIB, 48 * GIB, gpus, arch=arch, features=("AVX2",), vulkan=vulkan)


def advised(target: Machine, build: Build | None = Build(), *devices: Device, python: str = "3.11") -> Advice:
    given = advice(target, build, devices, python)
    assert given is not None
    return given


def ready_made(name: str) -> str:
    return (
        "python -m pip install --force-reinstall --no-deps --only-binary llama-cpp-python "
        f"--extra-index-url {INDEX}{name} {PIN}"
    )


def source(cmake: str) -> str:
    return (
        f'CMAKE_ARGS="{cmake}" python -m pip install --force-reinstall --no-deps --no-cache-dir '
        f"--no-binary llama-cpp-python {PIN}"
    )


def test_the_data_is_about_the_release_that_is_pinned() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    assert PIN in project["project"]["dependencies"]
    assert known_builds()["version"] == PIN.split("==")[1]


def test_every_wheel_is_complete() -> None:
    for entry in known_builds()["wheels"]:
        assert {"name", "backend", "platforms", "python"} <= set(entry), entry
        assert entry["backend"] in known_builds()["source"], entry
        assert entry["backend"] != "cuda" or {"version", "targets"} <= set(entry), entry


# NVIDIA


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "cu124"),
        ({"api": "12.9"}, "cu125"),
        ({"api": "12.3"}, "cu123"),
        # A driver runs everything of its own generation.
        ({"api": "12.0"}, "cu121"),
        ({"api": "11.8", "toolkit": "CUDA 11.8"}, "cu118"),
        ({"api": "11.4", "toolkit": "CUDA 11.4"}, "cu118"),
        ({"api": "13.0", "toolkit": "CUDA 13.0"}, "cu130"),
        ({"api": "13.1", "toolkit": "CUDA 13.1"}, "cu130"),
        ({"api": "13.4", "toolkit": "CUDA 13, 12.4"}, "cu132"),
        # The wheel loads the toolkit's libraries, so a newer driver changes nothing.
        ({"api": "13.0"}, "cu125"),
        ({"api": "12.4", "toolkit": "CUDA 11.8"}, "cu118"),
        # Compute capabilities that a generation has no code for.
        ({"api": "13.0", "toolkit": "CUDA 13.0, 12.4", "target": "6.1"}, "cu125"),
        ({"api": "12.4", "toolkit": "CUDA 12.4, 11.8", "target": "9.0"}, "cu124"),
        # nvidia-smi sent nothing, the driver's number does.
        ({"api": "", "driver": "535.183.01"}, "cu122"),
        ({"api": "", "driver": "999.1"}, "cu125"),
    ],
)
def test_cuda_by_driver_toolkit_and_card(changes: dict[str, str], name: str) -> None:
    given = advised(machine(replace(RTX, **changes)))  # type: ignore[arg-type]

    assert (given.backend, given.command, given.urgent) == ("CUDA", ready_made(name), True)
    assert given.notes == ()
    assert given.other == source("-DGGML_CUDA=on")


@pytest.mark.parametrize(("driver", "name"), [("12.3", "cu118"), ("12.4", "cu124"), ("13.2", "cu125")])
def test_windows_has_fewer_cuda_wheels(driver: str, name: str) -> None:
    given = advised(machine(replace(RTX, api=driver, toolkit="CUDA 12.4, 11.8"), system="windows"))

    assert given.command == ready_made(name)
    assert given.other.startswith('$env:CMAKE_ARGS = "-DGGML_CUDA=on"; python -m pip install ')
    assert "Visual Studio" in given.other_needs
    (note,) = given.notes
    assert "PowerShell" in note
    assert "after closing Tandem" in note


@pytest.mark.parametrize(("system", "tools"), [("darwin", "xcode-select"), ("linux", "needs a C++ compiler.")])
def test_a_compiler_is_named_as_the_system_has_it(system: str, tools: str) -> None:
    assert any(tools in note for note in advised(machine(system=system), None).notes)


def test_without_the_toolkit_vulkan_works_at_once() -> None:
    given = advised(machine(replace(RTX, toolkit="")))

    assert (given.backend, given.command, given.other) == ("Vulkan", ready_made("vulkan"), ready_made("cu124"))
    assert "libraries of the CUDA 12 toolkit" in given.other_needs


def test_without_toolkit_and_vulkan_the_toolkit_is_asked_for() -> None:
    given = advised(machine(replace(RTX, toolkit="", api="13.0"), vulkan=False))

    assert given.command == ready_made("cu130")
    assert given.notes == ("It needs the libraries of the CUDA 13 toolkit. Install that first.",)


def test_no_cuda_wheel_for_this_processor() -> None:
    given = advised(machine(RTX, arch="arm64"))

    assert (given.command, given.other) == (source("-DGGML_CUDA=on"), "")
    assert given.notes == ("Building it takes minutes and needs a C++ compiler and the CUDA toolkit.",)


@pytest.mark.parametrize("driver", ["", "nouveau", "nouveau, kernel 6.8"])
def test_a_card_without_its_driver_gets_no_build(driver: str) -> None:
    assert advice(machine(replace(RTX, api="", driver=driver)), Build(), (), "3.11") is None


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("550.54.15", "12.4"), ("551.23", "12.4"), ("470.57.02", "11.4"), ("390.1", ""), ("x", ""), ("", "")],
)
def test_what_a_driver_takes(driver: str, cuda: str) -> None:
    assert driver_cuda(replace(RTX, api="", driver=driver)) == cuda


def test_a_python_that_is_too_old_for_the_wheels_builds() -> None:
    assert advised(machine(RTX), python="3.9").command == source("-DGGML_CUDA=on")
    assert advised(machine(RTX), python="3.14").command == ready_made("cu124")


# Others


def test_a_card_of_amd_with_rocm_gets_that_build() -> None:
    given = advised(machine(RADEON))

    assert (given.backend, given.command, given.other) == ("ROCm", ready_made("rocm72"), ready_made("vulkan"))


@pytest.mark.parametrize("changes", [{"toolkit": ""}, {"toolkit": "ROCm 6.2.0"}, {"target": "gfx803"}])
def test_a_card_of_amd_with_the_wrong_rocm_gets_vulkan(changes: dict[str, str]) -> None:
    given = advised(machine(replace(RADEON, **changes)))  # type: ignore[arg-type]

    assert (given.backend, given.command, given.other) == ("Vulkan", ready_made("vulkan"), source("-DGGML_VULKAN=on"))


def test_a_card_of_amd_on_windows_gets_vulkan() -> None:
    given = advised(machine(replace(RADEON, target="", toolkit=""), system="windows"))

    assert (given.command, given.other) == (ready_made("vulkan"), ready_made("hip-radeon"))
    assert "only for gfx1030" in given.other_needs


def test_vulkan_names_its_loader_where_that_is_missing() -> None:
    given = advised(machine(ARC, vulkan=False))

    assert given.command == ready_made("vulkan")
    assert "libvulkan1" in given.notes[0]


def test_graphics_inside_the_processor_are_not_urgent() -> None:
    assert advised(machine(ARC)).urgent
    assert not advised(machine(IRIS)).urgent


def test_a_card_comes_before_what_is_inside_the_processor() -> None:
    assert advised(machine(IRIS, ARC)).urgent
    uhd = Device("gpu", "Vulkan", "Intel(R) UHD Graphics 770")
    assert advised(machine(IRIS, RTX), Build(), uhd).backend == "CUDA"


def test_apple_silicon_gets_metal() -> None:
    given = advised(machine(APPLE, system="darwin", arch="arm64"))

    assert (given.backend, given.command, given.other) == ("Metal", ready_made("metal"), source("-DGGML_METAL=on"))
    assert given.urgent


def test_a_translated_python_gets_no_build() -> None:
    assert advice(replace(machine(APPLE, system="darwin"), translated=True), Build(), (), "3.11") is None


# Where nothing is to be done, and where the build is broken


def test_a_card_is_missed_beside_graphics_inside_the_processor_that_are_used() -> None:
    inside, processor = Device("igpu", "Vulkan", "Intel(R) Iris(R) Xe"), Device("cpu", "CPU", "cpu")

    assert missed((IRIS, ARC, RTX), (processor,)) == [ARC, RTX, IRIS]
    assert missed((IRIS, ARC, RTX), (inside, processor)) == [ARC, RTX]
    assert missed((ARC,), (inside, processor)) == [], "what is not known to be two may be one"
    assert missed((IRIS, ARC, RTX), (inside, Device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090"))) == []
    given = advice(machine(IRIS, ARC), Build(("Vulkan", "CPU")), (inside, processor), "3.11")
    assert given is not None
    assert given.urgent


@pytest.mark.parametrize(
    ("gpu", "device"),
    [
        (RTX, Device("gpu", "CUDA", "NVIDIA GeForce RTX 4090")),
        (RTX, Device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090")),
        (RADEON, Device("gpu", "ROCm", "gfx1100")),
        (RADEON, Device("gpu", "Vulkan", "AMD Radeon RX 7900 XTX (RADV NAVI31)")),
        (ARC, Device("gpu", "Vulkan", "Intel(R) Arc(tm) A770 Graphics (DG2)")),
        (APPLE, Device("gpu", "MTL", "Apple M2")),
    ],
)
def test_a_build_that_can_use_the_card_stays(gpu: Gpu, device: Device) -> None:
    system, arch = ("darwin", "arm64") if gpu is APPLE else ("linux", "x86_64")

    assert advice(machine(gpu, system=system, arch=arch), Build(), (device,), "3.11") is None


@pytest.mark.parametrize(
    "device",
    [
        Device("gpu", "Vulkan", "llvmpipe (LLVM 15.0.6, 256 bits)"),
        Device("cpu", "CPU", "NVIDIA Grace"),
        Device("gpu", "Vulkan", "Intel(R) UHD Graphics 770"),
    ],
)
def test_another_device_does_not_stand_for_the_card(device: Device) -> None:
    assert advised(machine(RTX, IRIS), Build(), device).backend == "CUDA"


def test_the_reason_tells_a_missing_backend_from_a_missing_device() -> None:
    assert "without CUDA" in advised(machine(RTX)).reason
    assert "CUDA finds no RTX 4090" in advised(machine(RTX), Build(backends=("CUDA", "CPU"))).reason


def test_a_library_that_does_not_load_is_installed_anew() -> None:
    assert advised(machine(RTX), None).command == ready_made("cu124")
    given = advised(machine(), None)
    assert (given.command, given.other) == (source("-DGGML_NATIVE=on"), ready_made("cpu"))
    assert advised(machine(IRIS), None).urgent


def test_a_build_for_any_processor_is_replaced_by_one_for_this() -> None:
    assert advised(machine(), Build(features=("SSE3",))).command == source("-DGGML_NATIVE=on")
    assert advice(machine(), Build(), (), "3.11") is None
    assert advice(machine(), Build(features=()), (), "3.11") is None


def test_a_processor_without_what_a_wheel_is_built_with_gets_none() -> None:
    old = replace(machine(), features=("SSE3",))

    # ggml's own choice for any processor has AVX2; the wheels for CUDA are built without it.
    assert (advised(old, None).command, advised(old, None).other) == (source("-DGGML_NATIVE=on"), "")
    assert advised(replace(old, gpus=(ARC,))).command == source("-DGGML_VULKAN=on")
    assert advised(replace(old, gpus=(RTX,))).command == ready_made("cu124")
    assert advised(replace(old, features=()), None).other == ready_made("cpu"), "where it is not known"


def test_the_installer_is_the_callers() -> None:
    given = advice(machine(RTX), Build(), (), "3.11", install="uv pip install --python /x/python")

    assert given is not None
    assert given.command.startswith("uv pip install --python /x/python --force-reinstall ")
