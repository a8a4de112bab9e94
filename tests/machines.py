"""Scripted machines: files and tools behind `app.hardware.system.System`."""

from collections.abc import Mapping

from app.hardware.system import System

GIB = 1 << 30
CPUINFO = (
    "processor\t: 0\nmodel name\t: AMD Ryzen 9 7950X 16-Core Processor\nflags\t\t: fpu sse2 fma f16c avx2 avx512f\n"
)
PCI_IDS = """#
# Comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]
\t\t1002 0e3b  RX 7900 GRE
\t15bf  Phoenix1
10de  NVIDIA Corporation
\t2684  AD102 [GeForce RTX 4090]
8086  Intel Corporation
\t56a0  DG2 [Arc A770]
"""
SMI = "nvidia-smi"
SMI_CSV = (
    "nvidia-smi --query-gpu=name,memory.total,memory.free,driver_version,compute_cap --format=csv,noheader,nounits"
)
SMI_TABLE = """+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
"""
LDCONFIG = "ldconfig -p"
VULKAN = "\tlibvulkan.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libvulkan.so.1\n"
CUDA_12 = (
    "\tlibcudart.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.12\n"
    "\tlibcublas.so.12 (libc6,x86-64) => /usr/local/cuda/lib64/libcublas.so.12\n"
)


class FakeSystem(System):
    """A system made of dictionaries."""

    def __init__(
        self,
        name: str = "linux",
        arch: str = "x86_64",
        *,
        files: Mapping[str, str] | None = None,
        tools: Mapping[str, str | None] | None = None,
        memory: tuple[int, int] = (64 * GIB, 48 * GIB),
        cores: tuple[int, int] = (16, 32),
        windows_cpu: str = "",
    ) -> None:
        self.name, self.arch, self.troubles = name, arch, []
        self._files, self._tools = dict(files or {}), dict(tools or {})
        self._memory, self._cores, self._windows_cpu = memory, cores, windows_cpu

    def read(self, path: str) -> str:
        return self._files.get(path, "")

    def names(self, path: str) -> tuple[str, ...]:
        inside = {file[len(path) + 1 :].split("/")[0] for file in self._files if file.startswith(f"{path}/")}
        return tuple(sorted(inside))

    def run(self, *argv: str) -> str:
        output = self._tools.get(" ".join(argv), "")
        if output is None:
            self.troubles.append(f"{argv[0]} failed with code 1.")
        return output or ""

    def glibc(self) -> str:
        return "glibc 2.39"

    def memory(self) -> tuple[int, int]:
        return self._memory

    def cores(self) -> tuple[int, int]:
        return self._cores

    def windows_cpu(self) -> str:
        return self._windows_cpu


def pci(address: str, vendor: str, device: str, module: str = "", kind: str = "0x030000") -> dict[str, str]:
    """Return the files of a display controller on the PCI bus."""
    folder = f"/sys/bus/pci/devices/{address}"
    return {
        f"{folder}/vendor": f"0x{vendor}\n",
        f"{folder}/device": f"0x{device}\n",
        f"{folder}/class": f"{kind}\n",
        f"{folder}/uevent": f"DRIVER={module}\nPCI_ID={vendor}:{device}\n" if module else f"PCI_ID={vendor}:{device}\n",
    }
