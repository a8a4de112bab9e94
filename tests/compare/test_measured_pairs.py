"""Stored results of this machine in the list of pairs and in doctor."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.compare.measure import Spread
from app.compare.measured_pairs import of_memory, save, speedups
from app.core.units import GB
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Trial
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.drafting_report import Speedup
from app.engine.sources import RETRIED, Source
from app.hardware.measured import Measured
from app.hardware.recommend import weigh
from app.llama.fitting.pair_checks import speed_check
from app.models.catalog import Pair
from app.models.source import HubModel
from tests.capacities import in_ram

MINE = Pair("mine", "Mine", HubModel("a/big-GGUF", size=GB), HubModel("a/small-GGUF", quant="Q8_0"))


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"speedup": Speedup(1.64)}, "Here: speedup about 1.6×."),
        ({"speedup": Speedup(1.02)}, "Here: no speedup."),
        ({"speedup": Speedup(1.02), "has_lost": True}, f"Here: {Source.MODEL.turned_off(RETRIED)}."),
        ({}, None),
    ],
)
def test_a_pair_shows_its_measured_figures(known: dict[str, Any], said: str | None) -> None:
    room = in_ram(16 * GB, measured={"mine": Measured(memory().costs, **known)})

    assert weigh(MINE, room).drafting == said
    assert weigh(replace(MINE, name="other"), room).drafting is None
    assert weigh(replace(MINE, draft=None), room).drafting is None


def memory(*, judged: int = 0, gain: float = 0.2, on: bool = True, dear: bool = False) -> PairStatistics:
    rows = {1: 10.0, 2: 20.0, 64: 640.0} if dear else {1: 10.0, 2: 10.5, 64: 30.0}
    found = PairStatistics(CostModel(CostProfile(rows, draft_ns=1.0)), gain=gain, trial=Trial(on=on))
    found.model.counts[0][0] = [judged / 2, float(judged)]
    return found


def seen(found: PairStatistics, benchmarked: float | None = None) -> Measured:
    return of_memory(found, benchmarked=benchmarked)


def test_a_speed_is_the_quiet_one_and_its_range_reaches_down_to_the_latest_answers() -> None:
    known = memory()
    known.least_ns = 5.0

    assert seen(known).tokens_per_second == 2e8
    assert seen(known).speed == "100000000 to 200000000 tok/s"


def test_a_memory_shows_what_drafting_gained_when_enough_was_drafted() -> None:
    assert (seen(memory()).tokens_per_second, seen(memory()).drafting) == (1e8, None)
    assert seen(memory(judged=500, gain=0.375)).speedup == Speedup(1.6)
    certain = seen(memory(judged=500, gain=1.0)).speedup
    assert certain is not None
    assert certain.ratio == pytest.approx(100)


def test_a_memory_shows_that_drafting_is_off() -> None:
    assert seen(memory(on=False)).off == f"draft model off: {RETRIED}"
    assert of_memory(memory(on=False), Source.MTP).off == f"MTP layer off: {RETRIED}"
    assert str(seen(memory(dear=True)).off).startswith("draft model off: even at 97% acceptance")


@pytest.mark.parametrize("lost", [memory(on=False), memory(dear=True)])
def test_a_draft_model_that_benchmarks_found_faster_is_not_shown_to_cost_more(lost: PairStatistics) -> None:
    assert seen(lost, benchmarked=1.5).drafting == "speedup 1.5×"
    assert str(seen(lost, benchmarked=0.9).drafting).startswith("draft model off: ")


def test_a_benchmark_counts_before_what_answers_let_expect() -> None:
    assert seen(memory(judged=500, gain=0.375), benchmarked=1.3).drafting == "speedup 1.3×"


@pytest.mark.parametrize("benchmarked", [None, 0.9, 1.5])
@pytest.mark.parametrize("found", [memory(), memory(judged=500), memory(on=False), memory(dear=True)])
def test_the_list_of_pairs_and_doctor_say_the_same(found: PairStatistics, benchmarked: float | None) -> None:
    measured = of_memory(found, benchmarked=benchmarked)
    room = in_ram(16 * GB, measured={"mine": measured})
    doctor = speed_check(measured)

    pace = weigh(MINE, room).reason.partition(";")[0]
    assert doctor.text.startswith(f"{pace} without drafts")
    assert (measured.drafting or "") in doctor.text


FACTS = {"machine": "EPYC, A card", "target": "big.gguf, Q4_0", "draft": "s.gguf, Q8_0"}


def raced(ratio: float) -> dict[str, Spread]:
    return {name: Spread(speed, speed, speed, 1) for name, speed in (("plain", 2.0), ("automatic", 2.0 * ratio))}


def test_the_latest_result_of_a_pair_on_this_cpu_is_its_speedup(tmp_path: Path) -> None:
    def store(when: str, ratio: float, machine: str) -> None:
        assert save(tmp_path / "deep", {**FACTS, "machine": machine}, when, {"": raced(ratio)})

    store("2026-11-23T10:00:00Z", 1.5, "EPYC, A card")
    store("2026-11-22T10:00:00Z", 1.3, "EPYC")
    store("2026-11-24T10:00:00Z", 9.9, "EPYC 2")
    alone = {"machine": "EPYC", "target": "big.gguf, Q4_0"}
    save(tmp_path / "deep", alone, "2026", {"code": raced(3.0), "chat": raced(1.0), "all": raced(1.5)})

    assert speedups(tmp_path / "deep", "EPYC") == {("big.gguf", "s.gguf"): 1.5, ("big.gguf", ""): 1.5}
    assert speedups(tmp_path / "none", "EPYC") == {}


def test_a_new_result_replaces_the_old_one(tmp_path: Path) -> None:
    for when, ratio in (("2026-11-21", 1.2), ("2026-11-22", 1.4)):
        save(tmp_path, FACTS, when, {"": raced(ratio)})
    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 1.4}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"format": 9}', '{"format": 1, "results": 3}'),
        '{"format": 1, "machine": "EPYC", "results": [{"when": 1}]}',
    ],
)
def test_a_damaged_file_is_discarded(tmp_path: Path, text: str) -> None:
    assert save(tmp_path, FACTS, "2026", {"": raced(1.0)})
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert speedups(tmp_path, "EPYC") == {}
    assert save(tmp_path, FACTS, "2026", {"": raced(2.0)})
    assert speedups(tmp_path, "EPYC") == {("big.gguf", "s.gguf"): 2.0}


def test_a_refused_write_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not save(tmp_path / "file", FACTS, "2026", {"": raced(1.0)})
