"""The memory for models, as it is counted and as it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import ModelLoadError
from app.core.units import GB, memory_size
from app.hardware.gpus import Gpu
from app.hardware.machine import Machine
from app.llama.fitting import held as held_module
from app.llama.fitting import place as place_module
from app.llama.fitting.held import held
from app.llama.fitting.place import place
from app.llama.probe import BuildInfo, Device, Throughput
from app.models.pair_info import DeviceMemory, ModelInfo, PairInfo

BUILD = BuildInfo("0.3.36", "1", "", "", ("CPU",), True, (), "")


class Here:
    """A machine and the devices that llama.cpp lists there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.available = 20 * GB
        self.devices: tuple[Device, ...] | None = ()
        self.gpus: tuple[Gpu, ...] = ()
        self.speed: Throughput | None = Throughput(40e9)
        monkeypatch.setattr(place_module, "look", self._look)
        monkeypatch.setattr(place_module, "probe", self._probe)
        monkeypatch.setattr(place_module, "computes_on_processors_only", lambda: False)
        monkeypatch.setattr(place_module, "weights_per_second", lambda *_: self.speed)

    def _look(self) -> Machine:
        return Machine("linux", "An abacus", 8, 16, 32 * GB, self.available, self.gpus)

    def _probe(self, available: int) -> tuple[BuildInfo, tuple[Device, ...]]:
        if self.devices is None:
            raise ModelLoadError("llama.cpp cannot be loaded.")
        return BUILD, (*self.devices, Device("CPU", "An abacus", "cpu", "CPU", 32 * GB, available))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Here:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return Here(monkeypatch)


def test_what_was_measured_beside_other_programs_is_told_as_such(here: Here) -> None:
    assert not place().room.at_least
    here.speed = Throughput(10e9, alone=False)
    assert place().room.at_least
    here.speed = None
    assert place().room.bytes_per_s is None


def card(name: str, free: float, description: str = "RTX 3090", backend: str = "CUDA", total: int = 24) -> Device:
    return Device(name, description, "gpu", backend, total * GB, int(free * GB))


def test_what_is_told_to_be_free_is_what_pairs_are_held_against(here: Here) -> None:
    found = place()

    assert found.room.free_bytes == 18 * GB
    assert found.line == "8 cores · 16.8 GB of 29.8 GB memory free for models"
    here.devices = None
    assert place().line == found.line


def test_a_build_that_can_use_the_processor_only_is_not_asked_for_devices(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = place()
    monkeypatch.setattr(place_module, "computes_on_processors_only", lambda: True)
    monkeypatch.setattr(place_module, "probe", lambda _: pytest.fail("it was asked"))

    assert place() == asked
    assert asked.room.bytes_per_s == 40e9


def test_of_cards_the_room_of_those_that_models_go_to_is_told_once(here: Here) -> None:
    here.devices = (card("CUDA0", 22), card("CUDA1", 23), card("Vulkan0", 20, backend="Vulkan"))

    found = place()

    assert f"2 x RTX 3090, {memory_size(found.room.free_bytes)} of 44.7 GB free for models · 8 cores" in found.line
    assert 43 * GB < found.room.free_bytes < 44 * GB, "a reserve on each, and no card counted twice"
    here.devices = (card("CUDA0", 22, total=0),)
    assert place().line.startswith("RTX 3090, 19.7 GB free for models")


def test_what_the_loaded_pair_will_give_back_counts_as_free(here: Here) -> None:
    here.devices = (card("CUDA0", 4),)

    assert place({"cuda0": 18 * GB}).room.free_bytes == place().room.free_bytes + 18 * GB
    assert place({"CUDA0": 90 * GB}).room.free_bytes < 24 * GB, "no more than there is"
    here.devices = ()
    assert place({"cpu": 10 * GB}).room.free_bytes == 27 * GB


def test_a_pair_holds_what_was_counted_of_cards_and_of_main_memory_what_is_this_process_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = ModelInfo("Big", "big.gguf", "Q4_K_M", 1, 1)
    pair = PairInfo(model, None, 8192, "CUDA0", (DeviceMemory("CUDA0", 5 * GB), DeviceMemory("cpu", 3 * GB)))

    assert held(None) == {}
    monkeypatch.setattr(held_module, "_own_bytes", lambda: 1 * GB)
    assert held(pair) == {"cuda0": 5 * GB, "cpu": 1 * GB}
    monkeypatch.setattr(held_module, "_own_bytes", lambda: 9 * GB)
    assert held(pair)["cpu"] == 3 * GB


def test_memory_that_no_file_stands_behind_is_counted() -> None:
    before = held_module._own_bytes()
    taken = bytearray(b"1" * 50_000_000)

    assert held_module._own_bytes() - before > 0.8 * len(taken)


def test_graphics_that_share_main_memory_have_what_is_free_there_and_are_named(here: Here) -> None:
    here.available = 6 * GB
    metal = Device("MTL0", "Apple M2", "igpu", "MTL", 22 * GB, 22 * GB)
    here.devices = (metal,)

    found = place()

    # Metal itself tells as free whatever its own process has not taken.
    assert (found.room.free_bytes, found.room.device, found.room.bytes_per_s) == (int(0.9 * 6 * GB), "Apple M2", 40e9)
    assert found.line == "Apple M2 · 8 cores · 5 GB of 29.8 GB memory free for models"
    here.available = 31 * GB
    assert place().room.free_bytes == int(0.9 * 22 * GB), "no more than the system lets graphics have"
    here.devices = (metal, card("CUDA0", 10))
    assert place().room.device == "RTX 3090", "a card of its own comes first"


@pytest.mark.parametrize("name", ["NVIDIA RTX 4090", "AMD Radeon RX 7900 XTX"])
def test_a_card_that_cannot_be_used_is_named_beside_graphics_that_can(here: Here, name: str) -> None:
    dear = Gpu(name.split()[0].lower(), name, 24 * GB, 23 * GB, "driver", "")
    here.gpus = (Gpu("amd", "AMD Radeon 780M", None, None, "amdgpu", "", integrated=True), dear)
    inside = Device("Vulkan0", "AMD Radeon 780M (RADV)", "igpu", "Vulkan", 16 * GB, 16 * GB)
    here.devices = (inside,)

    assert place().line.startswith(
        f"AMD Radeon 780M (RADV) · {name}, which this build of llama.cpp cannot use · 8 cores"
    )
    here.devices = (inside, card("Vulkan1", 23, description=name, backend="Vulkan"))
    assert "cannot use" not in place().line
    here.gpus, here.devices = (dear,), (inside,)
    assert ("cannot use" in place().line) == name.startswith("NVIDIA"), "what is not known to be two may be one"
