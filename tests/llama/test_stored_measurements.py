"""Statistics are found again for the same pair, placement and machine only; damaged files are discarded."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.types import Threads
from app.llama import loading, stored_measurements
from app.llama.params import PairParams
from app.llama.stored_measurements import memory_file, pair_identity, states_identity, thread_file
from app.settings.model_params import ModelParams
from app.settings.placement import expert_overrides
from tests.llama.params import pair_params


def learned() -> PairStatistics:
    memory = PairStatistics(CostModel(CostProfile({1: 10e6, 2: 12e6, 8: 20e6}, draft_ns=1e6)))
    memory.costs.scale = 2.0
    memory.model.observe([(0.9, 0, True), (0.5, 1, False)])
    memory.trial.on, memory.has_short_context = False, True
    memory.keep_least()
    return memory


def test_saved_statistics_are_restored(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "memory.json"
    memory = learned()
    stored_measurements.save_statistics(file, memory)
    back = stored_measurements.load_statistics(file)

    assert back is not None
    assert back.costs.target_ns(8, 0) == pytest.approx(memory.costs.target_ns(8, 0))
    assert back.costs.draft_ns(0) == pytest.approx(memory.costs.draft_ns(0))
    assert back.model.counts == memory.model.counts
    assert back.model.probability(0.5, 1) == memory.model.probability(0.5, 1)
    assert not back.trial.on
    assert back.least_ns == memory.least_ns == 20e6
    assert back.measured_ns == memory.measured_ns == 10e6
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 99),
        (("rows",), {}),
        (("rows", "1"), -5),
        (("rows", "1"), "fast"),
        (("rows",), {"0": 5, "1": 5}),
        (("draft_ns",), float("inf")),
        (("rows", "8"), 1e308),
        (("cells",), []),
        (("model",), []),
        (("model",), [[[1, 2]], [[1, 2]]]),
        (("lookup", 0, 0), 5.0),
        (("trial",), None),
    ],
)
def test_implausible_statistics_are_discarded(tmp_path: Path, path: tuple[Any, ...], value: Any) -> None:
    file = tmp_path / "memory.json"
    stored_measurements.save_statistics(file, learned())
    raw = json.loads(file.read_text())
    place = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file.write_text(json.dumps(raw))

    assert stored_measurements.load_statistics(file) is None


def test_sizes_of_longer_drafts_than_today_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    stored_measurements.save_statistics(file, learned())
    raw = json.loads(file.read_text())
    raw["rows"] = {"1": 5, "65": 7}
    file.write_text(json.dumps(raw))

    back = stored_measurements.load_statistics(file)
    assert back is not None
    assert back.costs.profile.batch_ns == {1: 5.0}


def test_a_failed_save_is_no_exception(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    stored_measurements.save_statistics(blocked / "memory.json", learned())


# What measurements and states belong to

CPU_ALONE, CARD = ModelParams(devices=("cpu",)), ModelParams(devices=("CUDA0",))


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cards of one kind."""
    monkeypatch.setattr(loading, "graphics", lambda **_: {"CUDA0": 1, "CUDA1": 2})
    monkeypatch.setattr("app.llama.devices.description", lambda handle: "A card")


@pytest.fixture
def both(demo_target: Path, demo_draft: Path, tmp_path: Path) -> PairParams:
    """A pair on the CPU."""
    return pair_params(demo_target, demo_draft, 2, model=CPU_ALONE, draft_model=CPU_ALONE, memory_dir=tmp_path)


def on_both_cards(pair: PairParams, *shares: float) -> PairParams:
    return replace(pair, model=ModelParams(devices=("CUDA0", "CUDA1"), tensor_split=shares))


@pytest.mark.usefixtures("cards")
def test_statistics_belong_to_a_placement(both: PairParams) -> None:
    alone = replace(both, draft=None)
    kinds = [
        both,
        replace(both, model=CARD),
        replace(both, model=replace(CARD, n_gpu_layers=20)),
        on_both_cards(both, 1, 1),
        on_both_cards(both, 3, 1),
        *(replace(both, model=replace(CPU_ALONE, cpu_experts=n)) for n in (1, 24)),
        replace(both, model=replace(CPU_ALONE, overrides=expert_overrides(1))),
        replace(both, draft_model=CARD),
        both.over({"model.kv_type": "q8_0"}),
        both.over({"draft.kv_type": "q8_0"}),
        both.over({"model.flash_attn": "on"}),
        *(both.over({"model.offload_min_batch": n}) for n in (8, 4)),
        replace(both, threads=Threads(1, 1)),
        alone,
    ]

    assert len(set(map(pair_identity, kinds))) == len(kinds)


@pytest.mark.usefixtures("cards")
def test_planned_numbers_count_in_coarse_steps_and_settings_without_effect_not_at_all(both: PairParams) -> None:
    """The free memory differs slightly at each start, and with it the planned shares and number of experts."""
    alone = replace(both, draft=None)
    for one, *others in (
        (both, both.over({"model.ctx": 256}), both.over({"model.offload_min_batch": 32})),
        (both, replace(both, model=replace(CPU_ALONE, cpu_experts=0))),
        (alone, alone.over({"draft.kv_type": "q8_0"})),
        (on_both_cards(both, 3, 2), on_both_cards(both, 0.6021, 0.3979), on_both_cards(both, 0.5987, 0.4013)),
        [replace(both, model=replace(CPU_ALONE, cpu_experts=n)) for n in (24, 23)],
    ):
        assert set(map(pair_identity, others)) == {pair_identity(one)}


@pytest.mark.usefixtures("cards")
def test_measurements_of_another_machine_are_not_used(both: PairParams, monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> list[Path | None]:
        statistics = (memory_file(pair) for pair in (both, replace(both, model=CARD), on_both_cards(both)))
        return [*statistics, thread_file(both, (1, 2))]

    here = names()
    monkeypatch.setattr("app.llama.devices.description", lambda handle: "another card")
    new_card = names()
    monkeypatch.setattr(stored_measurements, "processor_kind", lambda: "another processor")

    assert [one == other for one, other in zip(here, new_card, strict=True)] == [True, False, False, True]
    assert not set(new_card) & set(names())


def test_states_belong_to_a_context_size(both: PairParams) -> None:
    assert len({states_identity(both.over({"model.ctx": n})) for n in (1024, 2048)}) == 2
