"""How memory for models is counted and shown."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from app.core.child import ChildError
from app.core.errors import ModelLoadError
from app.core.units import GB, memory_size
from app.hardware.devices import BuildInfo, Device
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine
from app.llama.fitting import machine_room as module
from app.llama.fitting.machine_room import bandwidth, loaded_bytes, machine_capacity
from app.models.pair_info import DeviceMemory, ModelInfo, PairInfo
from tests.tandem import run_python

BUILD = BuildInfo("0.3.36", "1", None, "", ("CPU",), True, (), "")


class Here:
    """A machine and its devices in llama.cpp."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.available = 20 * GB
        self.devices: tuple[Device, ...] | None = ()
        self.gpus: tuple[Gpu, ...] = ()
        self.speed: float | None = 40e9
        self.ram_speed = 30e9
        monkeypatch.setattr(module, "detect", self._look)
        monkeypatch.setattr(module, "probe", self._probe)
        monkeypatch.setattr(module, "is_cpu_only_build", lambda: False)
        monkeypatch.setattr(module, "bandwidth", lambda *_, of_ram=False: self.ram_speed if of_ram else self.speed)

    def _look(self) -> Machine:
        return Machine("linux", "An abacus", 8, 16, 32 * GB, self.available, self.gpus)

    def _probe(self, available: int) -> tuple[BuildInfo, tuple[Device, ...]]:
        if self.devices is None:
            raise ModelLoadError("llama.cpp cannot be loaded.")
        return BUILD, (*self.devices, Device("CPU", "cpu", "CPU", available, "An abacus", 32 * GB))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Here:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Here(monkeypatch)


def card(name: str, free: float, description: str = "RTX 3090", backend: str = "CUDA", total: int = 24) -> Device:
    return Device(name, "gpu", backend, int(free * GB), description, total * GB)


def test_the_line_names_the_memory_that_pairs_are_planned_in(here: Here) -> None:
    line, capacity = machine_capacity()

    assert [room.room_bytes for room in capacity.rooms] == [18 * GB]
    assert line == "8 cores · 16.8 GB of 29.8 GB RAM free for models"
    here.devices = None
    assert machine_capacity()[0] == line


def test_a_build_that_can_use_the_cpu_only_is_not_asked_for_devices(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = machine_capacity()
    monkeypatch.setattr(module, "is_cpu_only_build", lambda: True)
    monkeypatch.setattr(module, "probe", lambda _: pytest.fail("it was asked"))

    assert machine_capacity() == asked
    assert asked[1].bytes_per_s == 40e9


def test_the_line_counts_each_gpu_that_gets_layers_once(here: Here) -> None:
    here.devices = (card("CUDA0", 22), card("CUDA1", 23), card("Vulkan0", 20, backend="Vulkan"))

    line, capacity = machine_capacity()

    free = sum(room.room_bytes for room in capacity.rooms[:2])
    assert f"2 x RTX 3090, {memory_size(free)} of 44.7 GB free for models · 8 cores" in line
    assert 43 * GB < free < 44 * GB, "a reserve on each"
    here.devices = (card("CUDA0", 22, total=0),)
    assert machine_capacity()[0].startswith("RTX 3090, 19.7 GB free for models")


def test_a_gpu_with_own_memory_has_two_bandwidths(here: Here) -> None:
    assert machine_capacity()[1].ram_bytes_per_s is None
    here.devices = (card("CUDA0", 22),)

    capacity, quick = machine_capacity()[1], machine_capacity(with_speed=False)[1]
    assert (capacity.bytes_per_s, capacity.ram_bytes_per_s) == (40e9, 30e9)
    assert (quick.rooms, quick.bytes_per_s, quick.ram_bytes_per_s) == (capacity.rooms, None, None)


def test_memory_of_the_loaded_pair_counts_as_free(here: Here) -> None:
    here.devices = (card("CUDA0", 4),)

    def room(released: dict[str, int]) -> int:
        return machine_capacity(released)[1].rooms[0].room_bytes

    assert room({"cuda0": 18 * GB}) == room({}) + 18 * GB
    assert room({"CUDA0": 90 * GB}) < 24 * GB, "no more than there is"
    here.devices = ()
    assert room({"cpu": 10 * GB}) == 27 * GB


def test_a_pair_holds_counted_gpu_memory_and_the_ram_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ModelInfo("Big", "big.gguf", "Q4_K_M", 1, 1)
    pair = PairInfo(model, None, 8192, "CUDA0", (DeviceMemory("CUDA0", 5 * GB), DeviceMemory("cpu", 3 * GB)))

    assert loaded_bytes(None) == {}
    monkeypatch.setattr(module, "own_bytes", lambda: 1 * GB)
    assert loaded_bytes(pair) == {"cuda0": 5 * GB, "cpu": 1 * GB}
    monkeypatch.setattr(module, "own_bytes", lambda: 9 * GB)
    assert loaded_bytes(pair)["cpu"] == 3 * GB


def test_memory_without_a_file_is_counted() -> None:
    # In a new process: memory of this process could come from an earlier test.
    code = (
        "from app.llama.fitting.machine_room import own_bytes; before = own_bytes()\n"
        "taken = bytearray(b'1' * 50_000_000); print(own_bytes() - before)"
    )
    assert int(run_python("-c", code).out) > 40_000_000


def test_the_line_of_an_integrated_gpu_names_the_ram_that_is_free(here: Here) -> None:
    here.available = 6 * GB
    # Metal reports as free whatever its own process has not taken.
    here.devices = (Device("MTL0", "igpu", "MTL", 22 * GB, "Apple M2", 22 * GB),)

    line, capacity = machine_capacity()

    assert (line, capacity.bytes_per_s) == ("Apple M2 · 8 cores · 5 GB of 29.8 GB RAM free for models", 40e9)
    here.available = 31 * GB
    assert "18.4 GB of 29.8 GB RAM" in machine_capacity()[0], "no more than the system lets graphics have"


@pytest.mark.parametrize("name", ["NVIDIA RTX 4090", "AMD Radeon RX 7900 XTX"])
def test_a_card_that_cannot_be_used_is_named_beside_graphics_that_can(here: Here, name: str) -> None:
    dear = Gpu(name.split()[0].lower(), name, 24 * GB, 23 * GB, "driver", "")
    here.gpus = (Gpu("amd", "AMD Radeon 780M", None, None, "amdgpu", None, integrated=True), dear)
    inside = Device("Vulkan0", "igpu", "Vulkan", 16 * GB, "AMD Radeon 780M (RADV)", 16 * GB)
    here.devices = (inside,)

    assert machine_capacity()[0].startswith(
        f"AMD Radeon 780M (RADV) · {name}, which this llama.cpp cannot use (⟨doctor⟩) · 8 cores"
    )
    here.devices = (inside, card("Vulkan1", 23, description=name, backend="Vulkan"))
    assert "cannot use" not in machine_capacity()[0]
    here.gpus, here.devices = (dear,), (inside,)
    assert ("cannot use" in machine_capacity()[0]) == name.startswith("NVIDIA"), (
        "what is not known to be two may be one"
    )


BEADS = Device("Vulkan0", "igpu", "Vulkan", 4 << 30, "Beads", 8 << 30)
DAY = 86_400.0


class Bandwidth:
    """A scripted bandwidth measurement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.found: float | None = 10e9
        self.now = 1e9
        self.measured = 0
        self.is_busy = False
        self.build, self.n_threads = "abc", 4
        monkeypatch.setattr(module, "memory_dir", lambda: folder)
        monkeypatch.setattr(module, "build_identity", lambda: self.build)
        monkeypatch.setattr(module, "default_threads", lambda: self.n_threads)
        monkeypatch.setattr(module, "ask", self._ask)
        monkeypatch.setattr(module, "OthersUse", lambda: SimpleNamespace(is_much=self.is_busy))
        monkeypatch.setattr("time.time", lambda: self.now)

    def look(self) -> float | None:
        return bandwidth("An abacus", [BEADS])

    def _ask(self, function: str, n_threads: int, of_ram: bool, *, seconds: float) -> float | None:
        assert (function, n_threads) == ("llama.throughput.throughput", self.n_threads)
        self.measured += 1
        return 3e9 if of_ram else self.found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bandwidth:
    return Bandwidth(monkeypatch, tmp_path / "drafting")


def test_a_measurement_is_used_for_a_week(machine: Bandwidth) -> None:
    assert machine.look() == 10e9
    machine.found, machine.now = 5e9, machine.now + 6 * DAY
    assert machine.look() == 10e9
    assert machine.measured == 1
    machine.now += 2 * DAY
    assert machine.look() == 5e9


def test_another_build_or_number_of_threads_is_another_machine(machine: Bandwidth) -> None:
    machine.look()
    machine.found, machine.n_threads = 20e9, 8
    assert machine.look() == 20e9
    machine.build, machine.n_threads = "other", 4
    assert machine.look() == 20e9
    machine.build = "abc"
    assert machine.look() == 10e9
    assert bandwidth("An abacus", [BEADS], of_ram=True) == 3e9


def test_the_latest_quiet_measurement_counts_while_other_programs_are_busy(machine: Bandwidth) -> None:
    machine.is_busy = True
    assert machine.look() is None
    machine.is_busy = False
    assert machine.look() == 10e9
    machine.is_busy, machine.found, machine.now = True, 1e9, machine.now + 8 * DAY
    assert machine.look() == 10e9
    machine.is_busy = False
    assert machine.look() == 1e9


def test_an_unmeasurable_bandwidth_is_unknown(machine: Bandwidth, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.found = None
    assert machine.look() is None

    def fail(*_: object, **__: object) -> float:
        raise ChildError("crashed (SIGABRT)", crashed=True)

    monkeypatch.setattr(module, "ask", fail)
    assert machine.look() is None


def test_a_damaged_file_and_a_clock_that_was_set_back_cost_a_measurement(machine: Bandwidth) -> None:
    machine.look()
    (file,) = (machine.folder / "throughput").iterdir()
    for damage in ("", "[]", '{"format": 2, "bytes_per_s": 0, "at": 1e9}', '{"format": 1}'):
        file.write_text(damage, encoding="utf-8")
        assert machine.look() == 10e9
    machine.now -= DAY
    machine.look()
    assert machine.measured == 6


def test_a_disk_that_refuses_stops_nothing(machine: Bandwidth) -> None:
    machine.folder.parent.mkdir(exist_ok=True)
    machine.folder.write_text("a file where the folder should be", encoding="utf-8")
    assert machine.look() == 10e9
