"""GPUs of every vendor on Linux, macOS and Windows, and malformed output of tools."""

import json

import pytest

from app.hardware.gpus import CIM_QUERY, Gpu
from app.hardware.machine import detect
from tests.machines import CUDA_12, GIB, LDCONFIG, PCI_IDS, SMI, SMI_CSV, SMI_TABLE, FakeSystem, pci

MIB = 1 << 20
RTX = "NVIDIA GeForce RTX 4090, 24564, 23990, 550.54.15, 8.9\n"


def gpus(system: FakeSystem) -> tuple[Gpu, ...]:
    return detect(system).gpus


# NVIDIA


def test_nvidia_smi_shows_nearly_all() -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia") | {"/usr/local/cuda-12.4/bin/nvcc": ""}
    libraries = CUDA_12 + CUDA_12.replace(".so.12", ".so.13") + "\tlibcudart.so.10.2 (libc6) => /x\n"

    # 12 is found by its toolkit, 10 lacks half of its libraries.
    found = gpus(FakeSystem(files=files, tools={SMI: SMI_TABLE, SMI_CSV: RTX, LDCONFIG: libraries}))
    name, toolkits = "NVIDIA GeForce RTX 4090", "CUDA 13, 12.4"
    assert found == (Gpu("nvidia", name, 24564 * MIB, 23990 * MIB, "550.54.15", toolkits, target="8.9", api="12.4"),)


def test_only_the_gpus_that_a_container_may_use_count_and_one_shares_memory() -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia") | pci("0000:02:00.0", "8086", "56a0", "xe")
    rows = RTX + "NVIDIA GB10, [N/A], [N/A], 580.95.05, 12.1\n"

    first, second, intel = gpus(FakeSystem(files=files, tools={SMI: SMI_TABLE, SMI_CSV: rows}))

    assert (first.total_bytes, first.integrated) == (24564 * MIB, False)
    assert (second.name, second.total_bytes, second.free_bytes, second.integrated) == ("NVIDIA GB10", None, None, True)
    assert intel.vendor == "intel"


@pytest.mark.parametrize("module", ["nvidia", "nouveau", ""])
def test_without_nvidia_smi_the_bus_shows(module: str) -> None:
    files = pci("0000:01:00.0", "10de", "2684", module) | {"/usr/share/misc/pci.ids": PCI_IDS}

    assert [(gpu.name, gpu.driver) for gpu in gpus(FakeSystem(files=files))] == [
        ("NVIDIA AD102 [GeForce RTX 4090]", module or None)
    ]


@pytest.mark.parametrize(
    "answer", ["", "\x00\xff\xfe", "No devices were found", ",,,,", "a,b\nc", RTX + "cut of", None]
)
def test_garbage_from_nvidia_smi_is_reported(answer: str | None) -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia")

    machine = detect(FakeSystem(files=files, tools={SMI: SMI_TABLE, SMI_CSV: answer}))

    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA GPU 10de:2684"]
    assert machine.troubles[-1] == "nvidia-smi did not list its GPUs in a known form."


# AMD and Intel on Linux

AMD = pci("0000:03:00.0", "1002", "744c", "amdgpu") | {
    "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total": "25753026560\n",
    "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used": "1073741824\n",
    "/opt/rocm/.info/version": "7.2.0-43\n",
    "/usr/share/hwdata/pci.ids": PCI_IDS,
}


def test_a_discrete_amd_gpu() -> None:
    name = "AMD Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]"
    assert gpus(FakeSystem(files=AMD)) == (Gpu("amd", name, 25753026560, 24679284736, "amdgpu", "ROCm 7.2.0"),)


def test_garbage_from_the_kernel_changes_nothing() -> None:
    files = AMD | {
        "/sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total": "a lot",
        "/opt/rocm/.info/version": "?",
        "/usr/share/hwdata/pci.ids": "\x00",
    }

    (gpu,) = gpus(FakeSystem(files=files))

    assert (gpu.name, gpu.total_bytes, gpu.free_bytes, gpu.toolkit) == ("AMD GPU 1002:744c", None, None, None)


def test_integrated_gpus_on_linux() -> None:
    files = pci("0000:00:02.0", "8086", "a780", "i915") | pci("0000:03:00.0", "8086", "56a0", "xe")
    files |= pci("0000:c4:00.0", "1002", "15bf", "amdgpu", kind="0x038000") | pci("0000:c5:00.0", "1002", "2684")
    files |= {"/usr/share/misc/pci.ids": PCI_IDS}
    files["/sys/bus/pci/devices/0000:c4:00.0/mem_info_vram_total"] = str(512 * MIB)

    assert [(gpu.name, gpu.integrated) for gpu in gpus(FakeSystem(files=files))] == [
        ("Intel GPU 8086:a780", True),
        ("Intel DG2 [Arc A770]", False),
        ("AMD Phoenix1", True),
        ("AMD GPU 1002:2684", False),
    ]


def test_other_devices_on_the_bus_are_left_out() -> None:
    files = pci("0000:01:00.1", "10de", "22ba", "snd_hda_intel", kind="0x040300")
    files |= pci("0000:00:01.0", "1af4", "1050", "virtio-pci")

    assert gpus(FakeSystem(files=files)) == ()


# macOS


def test_apple_silicon_is_one_integrated_gpu() -> None:
    tools = {"sysctl -in machdep.cpu.brand_string": "Apple M4\n", "sysctl -in iogpu.wired_limit_mb": "28672\n"}

    assert gpus(FakeSystem("darwin", "arm64", tools=tools)) == (
        Gpu("apple", "Apple M4", 28 * GIB, None, "Metal", None, integrated=True),
    )
    assert gpus(FakeSystem("darwin", "arm64"))[0].name == "Apple GPU"
    assert gpus(FakeSystem("darwin", "x86_64")) == ()


# Windows

CIM = f"powershell -NoProfile -NonInteractive -Command {CIM_QUERY}"


def test_nvidia_smi_counts_before_windows() -> None:
    rows = [
        {"Name": "NVIDIA GeForce RTX 4090", "DriverVersion": "31.0.15.5123", "PNPDeviceID": r"PCI\VEN_10DE&DEV_2684"},
        {"Name": "AMD Radeon RX 7800 XT", "DriverVersion": "32.0.1", "PNPDeviceID": r"PCI\VEN_1002&DEV_747E"},
        {"Name": "Microsoft Remote Display Adapter", "PNPDeviceID": "terminpt_display"},
    ]
    cim = json.dumps(rows)

    found = gpus(FakeSystem("windows", tools={SMI: SMI_TABLE, SMI_CSV: RTX, CIM: cim}))
    assert [(g.vendor, g.driver) for g in found] == [("nvidia", "550.54.15"), ("amd", "32.0.1")]
    without = gpus(FakeSystem("windows", tools={CIM: cim}))
    assert [(g.vendor, g.driver) for g in without] == [("nvidia", None), ("amd", "32.0.1")]


@pytest.mark.parametrize("answer", ["", "{", "null", "[1]", "{}", '[{"Name": 3, "PNPDeviceID": 4}]'])
def test_garbage_from_windows(answer: str) -> None:
    assert gpus(FakeSystem("windows", tools={CIM: answer})) == ()


@pytest.mark.parametrize(
    ("name", "integrated"),
    [
        ("AMD Radeon(TM) Graphics", True),
        ("AMD Radeon RX Vega 11 Graphics", True),
        ("AMD Radeon 780M Graphics", True),
        ("AMD Radeon(TM) 8060S Graphics", True),
        ("AMD Radeon RX 6700M", False),
        ("AMD Radeon RX 7900 XTX", False),
        ("Intel(R) UHD Graphics 770", True),
        ("Intel(R) Iris(R) Xe Graphics", True),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", True),
        ("Intel(R) Arc(TM) A770 Graphics", False),
    ],
)
def test_integrated_gpus_of_windows_are_known_by_name(name: str, integrated: bool) -> None:
    row = {"Name": name, "DriverVersion": "1.2", "PNPDeviceID": rf"PCI\VEN_{'1002' if 'AMD' in name else '8086'}"}

    (gpu,) = gpus(FakeSystem("windows", tools={CIM: json.dumps(row)}))

    assert gpu.integrated is integrated
