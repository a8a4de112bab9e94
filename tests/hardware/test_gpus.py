"""Graphics of every vendor, as Linux, macOS and Windows tell of it; also what no tool should say."""

from __future__ import annotations

import json

import pytest

from app.hardware.gpus import DISPLAY_KEY, QUERY, Gpu
from app.hardware.machine import look
from app.hardware.system import ToolError
from tests.machines import (
    CUDA_12,
    GIB,
    LDCONFIG,
    PCI_IDS,
    SMI,
    SMI_CSV,
    SMI_OLD_CSV,
    SMI_TABLE,
    FakeSystem,
    pci,
)

MIB = 1 << 20
RTX = "NVIDIA GeForce RTX 4090, 24564, 23990, 550.54.15, 8.9\n"


def gpus(system: FakeSystem) -> tuple[Gpu, ...]:
    return look(system).gpus


# NVIDIA on Linux


def test_nvidia_smi_tells_nearly_all() -> None:
    tools = {SMI: SMI_TABLE, SMI_CSV: RTX, LDCONFIG: CUDA_12, "nvcc --version": "release 12.4, V12.4.131"}

    assert gpus(FakeSystem(files=pci("0000:01:00.0", "10de", "2684", "nvidia"), tools=tools)) == (
        Gpu(
            "nvidia",
            "NVIDIA GeForce RTX 4090",
            24564 * MIB,
            23990 * MIB,
            "550.54.15",
            "CUDA 12.4",
            target="8.9",
            api="12.4",
        ),
    )


def test_several_cards_and_one_that_shares_memory() -> None:
    rows = RTX + "NVIDIA GB10, [N/A], [N/A], 580.95.05, 12.1\n"

    first, second = gpus(FakeSystem(tools={SMI: SMI_TABLE, SMI_CSV: rows}))

    assert (first.total_bytes, first.integrated) == (24564 * MIB, False)
    assert (second.name, second.total_bytes, second.free_bytes, second.integrated) == ("NVIDIA GB10", None, None, True)


def test_a_container_shows_only_the_cards_that_may_be_used() -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia") | pci("0000:02:00.0", "10de", "2684", "nvidia")

    assert len(gpus(FakeSystem(files=files, tools={SMI: SMI_TABLE, SMI_CSV: RTX}))) == 1


def test_an_old_nvidia_smi_knows_no_compute_capability() -> None:
    tools: dict[str, str | ToolError] = {
        SMI: SMI_TABLE,
        SMI_CSV: ToolError("failed"),
        SMI_OLD_CSV: "Tesla K80, 11441, 11438, 470.57.02\n",
    }

    machine = look(FakeSystem(tools=tools))

    assert [(g.name, g.target) for g in machine.gpus] == [("Tesla K80", "")]
    assert machine.troubles == ()


def test_without_nvidia_smi_the_kernel_module_tells() -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia") | {
        "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12\nGCC",
        "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA RTX A6000\nIRQ: 1\n",
    }

    (gpu,) = gpus(FakeSystem(files=files))

    assert (gpu.name, gpu.driver, gpu.total_bytes) == ("NVIDIA RTX A6000", "535.183.01", None)


@pytest.mark.parametrize(("module", "driver"), [("nouveau", "nouveau"), ("", "")])
def test_a_card_without_its_vendors_driver(module: str, driver: str) -> None:
    files = pci("0000:01:00.0", "10de", "2684", module) | {"/usr/share/misc/pci.ids": PCI_IDS}

    (gpu,) = gpus(FakeSystem(files=files))

    assert (gpu.name, gpu.driver) == ("NVIDIA AD102 [GeForce RTX 4090]", driver)


@pytest.mark.parametrize(
    "answer",
    ["", "\x00\xff\xfe", "No devices were found", ",,,,", "a,b\nc", "<html>" * 100, RTX + "cut of"],
)
def test_garbage_from_nvidia_smi_is_said_and_survived(answer: str) -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia")

    machine = look(FakeSystem(files=files, tools={SMI: SMI_TABLE, SMI_CSV: answer, SMI_OLD_CSV: answer}))

    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA GPU 10de:2684"]
    assert machine.troubles == ("nvidia-smi did not list its cards in a form that can be read.",)


def test_a_jetson_has_no_card_on_the_bus() -> None:
    files = {"/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\x00"}

    (gpu,) = gpus(FakeSystem(arch="arm64", files=files))

    assert (gpu.name, gpu.driver, gpu.integrated) == ("NVIDIA Jetson AGX Orin Developer Kit", "tegra", True)


def test_toolkits_are_found_wherever_they_lie() -> None:
    files = {
        "/usr/local/cuda-11.8/bin/nvcc": "",
        "/usr/local/cuda/version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}),
    }
    ldconfig = CUDA_12 + CUDA_12.replace(".so.12", ".so.13") + "\tlibcudart.so.10.2 (libc6) => /x\n"
    tools = {SMI: SMI_TABLE, SMI_CSV: RTX, LDCONFIG: ldconfig}

    (gpu,) = gpus(FakeSystem(files=files, tools=tools, env={"CUDA_HOME": "/opt/cuda-12.6"}))

    # 12 is there by its toolkit, 10 lacks half of its libraries.
    assert gpu.toolkit == "CUDA 13, 12.6, 12.4, 11.8"


# AMD and Intel on Linux

AMD = pci("0000:03:00.0", "1002", "744c", "amdgpu") | {
    "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total": "25753026560\n",
    "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used": "1073741824\n",
    "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 32\ngfx_target_version 0\n",
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110000\nlocation_id 768\ndomain 0\n",
    "/proc/sys/kernel/osrelease": "6.8.0-45-generic\n",
    "/opt/rocm/.info/version": "7.2.0-43\n",
    "/usr/share/hwdata/pci.ids": PCI_IDS,
}


def test_garbage_from_the_kernel_changes_nothing() -> None:
    files = AMD | {
        "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total": "a lot",
        "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version\nlocation_id x\n\x00",
        "/opt/rocm/.info/version": "?",
    }

    (gpu,) = gpus(FakeSystem(files=files))

    assert (gpu.total_bytes, gpu.free_bytes, gpu.target, gpu.toolkit) == (None, None, "", "")


def test_graphics_inside_an_amd_processor() -> None:
    files = pci("0000:c4:00.0", "1002", "15bf", "amdgpu", kind="0x038000")
    files["/sys/class/kfd/kfd/topology/nodes/1/properties"] = "gfx_target_version 110003\nlocation_id 50176\n"

    (gpu,) = gpus(FakeSystem(files=files))

    assert (gpu.target, gpu.integrated) == ("gfx1103", True)


def test_an_accelerator_without_a_display() -> None:
    files = pci("0000:05:00.0", "1002", "74a1", "amdgpu", kind="0x120000")
    files["/sys/class/kfd/kfd/topology/nodes/1/properties"] = "gfx_target_version 90010\nlocation_id 1280\n"

    assert [gpu.target for gpu in gpus(FakeSystem(files=files))] == ["gfx90a"]


def test_intel_inside_and_on_a_card() -> None:
    files = pci("0000:00:02.0", "8086", "a780", "i915") | pci("0000:03:00.0", "8086", "56a0", "xe")
    files |= {"/usr/share/misc/pci.ids": PCI_IDS, "/sys/module/xe/version": "1.1.0\n"}

    inside, card = gpus(FakeSystem(files=files))

    assert (inside.name, inside.integrated, inside.driver) == ("Intel GPU 8086:a780", True, "i915")
    assert (card.name, card.integrated, card.driver) == ("Intel DG2 [Arc A770]", False, "xe 1.1.0")


def test_a_name_is_taken_from_the_right_vendors_list() -> None:
    files = pci("0000:03:00.0", "1002", "2684", "amdgpu") | {"/usr/share/misc/pci.ids": PCI_IDS}

    assert [gpu.name for gpu in gpus(FakeSystem(files=files))] == ["AMD GPU 1002:2684"]


def test_what_is_no_graphics_is_left_out() -> None:
    files = pci("0000:01:00.1", "10de", "22ba", "snd_hda_intel", kind="0x040300")
    files |= pci("0000:00:01.0", "1af4", "1050", "virtio-pci")

    assert gpus(FakeSystem(files=files)) == ()


# macOS

PROFILER = "system_profiler SPDisplaysDataType -json"
BRAND = "sysctl -n machdep.cpu.brand_string"


def profiler(**card: str) -> str:
    return json.dumps({"SPDisplaysDataType": [card]})


def test_apple_silicon_is_one_integrated_card_with_metal() -> None:
    card = profiler(
        _name="Apple M2 Max",
        sppci_model="Apple M2 Max",
        spdisplays_vendor="sppci_vendor_Apple",
        spdisplays_mtlgpufamilysupport="spdisplays_metal3",
    )
    tools = {PROFILER: card, BRAND: "Apple M2 Max\n", "sysctl -n iogpu.wired_limit_mb": "0\n"}

    machine = look(FakeSystem("darwin", "arm64", tools=tools))

    assert machine.cpu == "Apple M2 Max"
    assert machine.gpus == (Gpu("apple", "Apple M2 Max", None, None, "Metal 3", "", integrated=True),)
    assert not machine.translated


def test_a_raised_limit_of_apples_graphics_is_its_memory() -> None:
    (gpu,) = gpus(FakeSystem("darwin", "arm64", tools={BRAND: "Apple M4", "sysctl -n iogpu.wired_limit_mb": "28672\n"}))

    assert (gpu.name, gpu.total_bytes) == ("Apple M4", 28 * GIB)


@pytest.mark.parametrize(
    "answer", ["", "{}", "[]", '{"SPDisplaysDataType": 3}', '{"SPDisplaysDataType": [4, {}]}', "\x00"]
)
def test_garbage_from_system_profiler(answer: str) -> None:
    assert [g.vendor for g in gpus(FakeSystem("darwin", "arm64", tools={PROFILER: answer}))] == ["apple"]
    assert gpus(FakeSystem("darwin", "x86_64", tools={PROFILER: answer})) == ()


def test_an_intel_mac_with_a_card() -> None:
    card = profiler(sppci_model="AMD Radeon Pro 5500M", spdisplays_vendor="sppci_vendor_amd", spdisplays_vram="8 GB")

    (gpu,) = gpus(FakeSystem("darwin", "x86_64", tools={PROFILER: card}))

    assert (gpu.vendor, gpu.total_bytes, gpu.integrated) == ("amd", 8 * GIB, False)


def test_an_intel_python_on_apple_silicon_is_known() -> None:
    assert look(FakeSystem("darwin", "x86_64", tools={"sysctl -in sysctl.proc_translated": "1\n"})).translated


# Windows

CIM = f"powershell -NoProfile -NonInteractive -Command {QUERY}"
REGISTRY = {
    DISPLAY_KEY: (
        {
            "DriverDesc": "AMD Radeon RX 7800 XT",
            "DriverVersion": "32.0.12019.1028",
            "MatchingDeviceId": r"PCI\VEN_1002&DEV_747E&REV_C8",
            "HardwareInformation.qwMemorySize": (16 * GIB).to_bytes(8, "little"),
        },
        {
            "DriverDesc": "NVIDIA GeForce RTX 3060",
            "DriverVersion": "31.0.15.5123",
            "MatchingDeviceId": r"PCI\VEN_10DE&DEV_2504",
            "HardwareInformation.qwMemorySize": 12 * GIB,
        },
        {"DriverDesc": "Microsoft Remote Display Adapter", "MatchingDeviceId": "terminpt_display"},
    )
}


def test_windows_lists_what_is_present_and_the_registry_knows_its_memory() -> None:
    row = {"Name": "NVIDIA GeForce RTX 3060", "DriverVersion": "31.0.15.5123"}
    answer = json.dumps(row | {"PNPDeviceID": r"PCI\VEN_10DE&DEV_2504&SUBSYS_88201043\4&1&0&0008"})

    (gpu,) = gpus(FakeSystem("windows", tools={CIM: answer}, registry=REGISTRY))

    assert (gpu.name, gpu.driver, gpu.total_bytes) == ("NVIDIA GeForce RTX 3060", "551.23", 12 * GIB)


@pytest.mark.parametrize("answer", [ToolError("powershell did not answer within 10 seconds"), "", "{", "null", "[1]"])
def test_without_cim_the_registry_is_the_list(answer: str | ToolError) -> None:
    machine = look(FakeSystem("windows", tools={CIM: answer}, registry=REGISTRY))

    assert [(g.vendor, g.total_bytes) for g in machine.gpus] == [("amd", 16 * GIB), ("nvidia", 12 * GIB)]
    assert len(machine.troubles) == isinstance(answer, ToolError)


def test_nvidia_smi_comes_first_on_windows_too() -> None:
    found = gpus(FakeSystem("windows", tools={SMI: SMI_TABLE, SMI_CSV: RTX}, registry=REGISTRY))

    assert [(g.vendor, g.target) for g in found] == [("nvidia", "8.9"), ("amd", "")]


@pytest.mark.parametrize(
    ("name", "integrated"),
    [
        ("AMD Radeon(TM) Graphics", True),
        ("AMD Radeon RX Vega 11 Graphics", True),
        ("AMD Radeon 780M Graphics", True),
        ("AMD Radeon(TM) 8060S Graphics", True),
        ("AMD Radeon RX 6700M", False),
        ("AMD Radeon RX 7900 XTX", False),
        ("AMD Radeon PRO W7900", False),
        ("Intel(R) UHD Graphics 770", True),
        ("Intel(R) Iris(R) Xe Graphics", True),
        ("Intel(R) Arc(TM) Graphics", True),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", True),
        ("Intel(R) Arc(TM) A770 Graphics", False),
        ("Intel(R) Arc(TM) B580 Graphics", False),
    ],
)
def test_graphics_inside_the_processor_by_its_name(name: str, integrated: bool) -> None:
    vendor = "1002" if "AMD" in name else "8086"
    values = {"DriverDesc": name, "DriverVersion": "1.2.3.4", "MatchingDeviceId": rf"PCI\VEN_{vendor}&DEV_1234"}

    (gpu,) = gpus(FakeSystem("windows", registry={DISPLAY_KEY: (values,)}))

    assert gpu.integrated is integrated
