"""How a pair would be loaded: the chat, doctor and the list of pairs give one answer, whatever there was before."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import engine, loading, measured_pairs
from app.cli.doctor.pair import look_at_pair
from app.cli.options import read_options
from app.core.paths import settings_file
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import ThreadTimes
from app.hardware.cpu import thread_candidates
from app.hardware.device_room import DeviceRoom
from app.hardware.pair_view import pair_section
from app.hardware.slow_causes import Situation
from app.llama import stored_measurements
from app.llama.fitting import device_rooms, fit_pair, out_of_memory
from app.llama.fitting.device_rooms import memory_rooms
from app.llama.pair_params import PairParams
from app.llama.stored_measurements import memory_file, thread_file
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel
from tests.cli.doctor_facts import CPU, FACTS, line
from tests.machines import FakeDevice

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("folders")]
GB = 1_000_000_000
CARDS = tuple(FakeDevice(f"CUDA{i}", "A card", "gpu", "CUDA", 24 * GB, 24 * GB) for i in range(2))
Give = Callable[..., None]


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Give:
    """A function that gives this machine these cards."""

    def give(*devices: FakeDevice) -> None:
        rooms = memory_rooms(devices)
        for module in (fit_pair, loading, measured_pairs, out_of_memory, device_rooms):
            monkeypatch.setattr(module, "memory_rooms", lambda: rooms)

    return give


@pytest.fixture
def files(demo_target: Path, demo_draft: Path) -> SetUp:
    pair = Pair("mine", "Mine", LocalModel(demo_target), LocalModel(demo_draft))
    return SetUp(pair, ModelOnDisk(demo_target, 1), ModelOnDisk(demo_draft, 1))


@pytest.fixture
def args(files: SetUp) -> argparse.Namespace:
    assert files.draft is not None
    return argparse.Namespace(target=str(files.target.path), draft=str(files.draft.path))


def written(text: str) -> None:
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(text)


def doctor(args: argparse.Namespace, *cards: FakeDevice) -> tuple[list[str], Situation]:
    """The devices of both models, and what their speed depends on."""
    view, situation = look_at_pair(args, replace(FACTS, devices=(*cards, CPU)))
    assert view.trouble is None
    assert situation is not None
    return [model.device for model in view.models], situation


def answered(args: argparse.Namespace) -> PairParams:
    """How the chat loads it, once numbers of threads were measured and an answer has left a memory."""
    file = thread_file(loading.pair_params(read_options(args)), thread_candidates())
    if file is not None:
        stored_measurements.save_threads(file, ThreadTimes({9: 1.0}, {9: 1.0}))
    params = loading.pair_params(read_options(args))
    kept = memory_file(params)
    assert kept is not None
    memory = PairStatistics(CostModel(CostProfile({1: 10.0, 2: 11.0, 64: 30.0}, draft_ns=1.0)))
    memory.model.counts[0][0] = [150.0, 200.0]
    stored_measurements.save_statistics(kept, memory)
    return params


@pytest.mark.parametrize(
    ("settings", "with_threads"),
    [("gpu_layers = 3", True), ("gpu_layers = 3\nfit = 'off'", True), ('device = ["CUDA7"]', False), ("", False)],
)
def test_what_was_measured_is_found_by_all_who_ask(
    cards: Give, files: SetUp, args: argparse.Namespace, settings: str, with_threads: bool
) -> None:
    cards(*CARDS)
    written(f"[model]\n{settings}\n")
    params = answered(args)
    assert (params.n_threads == 9) is with_threads, "layers that no card has are the processor's"

    _, situation = doctor(args, *CARDS)
    assert situation.threads == params.n_threads
    assert situation.measured is not None
    assert situation.measured.judged == 200
    assert set(measured_pairs.seen({"mine": files})) == {"mine"}


def test_a_stored_device_that_is_gone_is_no_trouble_for_doctor(cards: Give, args: argparse.Namespace) -> None:
    cards(CARDS[0])
    written('[model]\ndevice = ["CUDA1"]\n')

    devices, _ = doctor(args, CARDS[0])
    assert devices == ["CUDA0", "CUDA0"] == [*loading.pair_params(read_options(args)).model.devices] * 2
    view, _ = look_at_pair(args, replace(FACTS, devices=(CARDS[0], CPU)))
    note = line(pair_section(view), "note")
    assert note.text == "CUDA1 is not there any more; the models go to the best device that is."


def test_the_devices_are_listed_once_for_a_load(args: argparse.Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    written('[model]\ndevice = ["CUDA1"]\n')
    listed: list[str] = []

    def listing(name: str) -> Callable[[], tuple[DeviceRoom, ...]]:
        def rooms() -> tuple[DeviceRoom, ...]:
            listed.append(name)
            return memory_rooms(CARDS)

        return rooms

    for name in ("app.cli.loading", "app.llama.fitting.fit_pair"):
        monkeypatch.setattr(f"{name}.memory_rooms", listing(name))

    assert loading.pair_params(read_options(args)).model.devices == ("CUDA1",)
    assert listed == ["app.cli.loading"]


def test_a_pair_whose_draft_is_damaged_tells_the_speed_of_its_target(
    cards: Give, files: SetUp, args: argparse.Namespace, tmp_path: Path
) -> None:
    cards(*CARDS)
    assert files.draft is not None
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(files.draft.path.read_bytes()[:3000])
    alone = argparse.Namespace(target=args.target)
    answered(alone)

    seen = measured_pairs.seen({"mine": replace(files, draft=ModelOnDisk(damaged, 1))})["mine"]
    assert seen.tokens_per_second
    assert seen.speedup is None


def test_who_ran_out_of_memory_is_helped_also_where_a_stored_device_is_gone(
    cards: Give, args: argparse.Namespace
) -> None:
    cards()
    written('[model]\ndevice = ["CUDA1"]\n')

    assert "Start with --" in engine.less_memory(read_options(args))
