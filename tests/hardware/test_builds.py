"""The right build of llama-cpp-python for other machines, and the command that installs it."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.hardware.build_choices import known_builds
from app.hardware.builds import Advice, LoadFailure, advice, missed, repair_hint, unused_gpu_hint
from app.hardware.devices import BuildInfo, Device, Kind
from app.hardware.gpus import Gpu
from app.hardware.installation import Installation
from app.hardware.machine import Machine
from tests.cli.doctor_facts import fake_build

GIB = 1 << 30
INDEX = "https://abetlen.github.io/llama-cpp-python/whl/"
PIN = "llama-cpp-python==0.3.36"
RTX = Gpu("nvidia", "RTX 4090", 24 * GIB, 23 * GIB, "550.54.15", "CUDA 12.4", target="8.9", api="12.4")
RADEON = Gpu("amd", "RX 7900 XTX", 24 * GIB, 23 * GIB, "amdgpu", "ROCm 7.2.0", target="gfx1100")
ARC = Gpu("intel", "Arc A770", None, None, "xe", None)
IRIS = Gpu("intel", "Iris Xe", None, None, "i915", None, integrated=True)
BUILD = fake_build()
CUDA_12 = ("nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cuda-nvrtc-cu12")
CUDA_13 = ("'nvidia-cuda-runtime==13.*'", "'nvidia-cublas==13.*'", "'nvidia-cuda-nvrtc==13.*'")
APPLE = Gpu("apple", "Apple M2", None, None, "Metal 3", None, integrated=True)


def device(kind: Kind, backend: str, description: str) -> Device:
    return Device("X0", kind, backend, 0, description, 0)


def machine(
    *gpus: Gpu, system: str = "linux", arch: str = "x86_64", features: tuple[str, ...] = ("AVX2",), **changes: Any
) -> Machine:
    made = Machine(system, "cpu", 8, 16, 64 * GIB, 48 * GIB, gpus, arch=arch, features=features, vulkan=True)
    return replace(made, **changes)


def nvidia(**changes: str | None) -> Machine:
    return machine(replace(RTX, **changes))  # type: ignore[arg-type]


def given(
    here: Machine, build: BuildInfo | None = BUILD, *devices: Device, failure: LoadFailure | None = None
) -> Advice | None:
    return advice(here, build, devices, Installation("pip", "python", here.system), failure)


def advised(here: Machine, build: BuildInfo | None = BUILD, *devices: Device) -> Advice:
    found = given(here, build, *devices)
    assert found is not None
    return found


def ready_made(name: str, *extra: str) -> str:
    words = "python -m pip install --force-reinstall --no-deps --only-binary llama-cpp-python --extra-index-url"
    return " ".join((words, f"{INDEX}{name}", PIN, *extra))


def source(cmake: str) -> str:
    return (
        f'CMAKE_ARGS="{cmake}" python -m pip install --force-reinstall --no-deps --no-cache-dir '
        f"--no-binary llama-cpp-python {PIN}"
    )


VULKAN, VULKAN_SOURCE, CUDA_SOURCE = ready_made("vulkan"), source("-DGGML_VULKAN=on"), source("-DGGML_CUDA=on")
CPU, CPU_SOURCE = ready_made("cpu"), source("-DGGML_NATIVE=on")
MAC = machine(APPLE, system="darwin", arch="arm64")
OLD = machine(features=("SSE3",))
NO_TOOLKIT = replace(RTX, toolkit=None)


def test_the_data_is_about_the_release_that_is_pinned() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    assert PIN in project["project"]["dependencies"]
    assert known_builds()["version"] == PIN.split("==")[1]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "cu124"),
        ({"api": "12.9"}, "cu125"),
        ({"api": "12.3"}, "cu123"),
        # A driver runs all builds of its own generation.
        ({"api": "12.0"}, "cu121"),
        ({"api": "11.8", "toolkit": "CUDA 11.8"}, "cu118"),
        ({"api": "11.4", "toolkit": "CUDA 11.4"}, "cu118"),
        ({"api": "13.0", "toolkit": "CUDA 13.0"}, "cu130"),
        ({"api": "13.1", "toolkit": "CUDA 13.1"}, "cu130"),
        ({"api": "13.4", "toolkit": "CUDA 13, 12.4"}, "cu132"),
        # The wheel loads the toolkit's libraries, so a newer driver changes nothing.
        ({"api": "13.0"}, "cu125"),
        ({"api": "12.4", "toolkit": "CUDA 11.8"}, "cu118"),
        # Compute capabilities without code in a generation
        ({"api": "13.0", "toolkit": "CUDA 13.0, 12.4", "target": "6.1"}, "cu125"),
        ({"api": "12.4", "toolkit": "CUDA 12.4, 11.8", "target": "9.0"}, "cu124"),
    ],
)
def test_a_cuda_wheel_is_chosen_by_driver_toolkit_and_gpu(changes: dict[str, str | None], name: str) -> None:
    found = advised(nvidia(**changes))

    assert (found.backend, found.command, found.other) == ("CUDA", ready_made(name), CUDA_SOURCE)
    assert (found.urgent, found.notes) == (True, ())


@pytest.mark.parametrize(("driver", "name"), [("12.3", "cu118"), ("12.4", "cu124"), ("13.2", "cu125")])
def test_windows_has_fewer_cuda_wheels(driver: str, name: str) -> None:
    found = advised(machine(replace(RTX, api=driver, toolkit="CUDA 12.4, 11.8"), system="windows"))

    assert found.command == ready_made(name)
    assert str(found.other).startswith('$env:CMAKE_ARGS = "-DGGML_CUDA=on"; python -m pip install ')
    assert "Visual Studio" in str(found.other_needs)
    assert found.notes[0].startswith("Run it in PowerShell after closing Tandem")


@pytest.mark.parametrize(
    ("here", "command", "other", "told"),
    [
        # Without the toolkit, Vulkan works immediately.
        (machine(NO_TOOLKIT), VULKAN, ready_made("cu124", *CUDA_12), "With CUDA instead"),
        (machine(replace(NO_TOOLKIT, api="13.0"), vulkan=False), ready_made("cu130", *CUDA_13), CUDA_SOURCE, ""),
        (machine(NO_TOOLKIT, wsl=True), ready_made("cu124", *CUDA_12), CUDA_SOURCE, ""),
        (
            machine(replace(NO_TOOLKIT, api="11.8"), vulkan=False),
            ready_made("cu118"),
            CUDA_SOURCE,
            "Install that first.",
        ),
        (machine(RTX, arch="arm64"), CUDA_SOURCE, "", "minutes and needs a C++ compiler and the CUDA toolkit."),
        (nvidia(api=None), VULKAN, VULKAN_SOURCE, ""),
        (machine(RADEON), ready_made("rocm72"), VULKAN, "only for gfx908"),
        (machine(replace(RADEON, toolkit=None)), VULKAN, VULKAN_SOURCE, ""),
        (machine(replace(RADEON, toolkit="ROCm 6.2.0")), VULKAN, VULKAN_SOURCE, ""),
        (
            machine(replace(RADEON, toolkit=None), system="windows"),
            VULKAN,
            ready_made("hip-radeon"),
            "only for gfx1030",
        ),
        (machine(ARC, vulkan=False), VULKAN, VULKAN_SOURCE, "libvulkan1"),
        (MAC, ready_made("metal"), source("-DGGML_METAL=on"), "xcode-select"),
        # A CPU or a C library that is older than a wheel's.
        (replace(OLD, gpus=(ARC,)), VULKAN_SOURCE, "", ""),
        (replace(OLD, gpus=(RTX,)), CUDA_SOURCE, "", ""),
        (machine(RTX, glibc=(2, 35)), ready_made("cu124"), CUDA_SOURCE, ""),
        (machine(RTX, glibc=(2, 34)), VULKAN, CUDA_SOURCE, ""),
        (machine(RADEON, glibc=(2, 34)), VULKAN, VULKAN_SOURCE, ""),
        # Alpine Linux has another C library, for which no index has wheels.
        (machine(ARC, glibc=()), VULKAN_SOURCE, "", ""),
    ],
)
def test_the_build_for_a_gpu(here: Machine, command: str, other: str, told: str) -> None:
    found = advised(here)

    assert (found.command, found.other or "", found.urgent) == (command, other, True)
    assert told in " ".join((*found.notes, found.other_needs or ""))


CUDA_CRASH = LoadFailure("", None, ("cuda",), can_compile=True)
NO_LOADER = LoadFailure("", "Install the loader.", ("vulkan",))
NO_CUDA = LoadFailure("", "Install the toolkit.", ("cuda",), cuda="12")


@pytest.mark.parametrize(
    ("here", "failure", "command", "other"),
    [
        (machine(RTX), None, ready_made("cu124"), CUDA_SOURCE),
        (machine(), None, CPU, CPU_SOURCE),
        (OLD, None, CPU_SOURCE, ""),
        (machine(features=()), None, CPU, CPU_SOURCE),
        (machine(RTX), CUDA_CRASH, VULKAN, CUDA_SOURCE),
        (machine(NO_TOOLKIT), CUDA_CRASH, VULKAN, CUDA_SOURCE),
        (machine(NO_TOOLKIT), NO_LOADER, ready_made("cu124", *CUDA_12), CUDA_SOURCE),
        (machine(ARC), NO_LOADER, CPU, CPU_SOURCE),
        (machine(ARC), LoadFailure("", None, ("cpu", "vulkan"), can_compile=True), VULKAN_SOURCE, ""),
        (
            machine(NO_TOOLKIT),
            NO_CUDA,
            f"python -m pip install --force-reinstall --no-deps {' '.join(CUDA_12)}",
            VULKAN,
        ),
        # The libraries of CUDA help nobody without a GPU of NVIDIA.
        (machine(), NO_CUDA, CPU, CPU_SOURCE),
    ],
)
def test_a_build_that_does_not_load_is_replaced(
    here: Machine, failure: LoadFailure | None, command: str, other: str
) -> None:
    found = given(here, None, failure=failure)

    assert found is not None
    assert (found.command, found.other or "", found.urgent) == (command, other, True)


INSIDE, PROCESSOR = device("igpu", "Vulkan", "Intel(R) Iris(R) Xe"), device("cpu", "CPU", "cpu")
ON_VULKAN = device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090")
UHD = device("gpu", "Vulkan", "Intel(R) UHD Graphics 770")


@pytest.mark.parametrize(
    ("here", "build", "devices"),
    [
        (nvidia(api=None, driver=None), BUILD, ()),
        (nvidia(api=None, driver="nouveau"), BUILD, ()),
        (replace(MAC, translated=True), BUILD, ()),
        # Every build on macOS has Metal, so another build would find no device either.
        (MAC, fake_build(("MTL", "CPU")), ()),
        (machine(), BUILD, ()),
        (machine(), fake_build(features=()), ()),
        (machine(RTX), BUILD, (device("gpu", "CUDA", "NVIDIA GeForce RTX 4090"),)),
        (machine(RTX), BUILD, (ON_VULKAN,)),
        (machine(RADEON), fake_build(("ROCm", "CPU")), (device("gpu", "ROCm", "gfx1100"),)),
        (machine(RADEON), BUILD, (device("gpu", "Vulkan", "AMD Radeon RX 7900 XTX (RADV NAVI31)"),)),
        (machine(ARC), BUILD, (device("gpu", "Vulkan", "Intel(R) Arc(tm) A770 Graphics (DG2)"),)),
        (MAC, BUILD, (device("gpu", "MTL", "Apple M2"),)),
    ],
)
def test_no_other_build_is_advised(here: Machine, build: BuildInfo, devices: tuple[Device, ...]) -> None:
    assert given(here, build, *devices) is None


@pytest.mark.parametrize(
    ("here", "build", "devices", "reason", "urgent"),
    [
        (machine(RTX), BUILD, (), "This llama.cpp is built without CUDA and cannot use the RTX 4090.", True),
        (machine(RTX), fake_build(("CUDA", "CPU")), (), "built with CUDA, but CUDA finds no RTX 4090.", True),
        (machine(IRIS), BUILD, (), "built without Vulkan and cannot use the Iris Xe.", False),
        (machine(IRIS, ARC), BUILD, (), "cannot use the Arc A770.", True),
        (machine(IRIS, ARC), fake_build(("Vulkan", "CPU")), (INSIDE, PROCESSOR), "Vulkan finds no Arc A770.", True),
        (machine(RTX, IRIS), BUILD, (UHD,), "cannot use the RTX 4090.", True),
        (machine(RTX), BUILD, (device("gpu", "Vulkan", "llvmpipe (LLVM 15.0.6)"),), "cannot use the RTX 4090.", True),
        (machine(RTX), BUILD, (device("cpu", "CPU", "NVIDIA Grace"),), "cannot use the RTX 4090.", True),
        (machine(RTX), None, (), "Install a build that runs here:", True),
        (machine(), fake_build(features=("SSE3",)), (), "layers and experts in RAM run many times slower.", True),
    ],
)
def test_the_reason_for_another_build(
    here: Machine, build: BuildInfo | None, devices: tuple[Device, ...], reason: str, urgent: bool
) -> None:
    found = advised(here, build, *devices)

    assert found.reason.endswith(reason)
    assert found.urgent is urgent


def test_a_build_without_avx2_is_replaced_beside_a_gpu_that_works() -> None:
    rocm, listed = fake_build(("ROCm", "CPU"), features=("SSE3",)), device("gpu", "ROCm", "gfx1100")
    found = advised(machine(RADEON), rocm, listed)

    assert "layers and experts in RAM run many times slower" in found.reason
    assert (found.command, found.other, found.urgent) == (VULKAN, source("-DGGML_HIP=on"), False)


@pytest.mark.parametrize(
    ("gpus", "devices", "expected"),
    [
        ((IRIS, ARC, RTX), (PROCESSOR,), [ARC, RTX, IRIS]),
        ((IRIS, ARC, RTX), (INSIDE, PROCESSOR), [ARC, RTX]),
        # A GPU and a device that are not known to be two may be one.
        ((ARC,), (INSIDE, PROCESSOR), []),
        ((IRIS, ARC, RTX), (INSIDE, ON_VULKAN), []),
    ],
)
def test_the_gpus_that_a_build_misses(gpus: tuple[Gpu, ...], devices: tuple[Device, ...], expected: list[Gpu]) -> None:
    assert missed(gpus, devices) == expected


HERE = Installation("pip", "python", "linux")


def test_libraries_in_another_folder_are_not_replaced_by_a_wheel() -> None:
    here = replace(HERE, library_folder="/opt/llama")

    hint = repair_hint(machine(), here, LoadFailure("", can_compile=True))
    assert hint == "Use the installed llama.cpp instead of the one in /opt/llama: unset LLAMA_CPP_LIB_PATH"
    assert repair_hint(machine(ARC), here, NO_LOADER) == f"Install the loader. Or: {hint}"
    better = advice(machine(RTX), BUILD, (), here)
    assert better is not None
    assert better.notes[0] == "Also unset LLAMA_CPP_LIB_PATH, which names another llama.cpp."


def test_hints_have_the_command_of_a_build() -> None:
    assert repair_hint(machine(ARC), HERE, NO_LOADER) == f"Install the loader. Or install another build: {CPU}"

    told = f"For the RTX 4090, install another build: {ready_made('cu124')}"
    assert unused_gpu_hint(machine(RTX), (PROCESSOR,), HERE) == told
    for other, listed in ((machine(RTX), ON_VULKAN), (machine(), PROCESSOR), (nvidia(driver="nouveau"), PROCESSOR)):
        assert unused_gpu_hint(other, (listed,), HERE) is None


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    for extra in known_builds()["cuda_packages"].values():
        named = [one.partition(";")[0].strip() for one in project["optional-dependencies"][extra["extra"]]]
        assert named == extra["packages"]
