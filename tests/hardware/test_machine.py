"""Machines: facts about this machine, and advice for recorded machines."""

import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest

from app.hardware import system as real
from app.hardware.builds import advice
from app.hardware.checks import Facts, llama_checks, machine_checks, terminal
from app.hardware.devices import Device
from app.hardware.installation import Installation
from app.hardware.machine import detect
from app.hardware.system import System
from tests.cli.doctor_facts import fake_build
from tests.machines import CPUINFO, GIB, LDCONFIG, SMI, VULKAN, FakeSystem, pci


def test_a_bare_machine_has_a_cpu_and_ram() -> None:
    machine = detect(FakeSystem(files={"/proc/cpuinfo": CPUINFO}))

    assert machine.cpu == "AMD Ryzen 9 7950X 16-Core Processor"
    assert (machine.physical_cores, machine.logical_cores) == (16, 32)
    assert (machine.ram_total, machine.ram_available) == (64 * GIB, 48 * GIB)
    assert machine.features == ("AVX2", "FMA", "F16C", "AVX512")
    assert (machine.gpus, machine.troubles, machine.vulkan) == ((), (), False)


@pytest.mark.parametrize(
    ("system", "cpu"),
    [
        (FakeSystem("freebsd", "riscv64"), "riscv64 CPU"),
        (FakeSystem(arch="arm64", files={"/proc/device-tree/model": "Raspberry Pi 5\x00"}), "Raspberry Pi 5"),
        (FakeSystem("windows", windows_cpu="Intel(R) Core(TM) i9-14900K  "), "Intel(R) Core(TM) i9-14900K"),
        (FakeSystem(files={"/proc/cpuinfo": "model name\t: \x1b[31mEvil\x07 x"}), "[31mEvil x"),
    ],
)
def test_the_name_of_the_cpu(system: FakeSystem, cpu: str) -> None:
    assert detect(system).cpu == cpu


def test_vulkan_wsl_and_rosetta() -> None:
    assert detect(FakeSystem(tools={LDCONFIG: VULKAN})).vulkan
    assert detect(FakeSystem(files={"/proc/sys/kernel/osrelease": "6.6-microsoft-standard-WSL2\n"})).wsl
    assert detect(FakeSystem("darwin", tools={"sysctl -in sysctl.proc_translated": "1\n"})).translated


@pytest.mark.parametrize(
    ("flags", "features"), [("fpu sse2 pni avx", ("SSE3",)), ("pni avx2", ("SSE3", "AVX2")), ("", ())]
)
def test_an_old_cpu_and_an_unknown_cpu_are_told_apart(flags: str, features: tuple[str, ...]) -> None:
    assert detect(FakeSystem(files={"/proc/cpuinfo": f"flags\t\t: {flags}\n"})).features == features


# Limits of containers


def group(folder: str, limit: str, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{used}\n",
        f"{folder}/memory.stat": f"anon 1\ninactive_file {cached}\n",
    }


def ram(files: dict[str, str]) -> tuple[int, int]:
    machine = detect(FakeSystem(files=files))
    return machine.ram_total, machine.ram_available


def test_the_tightest_limit_of_every_group_counts() -> None:
    root = group("/sys/fs/cgroup", str(8 * GIB), 5 * GIB, cached=1 * GIB)
    assert ram(root | {"/proc/self/cgroup": "0::/\n"}) == (8 * GIB, 4 * GIB)

    inner = group("/sys/fs/cgroup/user.slice", str(16 * GIB), 15 * GIB)
    inner |= group("/sys/fs/cgroup/user.slice/app.scope", str(12 * GIB), 2 * GIB)
    assert ram(inner | {"/proc/self/cgroup": "0::/user.slice/app.scope\n"}) == (12 * GIB, 1 * GIB)


@pytest.mark.parametrize("limit", ["max", "", "9223372036854771712", "-5", "0", "rubbish"])
def test_no_limit_is_no_limit(limit: str) -> None:
    assert ram(group("/sys/fs/cgroup", limit, GIB)) == (64 * GIB, 48 * GIB)


# This system


def test_a_tool_that_fails_is_reported_once_and_the_rest_is_read() -> None:
    system = FakeSystem(files=pci("0000:01:00.0", "10de", "2684", "nvidia"), tools={SMI: None, LDCONFIG: None})

    machine = detect(system)

    assert machine.troubles == ("nvidia-smi failed with code 1.", "ldconfig failed with code 1.")
    assert [gpu.driver for gpu in machine.gpus] == ["nvidia"]


@pytest.mark.parametrize(
    ("body", "answer", "trouble"),
    [
        ("print(os.environ['LC_ALL'], sys.argv[1]); sys.stderr.write('noise')", "C -L\n", []),
        ("sys.exit(9)", "", ["vendor-tool failed with code 9."]),
        ("time.sleep(60)", "", ["vendor-tool did not answer within 1 seconds."]),
        (None, "", ["vendor-tool cannot be started: Exec format error."]),
    ],
)
def test_a_tool_answers_or_its_failure_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, answer: str, trouble: list[str]
) -> None:
    file = tmp_path / "vendor-tool"
    script = f"#!{sys.executable}\nimport os, sys, time\n{body}\n"
    file.write_bytes(script.encode() if body is not None else b"\x7fELF nonsense")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if trouble:
        monkeypatch.setattr(real, "TOOL_SECONDS", 1 if "within" in trouble[0] else 20)
    system = System()

    assert system.run("vendor-tool", "-L") == answer
    assert system.troubles == trouble


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    machine = detect()
    assert machine.cpu
    assert machine.logical_cores >= machine.physical_cores >= 1
    assert 0 < machine.ram_available <= machine.ram_total

    system = System()
    assert system.read(str(tmp_path)) == system.read(str(tmp_path / "none")) == ""
    assert system.names(str(tmp_path / "none")) == ()
    assert system.run("no-such-tool-anywhere") == ""
    assert system.troubles == []


@pytest.mark.parametrize(("platform", "arch"), [("win-amd64", "x86_64"), ("win-arm64", "arm64")])
def test_on_windows_the_interpreter_counts_not_the_cpu(
    monkeypatch: pytest.MonkeyPatch, platform: str, arch: str
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sysconfig, "get_platform", lambda: platform)

    assert (System().name, System().arch) == ("windows", arch)


FILES = sorted((Path(__file__).parents[1] / "data" / "machines").glob("*.toml"))


def facts_of(given: dict[str, Any]) -> Facts:
    system = FakeSystem(
        given["system"],
        given["arch"],
        files=given.get("files"),
        tools=given.get("tools"),
        memory=tuple(given["memory"]),
        cores=tuple(given["cores"]),
        windows_cpu=given.get("windows_cpu", ""),
    )
    machine, llama = detect(system), given["llama"]
    build = fake_build(tuple(llama["backends"]), tuple(llama["features"]))
    devices = tuple(Device(**device) for device in llama.get("devices", ()))
    return Facts(
        machine=machine,
        build=build,
        devices=devices,
        failure=None,
        advice=advice(machine, build, devices, Installation("pip", "python", machine.system)),
        terminal=terminal({}, live=False, size=(0, 0), encoding="utf-8", system=machine.system),
    )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_machine_and_its_advice(file: Path) -> None:
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    expected = given["expected"]
    facts = facts_of(given)
    checks = machine_checks(facts)

    assert facts.machine.troubles == ()
    assert [[x.state, x.text] for x in checks if x.label == "GPU"] == expected["gpus"]
    if "memory" in expected:
        assert [x.text for x in checks if x.label == "memory"] == [expected["memory"]]

    found = facts.advice
    told = (found.backend, found.command, found.other or "", [*found.notes]) if found is not None else ("", "", "", [])
    assert told == (expected["backend"], expected["command"], expected["other"], expected["notes"])
    hints = [hint for check in (*checks, *llama_checks(facts)) for hint in check.hint]
    assert hints.count(f"  {expected['command']}") == (1 if expected["command"] else 0)
