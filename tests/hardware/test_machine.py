"""What a machine has: processor, memory with its limits, tools that are missing, broken or silent."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.hardware import system as real
from app.hardware.machine import PROCESSOR_KEY, look
from app.hardware.system import RealSystem, ToolError
from tests.machines import CPUINFO, GIB, LDCONFIG, SMI, VULKAN, FakeSystem, pci


def test_a_bare_machine_has_a_processor_and_memory() -> None:
    machine = look(FakeSystem(files={"/proc/cpuinfo": CPUINFO}))

    assert machine.cpu == "AMD Ryzen 9 7950X 16-Core Processor"
    assert (machine.physical_cores, machine.logical_cores) == (16, 32)
    assert (machine.ram_total, machine.ram_available) == (64 * GIB, 48 * GIB)
    assert machine.features == ("AVX2", "FMA", "F16C", "AVX512")
    assert machine.gpus == ()
    assert machine.troubles == ()
    assert not machine.vulkan


def test_a_machine_that_tells_nothing_is_still_described() -> None:
    machine = look(FakeSystem("freebsd", "riscv64"))

    assert machine.cpu == "riscv64 CPU"
    assert machine.gpus == ()


def test_the_name_of_an_arm_board() -> None:
    files = {"/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\x00"}

    assert look(FakeSystem(arch="arm64", files=files)).cpu == "Raspberry Pi 5 Model B Rev 1.0"


def test_the_processor_of_windows_comes_from_the_registry() -> None:
    registry = {PROCESSOR_KEY: ({"ProcessorNameString": "Intel(R) Core(TM) i9-14900K  "},)}

    assert look(FakeSystem("windows", registry=registry)).cpu == "Intel(R) Core(TM) i9-14900K"


def test_names_cannot_steer_a_terminal() -> None:
    files = {"/proc/cpuinfo": "model name\t: \x1b[31mEvil\x07 " + "x" * 500}

    cpu = look(FakeSystem(files=files)).cpu

    assert cpu.startswith("[31mEvil x")
    assert len(cpu) == 100


@pytest.mark.parametrize(("tools", "expected"), [({LDCONFIG: VULKAN}, True), ({LDCONFIG: "no such thing"}, False)])
def test_the_vulkan_loader_is_looked_up_where_programs_find_it(tools: dict[str, str], expected: bool) -> None:
    assert look(FakeSystem(tools=tools)).vulkan is expected
    assert look(FakeSystem("windows", files={r"C:\Windows\System32\vulkan-1.dll": ""})).vulkan


# Limits of containers


def group(folder: str, limit: str, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon 1\ninactive_file {cached}\n",
    }


def test_a_containers_limit_is_what_can_be_had() -> None:
    files = group("/sys/fs/cgroup", str(8 * GIB), 5 * GIB, cached=1 * GIB)

    machine = look(FakeSystem(files=files | {"/proc/self/cgroup": "0::/\n"}))

    assert (machine.ram_total, machine.ram_available) == (8 * GIB, 4 * GIB)


def test_every_group_around_this_process_counts() -> None:
    files = group("/sys/fs/cgroup/user.slice", str(16 * GIB), 15 * GIB)
    files |= group("/sys/fs/cgroup/user.slice/app.scope", str(12 * GIB), 2 * GIB)
    files["/proc/self/cgroup"] = "0::/user.slice/app.scope\n"

    machine = look(FakeSystem(files=files))

    assert (machine.ram_total, machine.ram_available) == (12 * GIB, 1 * GIB)


@pytest.mark.parametrize("limit", ["max", "", "9223372036854771712", "-5", "0", "rubbish"])
def test_no_limit_is_no_limit(limit: str) -> None:
    machine = look(FakeSystem(files=group("/sys/fs/cgroup", limit, GIB)))

    assert (machine.ram_total, machine.ram_available) == (64 * GIB, 48 * GIB)


@pytest.mark.parametrize("group", ["", "/jobs", "/jobs/one"])
def test_the_older_kind_of_groups(group: str) -> None:
    folder = f"/sys/fs/cgroup/memory{group}/memory."
    files = {"/proc/self/cgroup": "9:name=systemd:/x\n4:memory:/jobs/one\n1:cpu:/y\n0::/\n"}
    files |= {f"{folder}limit_in_bytes": str(4 * GIB), f"{folder}usage_in_bytes": str(GIB), f"{folder}stat": ""}

    machine = look(FakeSystem(files=files))

    assert (machine.ram_total, machine.ram_available) == (4 * GIB, 3 * GIB)


# Tools


def test_a_tool_that_fails_is_mentioned_and_the_rest_is_read() -> None:
    files = pci("0000:01:00.0", "10de", "2684", "nvidia")
    files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release"
    system = FakeSystem(files=files, tools={SMI: ToolError("nvidia-smi did not answer within 10 seconds")})

    machine = look(system)

    assert machine.troubles == ("nvidia-smi did not answer within 10 seconds.",)
    assert [gpu.driver for gpu in machine.gpus] == ["560.35.03"]
    assert system.ran.count(SMI) == 1


def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> RealSystem:
    file = tmp_path / "vendor-tool"
    file.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{body}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return RealSystem()


def test_a_tool_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tool(tmp_path, monkeypatch, "print(os.environ['LC_ALL'], sys.argv[1]); sys.stderr.write('noise')")

    assert system.run("vendor-tool", "-L", seconds=20) == "C -L\n"


def test_a_missing_tool_answers_nothing() -> None:
    assert RealSystem().run("no-such-tool-anywhere", seconds=5) == ""


def test_a_tool_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tool(tmp_path, monkeypatch, "print('half an answer'); sys.exit(9)")

    with pytest.raises(ToolError, match="vendor-tool failed with code 9"):
        system.run("vendor-tool", seconds=20)


_HANGS = "import fcntl; fcntl.flock(open(os.environ['HELD'], 'w'), fcntl.LOCK_EX)"
"""Waits for as long as the test holds a lock; no time is too long for the test to notice."""


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lock, which also ends what no one else does."""
    import fcntl

    monkeypatch.setenv("HELD", str(tmp_path / "held"))
    with (tmp_path / "held").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(
    "body",
    [
        _HANGS,
        f"print('x', flush=True); {_HANGS}",
        f"os.close(1); {_HANGS}",
        f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_HANGS}",
        f"sys.stdout.write('x' * (16 << 20)); {_HANGS}",
    ],
    ids=["silent", "begun", "closed", "deaf", "too much"],
)
def test_a_tool_that_hangs_costs_its_time_limit_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    system = tool(tmp_path, monkeypatch, body)

    # What waits for more than the limit waits for as long as the lock is held.
    with pytest.raises(ToolError, match=r"did not answer within|left its output open"):
        system.run("vendor-tool", seconds=1)


@pytest.mark.usefixtures("held")
def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    script = tmp_path / "child.py"
    locks = "alive = open('alive', 'w')\nfcntl.flock(alive, fcntl.LOCK_EX)\nprint('locked', file=alive, flush=True)"
    script.write_text(f"import fcntl, os\n{locks}\n{_HANGS}\n")
    monkeypatch.chdir(tmp_path)
    system = tool(tmp_path, monkeypatch, f"subprocess.Popen([sys.executable, {str(script)!r}]); {_HANGS}")

    # Of a child that was ended before it had begun nothing could be told; on a busy machine it needs longer for that.
    for seconds in (1, 4, 16, 60):
        with pytest.raises(ToolError, match="did not answer within"):
            system.run("vendor-tool", seconds=seconds)
        if (tmp_path / "alive").exists() and (tmp_path / "alive").read_text():
            break

    assert (tmp_path / "alive").read_text() == "locked\n"
    with (tmp_path / "alive").open("a") as alive:
        # Anyone who has it lets go of it only when it ends.
        fcntl.flock(alive, fcntl.LOCK_EX)


def test_a_tool_that_cannot_be_started_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tool(tmp_path, monkeypatch, "")
    (tmp_path / "vendor-tool").write_bytes(b"\x7fELF nonsense")

    with pytest.raises(ToolError, match="cannot be started"):
        system.run("vendor-tool", seconds=5)


# This machine


def test_this_machine_can_be_read() -> None:
    machine = look()

    assert machine.cpu
    assert machine.logical_cores >= machine.physical_cores >= 1
    assert 0 < machine.ram_available <= machine.ram_total


def test_unreadable_files_and_folders_are_empty(tmp_path: Path) -> None:
    system = RealSystem()

    assert system.read(str(tmp_path)) == ""
    assert system.read(str(tmp_path / "none")) == ""
    assert system.names(str(tmp_path / "none")) == ()
    assert system.registry("SOFTWARE") == () or sys.platform == "win32"


def test_a_file_without_end_is_cut() -> None:
    assert len(RealSystem().read("/dev/zero")) == real._MOST


@pytest.mark.parametrize(("platform", "arch"), [("win-amd64", "x86_64"), ("win-arm64", "arm64"), ("win32", "win32")])
def test_on_windows_the_interpreter_counts_not_the_processor(
    monkeypatch: pytest.MonkeyPatch, platform: str, arch: str
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sysconfig, "get_platform", lambda: platform)

    assert (RealSystem().name, RealSystem().arch) == ("windows", arch)


@pytest.mark.parametrize(
    ("flags", "features"), [("fpu sse2 pni avx", ("SSE3",)), ("pni avx2", ("SSE3", "AVX2")), ("", ())]
)
def test_an_old_processor_is_told_from_an_unknown_one(flags: str, features: tuple[str, ...]) -> None:
    assert look(FakeSystem(files={"/proc/cpuinfo": f"flags\t\t: {flags}\n"})).features == features
