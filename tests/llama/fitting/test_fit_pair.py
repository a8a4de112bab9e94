"""A pair compared with the memory: the smaller offered pair, the source of the figures, the longest context."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.hardware.devices import Device
from app.hardware.fit import PairNeeds, Rooms
from app.llama.fitting import fit_pair
from app.llama.fitting.fit_pair import context_room, fitting_of
from app.llama.params import PairParams
from app.models.catalog import Pair, WorkingMemory
from app.models.memory_estimate import CELLS, ModelMemory
from app.models.source import HubModel
from app.settings.kinds import Value
from app.settings.model_params import ModelParams
from app.settings.placement import CPU
from tests.llama.params import pair_params

GB = 1_000_000_000
ROOMS = (
    Device("CUDA0", "gpu", "CUDA", 24 * GB),
    Device("CUDA1", "gpu", "CUDA", 8 * GB),
    Device("Vulkan0", "software", "Vulkan", 2 * GB),
    Device(CPU, "cpu", "CPU", 64 * GB),
)
BIG = ModelMemory("Big", 60 * GB, GB, GB // 10, GB // 10, n_layers=31, n_ctx=8192)
SMALL = ModelMemory("Small", GB // 2, GB // 10, GB // 10, GB // 10, n_layers=15, n_ctx=8192)
CACHE = WorkingMemory(per_token=GB // 8192, fixed=0, main=GB // 10)
PAIRS = [
    Pair(f"of-{n}", f"Of {n} GB", HubModel("o/t", "Q4_K_M", size=(n - 1) * GB + GB // 2), None, working=CACHE)
    for n in (1, 5, 18, 22, 24)
]


def params(*devices: str, draft: bool = False) -> PairParams:
    return pair_params(
        Path("big.gguf"), Path("small.gguf") if draft else None, n_threads=1, model=ModelParams(devices=devices)
    )


def use_needs(monkeypatch: pytest.MonkeyPatch, target: ModelMemory, draft: ModelMemory | None) -> None:
    """Replace what is read of the headers."""

    def needs(wanted: PairParams, rooms: Rooms) -> PairNeeds:
        return PairNeeds(target, draft if wanted.draft is not None else None, rooms, wanted.model, wanted.draft_model)

    monkeypatch.setattr(fit_pair, "needs", needs)
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)


@pytest.fixture(autouse=True)
def _headers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_needs(monkeypatch, BIG, SMALL)


@pytest.mark.parametrize(
    ("devices", "name"),
    [((), "of-24"), (("CUDA0",), "of-18"), (("CUDA1",), "of-5"), (("Vulkan0",), "of-1")],
)
def test_a_smaller_pair_fits_where_this_one_would_go(devices: tuple[str, ...], name: str) -> None:
    found = fitting_of(params(*devices), ROOMS)

    assert not found.plan.fits
    assert [offer.pair for offer in found.offers(PAIRS) if offer.pair] == [name]


def test_a_smaller_pair_fits_with_the_context_that_is_asked_for() -> None:
    most = int(0.9 * ROOMS[1].room_bytes) - 8192 * CACHE.per_token
    just = [replace(PAIRS[0], target=HubModel("o/t", "Q4_K_M", size=most))]

    def offered(n_ctx: int | None) -> bool:
        found = fitting_of(params("CUDA1").over({"model.ctx": n_ctx}), ROOMS)
        return any(offer.pair for offer in found.offers(just))

    assert [offered(n_ctx) for n_ctx in (None, 8192, 8448)] == [True, True, False]


def test_a_small_window_cache_is_tried_before_experts_move_to_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    full = replace(BIG, weights=20 * GB, kv=6 * GB, window_gain=5 * GB, experts=(GB // 2,) * 31)
    small = replace(full, kv=GB, window_gain=0)
    needs = {True: full, False: small}

    def of_windows(wanted: PairParams, rooms: Rooms) -> PairNeeds:
        return PairNeeds(needs[wanted.settings["model.swa_full"] != "off"], None, rooms, wanted.model)

    monkeypatch.setattr(fit_pair, "needs", of_windows)

    def place(swa_full: str, gigabytes: int) -> tuple[Value, bool, int]:
        rooms = (replace(ROOMS[0], free_bytes=gigabytes * GB), ROOMS[-1])
        found = fitting_of(params().over({"model.swa_full": swa_full}), rooms)
        return found.params.settings["model.swa_full"], found.plan.fits, found.plan.n_in_ram

    assert place("auto", 30) == ("auto", True, 0), "the full cache where it fits"
    assert place("auto", 24) == ("off", True, 0)
    assert place("on", 24) == ("on", True, 6)
    assert place("auto", 20) == ("off", True, 4)
    assert place("off", 30) == ("off", True, 0)
    full, small = (replace(need, experts=()) for need in (full, small))
    needs |= {True: full, False: small}
    assert place("auto", 24) == ("off", True, 0)
    assert place("auto", 12) == ("off", False, 0), "what lacks least, for the offers"
    needs[True] = replace(full, window_gain=0)
    assert place("auto", 24) == ("auto", False, 0)


def test_a_fitted_device_keeps_its_description_and_size() -> None:
    card = replace(ROOMS[0], free_bytes=80 * GB, description="NVIDIA H100", total_bytes=85 * GB)

    found = fitting_of(params(), (card, ROOMS[-1]))

    assert [(m.device, m.description, m.total_bytes) for m in found.params.memory] == [
        ("CUDA0", "NVIDIA H100", 85 * GB),
        (CPU, "", 0),
    ]


def test_figures_are_llama_cpps_own_only_where_those_of_both_models_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*which: bool) -> bool:
        def measured(_: object, pair: PairNeeds) -> PairNeeds:
            draft = replace(pair.draft) if pair.draft is not None and which[1] else pair.draft
            return replace(pair, target=replace(pair.target) if which[0] else pair.target, draft=draft)

        monkeypatch.setattr(fit_pair, "measured_needs", measured)
        return fitting_of(params(draft=True), ROOMS).measured

    assert measure(True, True)
    assert not measure(False, True)
    assert not measure(True, False)
    assert not fitting_of(params(draft=True), ROOMS, certain=1e9).measured


@pytest.mark.parametrize(("gigabytes", "n_measured"), [(1, 1), (4, 2)])
def test_compute_buffers_are_measured_with_the_shares_that_are_used(
    monkeypatch: pytest.MonkeyPatch, gigabytes: int, n_measured: int
) -> None:
    target, measured = replace(BIG, weights=20 * GB), list[tuple[float, ...]]()

    def measure(wanted: PairParams, pair: PairNeeds) -> PairNeeds:
        measured.append(wanted.model.tensor_split)
        return replace(pair, target=replace(pair.target, compute_on=(("cuda0", GB), ("cuda1", gigabytes * GB))))

    use_needs(monkeypatch, target, None)
    monkeypatch.setattr(fit_pair, "measured_needs", measure)
    found = fitting_of(params("CUDA0", "CUDA1"), ROOMS)

    assert found.plan.fits
    assert len(measured) == n_measured
    assert found.params.model.tensor_split == measured[-1]


@pytest.mark.parametrize("gigabytes", [75, 80, 90, 200])
def test_the_longest_context_fits_and_one_block_more_does_not(gigabytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = 131_072
    use_needs(monkeypatch, replace(BIG, n_ctx_train=trained, compute_growing=BIG.compute), SMALL)
    found = fitting_of(params(draft=True), (Device(CPU, "cpu", "CPU", gigabytes * GB),))
    assert found.plan.fits

    n_ctx = context_room(found)

    def fits(n_ctx: int) -> bool:
        return found.needs.with_context(n_ctx).plan().fits

    assert n_ctx % CELLS == 0
    assert 8192 <= n_ctx <= trained
    assert fits(n_ctx)
    assert n_ctx == trained or not fits(n_ctx + CELLS)
