"""What `tandem doctor` says about machines that we do not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import ModelLoadError
from app.hardware.checks import Line, places, summary, views, worst
from app.hardware.gpus import Gpu
from app.hardware.system import Place, place
from tests.cli.doctor_facts import ADVICE, CPU, FACTS, GIB, RTX, SECTIONS, line, with_gpu
from tests.machines import FakeBuild, FakeDevice


def test_a_good_machine_is_all_ok() -> None:
    assert worst(section(FACTS) for section in SECTIONS) == "ok"
    assert line(views(FACTS), "CPU").other == "CPU, AVX2"
    assert line(views(FACTS), "memory").text == "20 GB of 24 GB free"


def test_an_unused_card_comes_with_the_command() -> None:
    section = views(with_gpu(advice=ADVICE))

    assert line(section, "graphics").state == "warning"
    assert line(section, "build").state == "warning"
    assert line(section, "build").hint == (
        "It lacks CUDA.",
        "Install the toolkit.",
        "  pip install cuda-build",
        "Or build it:",
        "  pip build",
    )


def test_the_summary_names_the_worst_and_its_command() -> None:
    unused = with_gpu(advice=ADVICE)
    assert summary(FACTS, [views(FACTS)]) == ["No problems found."]
    assert summary(unused, [views(unused)]) == ["1 problem: your RTX 4090 is not used", "  pip install cuda-build"]
    full = replace(unused, places=(Place("cache", Path("/c"), True, 1 << 20),), advice=None)
    assert summary(full, [views(full), places(full)])[0].startswith("2 problems: /c, ")


def test_a_used_card_is_ok_and_its_device_is_listed() -> None:
    device = FakeDevice("CUDA0", "NVIDIA GeForce RTX 4090", "gpu", "CUDA")

    section = views(with_gpu(devices=(CPU, device), build=FakeBuild(backends=("CUDA", "CPU"))))

    assert worst([section]) == "ok"
    assert line(section, "device").other == "CUDA0, NVIDIA GeForce RTX 4090, 20 GB of 24 GB free"


@pytest.mark.parametrize("driver", ["", "nouveau, kernel 6.8"])
def test_a_card_without_a_driver_needs_one(driver: str) -> None:
    found = line(views(with_gpu(replace(RTX, driver=driver))), "graphics")

    assert found.state == "warning"
    assert "NVIDIA's own driver" in found.hint[0]


def test_unused_graphics_inside_the_processor_are_no_warning() -> None:
    assert (
        line(views(with_gpu(Gpu("intel", "Iris", None, None, "i915", "", integrated=True))), "graphics").state == "ok"
    )


def test_a_library_that_does_not_load_is_a_problem() -> None:
    section = views(replace(FACTS, build=None, devices=(), failure=ModelLoadError("It is broken.", "Fix it.")))

    assert line(section, "build") == Line("problem", "build", "", "It is broken.", ("Fix it.",))


def test_what_the_library_complained_about_is_shown() -> None:
    found = line(views(replace(FACTS, build=FakeBuild(errors="no CUDA-capable device"))), "build")

    assert found.state == "warning"
    assert "no CUDA-capable device" in found.other


def test_a_translated_python_is_a_problem() -> None:
    facts = replace(FACTS, machine=replace(FACTS.machine, translated=True))

    assert line(views(facts), "CPU").state == "problem"


def test_a_card_that_the_processor_plays_is_named_as_what_it_is() -> None:
    played = FakeDevice("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)", "software", "Vulkan")
    section = views(replace(FACTS, devices=(played, CPU)))

    assert line(section, "device").other == (
        "Vulkan0, llvmpipe (LLVM 15.0.6, 256 bits), a software renderer on the CPU: used only if named"
    )
    assert line(section, "CPU").other.startswith("CPU, ")


def test_scarce_memory_silent_tools_and_hidden_devices_are_warnings() -> None:
    machine = replace(FACTS.machine, ram_available=GIB, troubles=("nvidia-smi did not answer within 10 seconds.",))

    section = views(replace(FACTS, machine=machine, hidden=("CUDA_VISIBLE_DEVICES=",)))

    assert [found.label for found in section.lines if found.state == "warning"] == ["memory", "tool", "setting"]


@pytest.mark.parametrize(
    ("writable", "free", "state"),
    [
        (True, 100 * GIB, "ok"),
        (True, GIB, "warning"),
        (True, 1 << 20, "problem"),
        (False, None, "problem"),
        (True, None, "ok"),
    ],
)
def test_a_place_is_judged_by_what_can_be_written_and_how_much(writable: bool, free: int | None, state: str) -> None:
    facts = replace(FACTS, places=(Place("cache", Path("/c"), writable, free),))

    assert line(places(facts), "cache").state == state


def test_a_folder_that_does_not_exist_yet_is_where_it_would_be_made(tmp_path: Path) -> None:
    found = place("cache", tmp_path / "a" / "b")

    assert (found.path, found.writable) == (tmp_path / "a" / "b", True)
    assert found.free_bytes
    assert found.free_bytes > 0


def test_a_file_in_the_way_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")

    assert not place("cache", tmp_path / "a" / "b").writable
