"""Chat, doctor and the list of pairs plan the same placement."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.doctor_checks import check_pair
from app.cli.options import read_pair
from app.compare import measured_pairs
from app.core.errors import NoMemoryError
from app.core.paths import settings_file
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import ThreadTimes
from app.engine.types import Threads
from app.hardware.cpu import thread_candidates
from app.hardware.devices import Device
from app.llama import pair, stored_measurements
from app.llama.cancel import CancelFlag
from app.llama.fitting import fit_pair, machine_room
from app.llama.fitting.machine_room import memory_rooms
from app.llama.params import PairParams
from app.llama.stored_measurements import memory_file, thread_file
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel
from app.settings.table import BY_NAME
from app.worker import loading
from app.worker.known_pairs import registry
from tests.cli.doctor_facts import CPU, FACTS
from tests.llama.tiny_heads import write_target
from tests.llama.tiny_projector import write_projector

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("folders")]
GB = 1_000_000_000
CARDS = tuple(Device(f"CUDA{i}", "gpu", "CUDA", 24 * GB, "A card", 24 * GB) for i in range(2))


@pytest.fixture
def files(demo_target: Path, demo_draft: Path) -> SetUp:
    pair = Pair("mine", "Mine", LocalModel(demo_target), LocalModel(demo_draft))
    return SetUp(pair, ModelOnDisk(demo_target, 1), ModelOnDisk(demo_draft, 1))


@pytest.mark.parametrize("fit", ["auto", "off"])
def test_measurements_are_found_by_chat_doctor_and_list(
    files: SetUp, fit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = memory_rooms(CARDS)
    for module in (fit_pair, loading, measured_pairs, machine_room):
        monkeypatch.setattr(module, "memory_rooms", lambda: rooms)
    settings_file().parent.mkdir(parents=True, exist_ok=True)
    settings_file().write_text(f"[model]\ngpu_layers = 3\nfit = '{fit}'\n")
    assert files.draft is not None
    args = {"target": str(files.target.path), "draft": str(files.draft.path)}

    threads = thread_file(loading.measured_params(read_pair(args)), thread_candidates())
    assert threads is not None
    stored_measurements.save_threads(threads, ThreadTimes({9: 1.0}, {9: 1.0}))
    params = loading.measured_params(read_pair(args))
    assert params.threads == Threads(9, 9)
    statistics = PairStatistics(CostModel(CostProfile({1: 10.0, 2: 11.0, 64: 30.0}, draft_ns=1.0)))
    statistics.model.counts[0][0] = [150.0, 200.0]
    kept = memory_file(params)
    assert kept is not None
    stored_measurements.save_statistics(kept, statistics)

    report = check_pair(args, replace(FACTS, devices=(*CARDS, CPU)))
    assert report.facts["trouble"] is None
    assert "acceptance 75%" in report.sections["speed and causes"][0].text
    registry().add(files)
    assert set(measured_pairs.seen_here()) == {"mine"}


def test_a_load_that_runs_out_of_memory_is_tried_with_the_default_context(
    files: SetUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []

    def native(params: PairParams, *_: object) -> object:
        asked.append(params.n_ctx_auto)
        if params.n_ctx_auto != DEFAULT_CONTEXT:
            raise NoMemoryError("There is not enough memory.")
        return params

    def placed(params: PairParams, *_: object) -> PairParams:
        return params if params.n_ctx_auto else replace(params, n_ctx_auto=32_768)

    monkeypatch.setattr(pair, "NativePair", native)
    monkeypatch.setattr(loading, "fitted", placed)
    loader = read_pair({"target": str(files.target.path)})

    assert isinstance(loading.load(loader, CancelFlag(), lambda *_: True), PairParams)
    assert asked == [32_768, DEFAULT_CONTEXT]


def test_a_projector_is_named_or_set_up_or_beside_the_target(tmp_path: Path) -> None:
    target = write_target(tmp_path / "a.gguf")
    beside = write_projector(tmp_path / "mmproj-a.gguf", "llava")
    chosen = read_pair({"target": str(target)})
    downloaded = SetUp(chosen.pair, ModelOnDisk(target, 1), None, ModelOnDisk(tmp_path / "other.gguf", 1))

    def found(files: SetUp | None, **flags: str) -> Path | None:
        asked = replace(read_pair({"target": str(target), **flags}), files=files)
        return loading.asked_here(asked, lambda: ()).projector

    assert found(None) == beside
    assert found(downloaded) == tmp_path / "other.gguf"
    assert found(downloaded, mmproj="none") is None
    long = f"~/{'folder/' * 40}mine.gguf"
    assert BY_NAME["model.mmproj"].kind.parse(long) == long
    assert found(downloaded, mmproj=long) == Path(long).expanduser()
    assert found(downloaded, mmproj="~unknown-user/mine.gguf") == Path("~unknown-user/mine.gguf")
