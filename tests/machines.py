"""Machines that we do not have, as files, tools and a registry behind `app.hardware.system.System`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.hardware.system import ToolError

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
SMI_OLD_CSV = SMI_CSV.replace(",compute_cap", "")
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


class FakeSystem:
    """A system out of dictionaries.

    Args:
        name: As in `System`.
        arch: As in `System`.
        files: Texts by path.
        tools: Answers by command line; a `ToolError` is raised, whatever is not there is missing.
        registry: Lists of values by key.
        env: Environment variables.
        memory: Total and available bytes.
        cores: Cores and threads.
    """

    def __init__(
        self,
        name: str = "linux",
        arch: str = "x86_64",
        *,
        files: Mapping[str, str] | None = None,
        tools: Mapping[str, str | ToolError] | None = None,
        registry: Mapping[str, tuple[Mapping[str, object], ...]] | None = None,
        env: Mapping[str, str] | None = None,
        memory: tuple[int, int] = (64 * GIB, 48 * GIB),
        cores: tuple[int, int] = (16, 32),
    ) -> None:
        self.name, self.arch = name, arch
        self.files, self.tools = dict(files or {}), dict(tools or {})
        self._registry, self._env = dict(registry or {}), dict(env or {})
        self._memory, self._cores = memory, cores
        self.ran: list[str] = []

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def names(self, path: str) -> tuple[str, ...]:
        inside = {file[len(path) + 1 :].split("/")[0] for file in self.files if file.startswith(f"{path}/")}
        return tuple(sorted(inside))

    def exists(self, path: str) -> bool:
        return path in self.files or bool(self.names(path))

    def env(self, name: str) -> str:
        return self._env.get(name, "")

    def run(self, *argv: str, seconds: float) -> str:
        command = " ".join(argv)
        self.ran.append(command)
        answer = self.tools.get(command, "")
        if isinstance(answer, ToolError):
            raise answer
        return answer

    def registry(self, key: str) -> tuple[Mapping[str, object], ...]:
        return self._registry.get(key, ())

    def memory(self) -> tuple[int, int]:
        return self._memory

    def cores(self) -> tuple[int, int]:
        return self._cores


def pci(address: str, vendor: str, device: str, module: str = "", kind: str = "0x030000") -> dict[str, str]:
    """The files of a display controller on the bus."""
    folder = f"/sys/bus/pci/devices/{address}"
    return {
        f"{folder}/vendor": f"0x{vendor}\n",
        f"{folder}/device": f"0x{device}\n",
        f"{folder}/class": f"{kind}\n",
        f"{folder}/uevent": f"DRIVER={module}\nPCI_ID={vendor}:{device}\n" if module else f"PCI_ID={vendor}:{device}\n",
    }


@dataclass(frozen=True)
class FakeBuild:
    """What a build of llama.cpp says of itself; see `app.llama.devices.BuildInfo`."""

    backends: tuple[str, ...] = ("CPU",)
    features: tuple[str, ...] = ("AVX2", "LLAMAFILE")
    binding: str = "0.3.36"
    version: str = "0.5.0"
    commit: str = ""
    errors: str = ""


@dataclass(frozen=True)
class FakeDevice:
    """A device that it can use; see `app.llama.devices.Device`."""

    name: str
    description: str
    kind: str
    backend: str
    total_bytes: int = 24 * GIB
    free_bytes: int = 20 * GIB
