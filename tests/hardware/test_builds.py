"""The right build of llama-cpp-python for machines that we do not have, and the command that installs it."""

import tomllib
from dataclasses import replace
from pathlib import Path

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
NO_TOOLKIT = replace(RTX, toolkit=None)
RADEON = Gpu("amd", "RX 7900 XTX", 24 * GIB, 23 * GIB, "amdgpu", "ROCm 7.2.0", target="gfx1100")
ARC = Gpu("intel", "Arc A770", None, None, "xe", None)
IRIS = Gpu("intel", "Iris Xe", None, None, "i915", None, integrated=True)
BUILD = fake_build()
CUDA_12 = ("nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cuda-nvrtc-cu12")
CUDA_13 = ("'nvidia-cuda-runtime==13.*'", "'nvidia-cublas==13.*'", "'nvidia-cuda-nvrtc==13.*'")
APPLE = Gpu("apple", "Apple M2", None, None, "Metal 3", None, integrated=True)


def device(kind: Kind, backend: str, description: str) -> Device:
    return Device("X0", kind, backend, 0, description, 0)


def machine(*gpus: Gpu, system: str = "linux", arch: str = "x86_64", vulkan: bool = True) -> Machine:
    return Machine(system, "cpu", 8, 16, 64 * GIB, 48 * GIB, gpus, arch=arch, features=("AVX2",), vulkan=vulkan)


def in_venv(target: Machine) -> Installation:
    return Installation("pip", "python", target.system)


def advised(
    target: Machine, build: BuildInfo | None = BUILD, *devices: Device, failure: LoadFailure | None = None
) -> Advice:
    given = advice(target, build, devices, in_venv(target), failure)
    assert given is not None
    return given


def is_advised(target: Machine, build: BuildInfo, *devices: Device) -> bool:
    return advice(target, build, devices, in_venv(target)) is not None


def ready_made(name: str, *extra: str) -> str:
    words = "python -m pip install --force-reinstall --no-deps --only-binary llama-cpp-python --extra-index-url"
    return " ".join((words, f"{INDEX}{name}", PIN, *extra))


def source(cmake: str) -> str:
    return (
        f'CMAKE_ARGS="{cmake}" python -m pip install --force-reinstall --no-deps --no-cache-dir '
        f"--no-binary llama-cpp-python {PIN}"
    )


VULKAN, VULKAN_SOURCE, CUDA_SOURCE = ready_made("vulkan"), source("-DGGML_VULKAN=on"), source("-DGGML_CUDA=on")


def test_the_data_is_about_the_release_that_is_pinned() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))

    assert PIN in project["project"]["dependencies"]
    assert known_builds()["version"] == PIN.split("==")[1]


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
    ],
)
def test_cuda_by_driver_toolkit_and_card(changes: dict[str, str], name: str) -> None:
    given = advised(machine(replace(RTX, **changes)))  # type: ignore[arg-type]

    assert (given.backend, given.command, given.urgent) == ("CUDA", ready_made(name), True)
    assert given.notes == ()
    assert given.other == CUDA_SOURCE


@pytest.mark.parametrize(("driver", "name"), [("12.3", "cu118"), ("12.4", "cu124"), ("13.2", "cu125")])
def test_windows_has_fewer_cuda_wheels(driver: str, name: str) -> None:
    given = advised(machine(replace(RTX, api=driver, toolkit="CUDA 12.4, 11.8"), system="windows"))

    assert given.command == ready_made(name)
    assert str(given.other).startswith('$env:CMAKE_ARGS = "-DGGML_CUDA=on"; python -m pip install ')
    assert "Visual Studio" in str(given.other_needs)
    (note,) = given.notes
    assert "PowerShell" in note
    assert "after closing Tandem" in note


MAC = machine(APPLE, system="darwin", arch="arm64")


@pytest.mark.parametrize(
    ("here", "command", "other", "told"),
    [
        # Without the toolkit Vulkan works at once.
        (machine(NO_TOOLKIT), VULKAN, ready_made("cu124", *CUDA_12), "With CUDA instead"),
        (machine(replace(NO_TOOLKIT, api="13.0"), vulkan=False), ready_made("cu130", *CUDA_13), CUDA_SOURCE, ""),
        (replace(machine(NO_TOOLKIT), wsl=True), ready_made("cu124", *CUDA_12), CUDA_SOURCE, ""),
        (
            machine(replace(NO_TOOLKIT, api="11.8"), vulkan=False),
            ready_made("cu118"),
            CUDA_SOURCE,
            "Install that first.",
        ),
        (machine(RTX, arch="arm64"), CUDA_SOURCE, "", "minutes and needs a C++ compiler and the CUDA toolkit."),
        (machine(replace(RTX, api=None)), VULKAN, VULKAN_SOURCE, ""),
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
    ],
)
def test_the_build_for_a_gpu(here: Machine, command: str, other: str, told: str) -> None:
    given = advised(here)

    assert (given.command, given.other or "", given.urgent) == (command, other, True)
    assert told in " ".join((*given.notes, given.other_needs or ""))


@pytest.mark.parametrize("driver", [None, "nouveau"])
def test_a_gpu_without_its_driver_and_a_translated_python_get_no_build(driver: str) -> None:
    assert not is_advised(machine(replace(RTX, api=None, driver=driver)), BUILD)
    assert not is_advised(replace(MAC, translated=True), BUILD)


def test_integrated_gpus_are_not_urgent_and_discrete_ones_come_first() -> None:
    assert not advised(machine(IRIS)).urgent
    assert advised(machine(IRIS, ARC)).urgent
    uhd = device("gpu", "Vulkan", "Intel(R) UHD Graphics 770")
    assert advised(machine(IRIS, RTX), BUILD, uhd).backend == "CUDA"


# Where nothing is to be done, and where the build is broken


def test_a_card_is_missed_beside_graphics_inside_the_cpu_that_are_used() -> None:
    inside, processor = device("igpu", "Vulkan", "Intel(R) Iris(R) Xe"), device("cpu", "CPU", "cpu")

    assert missed((IRIS, ARC, RTX), (processor,)) == [ARC, RTX, IRIS]
    assert missed((IRIS, ARC, RTX), (inside, processor)) == [ARC, RTX]
    assert missed((ARC,), (inside, processor)) == [], "what is not known to be two may be one"
    assert missed((IRIS, ARC, RTX), (inside, device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090"))) == []
    assert advised(machine(IRIS, ARC), fake_build(("Vulkan", "CPU")), inside, processor).urgent


@pytest.mark.parametrize(
    ("gpu", "listed"),
    [
        (RTX, device("gpu", "CUDA", "NVIDIA GeForce RTX 4090")),
        (RTX, device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090")),
        (RADEON, device("gpu", "ROCm", "gfx1100")),
        (RADEON, device("gpu", "Vulkan", "AMD Radeon RX 7900 XTX (RADV NAVI31)")),
        (ARC, device("gpu", "Vulkan", "Intel(R) Arc(tm) A770 Graphics (DG2)")),
        (APPLE, device("gpu", "MTL", "Apple M2")),
    ],
)
def test_a_build_that_can_use_the_card_stays(gpu: Gpu, listed: Device) -> None:
    system, arch = ("darwin", "arm64") if gpu is APPLE else ("linux", "x86_64")

    assert not is_advised(machine(gpu, system=system, arch=arch), BUILD, listed)


@pytest.mark.parametrize(
    "listed",
    [
        device("gpu", "Vulkan", "llvmpipe (LLVM 15.0.6, 256 bits)"),
        device("cpu", "CPU", "NVIDIA Grace"),
        device("gpu", "Vulkan", "Intel(R) UHD Graphics 770"),
    ],
)
def test_another_device_does_not_stand_for_the_card(listed: Device) -> None:
    assert advised(machine(RTX, IRIS), BUILD, listed).backend == "CUDA"


def test_the_reason_shows_a_missing_backend_from_a_missing_device() -> None:
    assert "without CUDA" in advised(machine(RTX)).reason
    assert "CUDA finds no RTX 4090" in advised(machine(RTX), fake_build(("CUDA", "CPU"))).reason


def test_a_library_that_does_not_load_is_installed_again() -> None:
    assert advised(machine(RTX), None).command == ready_made("cu124")
    assert advised(machine(RTX), None).reason == "Install a build that runs here:"
    given = advised(machine(), None)
    assert (given.command, given.other) == (ready_made("cpu"), source("-DGGML_NATIVE=on"))
    assert advised(machine(IRIS), None).urgent


def test_a_build_for_any_cpu_is_replaced_by_one_for_this() -> None:
    assert advised(machine(), fake_build(features=("SSE3",))).command == ready_made("cpu")
    assert not is_advised(machine(), BUILD)
    assert not is_advised(machine(), fake_build(features=()))


def test_a_cpu_without_what_a_wheel_is_built_with_gets_none() -> None:
    old = replace(machine(), features=("SSE3",))

    assert (advised(old, None).command, advised(old, None).other) == (source("-DGGML_NATIVE=on"), None)
    assert advised(replace(old, gpus=(ARC,))).command == VULKAN_SOURCE
    assert advised(replace(old, gpus=(RTX,))).command == CUDA_SOURCE
    assert advised(replace(old, features=()), None).command == ready_made("cpu"), "where it is not known"


@pytest.mark.parametrize(
    ("gpu", "glibc", "command"),
    [
        (RTX, (2, 35), ready_made("cu124")),
        (RTX, (2, 34), VULKAN),
        (RADEON, (2, 34), VULKAN),
        # Alpine Linux has another C library, for which no index has wheels.
        (ARC, (), VULKAN_SOURCE),
    ],
)
def test_no_wheel_is_advised_that_needs_a_newer_c_library(gpu: Gpu, glibc: tuple[int, ...], command: str) -> None:
    assert advised(replace(machine(gpu), glibc=glibc)).command == command


def test_layers_in_ram_are_slow_without_avx2_beside_a_gpu_that_works() -> None:
    rocm, listed = fake_build(("ROCm", "CPU"), features=("SSE3",)), device("gpu", "ROCm", "gfx1100")
    given = advised(machine(RADEON), rocm, listed)

    assert "layers and experts in RAM run many times slower" in given.reason
    assert (given.command, given.other, given.urgent) == (VULKAN, source("-DGGML_HIP=on"), False)
    assert not is_advised(machine(RADEON), fake_build(("ROCm", "CPU")), listed)


def test_a_mac_whose_metal_finds_no_device_needs_no_other_build() -> None:
    assert not is_advised(MAC, fake_build(("MTL", "CPU")))


# A build that cannot be loaded

CUDA_CRASH = LoadFailure("", None, ("cuda",), can_compile=True)
NO_LOADER = LoadFailure("", "Install the loader.", ("vulkan",))
NO_CUDA = LoadFailure("", "Install the toolkit.", ("cuda",), cuda="12")


@pytest.mark.parametrize(
    ("gpu", "failure", "command", "other"),
    [
        (RTX, CUDA_CRASH, VULKAN, CUDA_SOURCE),
        (NO_TOOLKIT, CUDA_CRASH, VULKAN, CUDA_SOURCE),
        (NO_TOOLKIT, NO_LOADER, ready_made("cu124", *CUDA_12), CUDA_SOURCE),
        (ARC, NO_LOADER, ready_made("cpu"), source("-DGGML_NATIVE=on")),
        (ARC, LoadFailure("", None, ("cpu", "vulkan"), can_compile=True), VULKAN_SOURCE, ""),
        (NO_TOOLKIT, NO_CUDA, " ".join(("python -m pip install --force-reinstall --no-deps", *CUDA_12)), VULKAN),
    ],
)
def test_the_advised_build_does_not_fail_as_the_installed_one(
    gpu: Gpu, failure: LoadFailure, command: str, other: str
) -> None:
    given = advised(machine(gpu), None, failure=failure)

    assert (given.command, given.other or "") == (command, other)


def test_libraries_of_cuda_are_not_advised_without_a_gpu_of_nvidia() -> None:
    assert advised(machine(), None, failure=NO_CUDA).command == ready_made("cpu")


def test_the_hint_of_an_error_is_the_fix_and_a_command() -> None:
    hint = repair_hint(machine(ARC), in_venv(machine()), NO_LOADER)

    assert hint == f"Install the loader. Or install another build: {ready_made('cpu')}"


def test_libraries_in_another_folder_are_not_replaced_by_a_wheel() -> None:
    here = replace(in_venv(machine()), library_folder="/opt/llama")

    hint = repair_hint(machine(), here, LoadFailure("", can_compile=True))
    assert hint == "Use the installed llama.cpp instead of the one in /opt/llama: unset LLAMA_CPP_LIB_PATH"
    assert repair_hint(machine(ARC), here, NO_LOADER) == f"Install the loader. Or: {hint}"
    better = advice(machine(RTX), BUILD, (), here)
    assert better is not None
    assert better.notes[0] == "Also unset LLAMA_CPP_LIB_PATH, which names another llama.cpp."


def test_a_gpu_that_is_named_but_not_used_comes_with_the_build_for_it() -> None:
    processor, nvidia = device("cpu", "CPU", "cpu"), device("gpu", "Vulkan", "NVIDIA GeForce RTX 4090")

    told = unused_gpu_hint(machine(RTX), (processor,), in_venv(machine()))
    assert told == f" For the RTX 4090, install another build: {ready_made('cu124')}"
    assert unused_gpu_hint(machine(RTX), (nvidia, processor), in_venv(machine())) == ""
    assert unused_gpu_hint(machine(), (processor,), in_venv(machine())) == ""
    assert unused_gpu_hint(machine(replace(RTX, driver="nouveau")), (processor,), in_venv(machine())) == ""


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    for extra in known_builds()["cuda_packages"].values():
        named = [one.partition(";")[0].strip() for one in project["optional-dependencies"][extra["extra"]]]
        assert named == extra["packages"]
