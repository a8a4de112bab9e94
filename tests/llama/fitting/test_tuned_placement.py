"""Placements to compare, their storage, and the op offload threshold."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.hardware.devices import Device
from app.hardware.fit import PairNeeds, Rooms
from app.llama import library
from app.llama.fitting import fit_pair, tuned_placement
from app.llama.fitting.fit_pair import Fitting, fitting_of
from app.llama.fitting.tuned_placement import (
    candidate_placements,
    in_fixes,
    load_placement,
    offload_candidates,
    placement_file,
    save_placement,
    with_tuned_placement,
)
from app.llama.library import OFFLOAD_VARIABLE
from app.llama.params import PairParams
from app.models.memory_estimate import ModelMemory
from app.settings.layers import Layer
from app.settings.model_params import ModelParams
from app.settings.placement import CPU
from tests.llama.params import pair_params

GB = 1_000_000_000
ROOMS = (Device("CUDA0", "gpu", "CUDA", 12 * GB, "A card", 12 * GB), Device(CPU, "cpu", "CPU", 64 * GB))
SMALL = ModelMemory("Small", GB // 2, GB // 10, GB // 10, GB // 10, n_layers=15, n_ctx=8192)
DENSE = ModelMemory("Dense", 20 * GB, 2 * GB, GB // 10, GB // 10, n_layers=40, n_ctx=8192)
MIXTURE = replace(DENSE, name="Mixture", experts=(GB // 2 - GB // 20,) * 40)
CHANGE: Layer = {
    "model.gpu_layers": 20,
    "model.kv_type": "q8_0",
    "draft.device": (CPU,),
    "model.offload_min_batch": 8,
}


@pytest.fixture
def params(tmp_path: Path) -> PairParams:
    for name in ("big.gguf", "small.gguf"):
        (tmp_path / name).write_bytes(name.encode())
    return pair_params(
        tmp_path / "big.gguf", tmp_path / "small.gguf", n_threads=1, memory_dir=tmp_path / "tandem" / "drafting"
    )


def fitting(monkeypatch: pytest.MonkeyPatch, params: PairParams, target: ModelMemory) -> Fitting:
    def needs(wanted: PairParams, rooms: Rooms) -> PairNeeds:
        return PairNeeds(target.with_kv_type(wanted.kv_type), SMALL, rooms, wanted.model, wanted.draft_model)

    monkeypatch.setattr(fit_pair, "needs", needs)
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)
    monkeypatch.setattr(tuned_placement, "kind_of_file", lambda _: "model")
    return fitting_of(params, ROOMS)


def test_a_pair_that_fits_is_compared_with_a_smaller_cache_and_the_draft_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, params: PairParams
) -> None:
    found = fitting(monkeypatch, params, replace(DENSE, weights=4 * GB))

    assert candidate_placements(found) == [{}, {"model.kv_type": "q8_0"}, {"draft.device": (CPU,)}]
    chosen = fitting_of(params.over({"model.kv_type": "f16", "draft.device": ("CUDA0",)}), ROOMS)
    assert candidate_placements(chosen) == [{}]
    assert offload_candidates({}, found) == []


def test_a_dense_model_that_does_not_fit_gets_the_most_layers_that_do(
    monkeypatch: pytest.MonkeyPatch, params: PairParams
) -> None:
    found = fitting(monkeypatch, params, DENSE)
    layered = [change for change in candidate_placements(found) if "model.gpu_layers" in change]

    assert [[*change] for change in layered] == [
        ["model.gpu_layers"],
        ["model.kv_type", "model.gpu_layers"],
        ["draft.device", "model.gpu_layers"],
    ]
    for change in layered:
        n = change["model.gpu_layers"]
        assert isinstance(n, int)
        assert fitting_of(params.over(change), ROOMS).plan.fits
        assert not fitting_of(params.over({**change, "model.gpu_layers": n + 1}), ROOMS).plan.fits
    # The threshold matters if layers are in RAM and it is not set.
    partly = fitting_of(params.over(layered[0]), ROOMS)
    assert [{**one, "model.offload_min_batch": 0} for one in offload_candidates(layered[0], partly)] == [
        {**layered[0], "model.offload_min_batch": 0}
    ] * 4
    fixed = replace(partly, asked=partly.asked.over({"model.offload_min_batch": 32}))
    assert offload_candidates(layered[0], fixed) == []


def test_experts_in_ram_are_compared_with_whole_layers_in_ram(
    monkeypatch: pytest.MonkeyPatch, params: PairParams
) -> None:
    found = fitting(monkeypatch, params, MIXTURE)

    assert found.plan.fits
    assert found.plan.n_in_ram
    (layered,) = [change for change in candidate_placements(found) if "model.gpu_layers" in change]
    assert fitting_of(params.over(layered), ROOMS).plan.n_in_ram == 0
    assert len(offload_candidates({}, found)) == 4


def test_the_chosen_placement_is_used_until_a_setting_names_one(params: PairParams) -> None:
    save_placement(file := placement_file(params), CHANGE, ROOMS)

    loaded = with_tuned_placement(params, lambda: ROOMS)
    assert (loaded.model.n_gpu_layers, loaded.kv_type, loaded.draft_model.devices) == (20, "q8_0", (CPU,))
    assert (loaded.settings["model.offload_min_batch"], loaded.tuned) == (8, CHANGE)
    assert in_fixes({"model.kv_type": "q8_0", "draft.device": (CPU,)}) == "⟨model.kv_type=q8_0⟩ ⟨draft.device=cpu⟩"
    for other in (
        params.over({"model.gpu_layers": None}),
        params.over({"model.ctx": 4096}),
        replace(params, draft=None),
        replace(params, model=ModelParams(n_gpu_layers=9)),
    ):
        assert with_tuned_placement(other, lambda: ROOMS) == other
    bigger = (replace(ROOMS[0], total_bytes=24 * GB), ROOMS[1])
    assert with_tuned_placement(params, lambda: bigger) == params

    save_placement(file, {}, ROOMS)
    assert with_tuned_placement(params, lambda: ROOMS) == params


@pytest.mark.parametrize(
    ("name", "value"),
    [("model.gpu_layers", "all"), ("model.kv_type", "auto"), ("draft.device", ["auto"]), ("model.gpu_layers", -1)],
)
def test_a_damaged_choice_is_discarded(tmp_path: Path, name: str, value: object) -> None:
    file = tmp_path / "choice.json"
    save_placement(file, CHANGE, ROOMS)
    assert load_placement(file, ROOMS) == CHANGE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"settings": {name: value}}))

    assert not load_placement(file, ROOMS)


def test_the_threshold_is_set_before_the_backends_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFFLOAD_VARIABLE, "7")
    started = 0

    class Start:
        def cache_info(self) -> object:
            return type("Info", (), {"currsize": started})

    monkeypatch.setattr(library, "start", Start())
    assert library.use_offload(None) == 7
    assert library.use_offload(4) == 4
    started = 1
    assert library.use_offload(16) == 4
    monkeypatch.setenv(OFFLOAD_VARIABLE, "many")
    assert library.use_offload(None) is None
