"""What is said of drafting before a pair is downloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.measured_pairs import of_memory, seen_of
from app.core.units import GB
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.guard import Trial
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.drafting_report import RETRIED, Speedup
from app.hardware.conditions import Conditions
from app.hardware.pair_view import PairView
from app.hardware.slow_causes import Situation, slow_section
from app.models.catalog import Pair
from app.models.expected_speedup import Seen, expected_gain, weights_kind
from app.models.recommend import Room, weigh
from app.models.source import DemoModel, HubModel

PROCESSOR, CARD = Room(16 * GB), Room(16 * GB, "a card")
BY_LOOKUP = {
    "Q4_0": "With Q4_0 weights on two cores n-gram drafting gave 1.02x to 1.05x; a draft model lost.",
    "Q4_K": "With Q4_K weights on two cores n-gram drafting gave 0.99x to 1.01x; a draft model lost.",
}
README = Path(__file__).parents[3] / "README.md"


def pair(quant: str, name: str = "mine") -> Pair:
    return Pair(name, "Mine", HubModel("a/big-GGUF", quant=quant), HubModel("a/small-GGUF", quant="Q8_0"))


@pytest.mark.parametrize("quant", ["Q4_0", "Q4_K_M", "Q4_K_S", "UD-Q4_K_XL", "q4_k_m"])
def test_where_it_was_measured_that_drafts_lose_that_is_said_for_processors(quant: str) -> None:
    assert expected_gain(pair(quant), PROCESSOR, {}) == BY_LOOKUP[weights_kind(quant)]
    assert expected_gain(pair(quant), CARD, {}) == ""
    assert expected_gain(pair(quant), None, {}) == ""


@pytest.mark.parametrize("quant", ["Q8_0", "Q6_K", "IQ4_XS", "IQ3_XXS", "Q3_K_M", "F16", "Q4_1", ""])
def test_of_what_nobody_measured_nothing_is_said(quant: str) -> None:
    assert expected_gain(pair(quant), PROCESSOR, {}) == ""


def test_the_quantization_is_found_in_the_files_name_and_of_other_weights_a_published_figure_is_told() -> None:
    by_file = replace(pair(""), target=HubModel("a/big-GGUF", file="big-q4_k_m.gguf"))

    assert expected_gain(by_file, PROCESSOR, {}) == BY_LOOKUP["Q4_K"]
    assert "a draft model gained 1.34x to 1.75x" in expected_gain(pair("BF16"), PROCESSOR, {})


def test_without_a_draft_model_and_of_the_demo_nothing_is_said() -> None:
    assert expected_gain(replace(pair("Q4_0"), draft=None), PROCESSOR, {}) == ""
    demo = Pair("demo", "Demo", DemoModel("target"), DemoModel("draft"))
    assert expected_gain(demo, PROCESSOR, {}) == ""


def test_what_this_machine_has_measured_of_the_very_pair_counts_first_and_everywhere() -> None:
    seen = {"other": Seen("Q4_K_M", 5.0, speedup=Speedup(3.0)), "mine": Seen("Q4_K_M", 5.0, speedup=Speedup(1.64))}

    said = "Measured here: speedup about 1.6× (estimated)."
    assert expected_gain(pair("Q4_K_M"), CARD, seen) == said
    seen["mine"] = replace(seen["mine"], speedup=Speedup(1.02))
    assert expected_gain(pair("Q4_K_M"), PROCESSOR, seen) == "Measured here: no speedup."
    seen["mine"] = replace(seen["mine"], off=RETRIED)
    assert expected_gain(pair("Q4_K_M"), PROCESSOR, seen) == f"Measured here: {RETRIED}."


def test_then_another_pair_with_such_weights_tells_if_it_is_like_others() -> None:
    seen = {"tried": Seen("Q4_K_S", 5.0, speedup=Speedup(1.31, measured=True))}

    told = "Measured here with tried, whose target is Q4_K too: speedup 1.3×."
    assert expected_gain(pair("Q4_K_M"), PROCESSOR, seen) == told
    assert expected_gain(pair("Q4_K_M"), CARD, seen) == ""
    assert expected_gain(pair("Q4_0"), PROCESSOR, seen) == BY_LOOKUP["Q4_0"]
    for useless in (replace(seen["tried"], is_typical=False), replace(seen["tried"], speedup=None)):
        assert expected_gain(pair("Q4_K_M"), PROCESSOR, {"tried": useless}) == BY_LOOKUP["Q4_K"]


def test_a_pair_of_which_too_little_is_known_yet_is_spoken_of_like_others() -> None:
    seen = {"mine": Seen("Q4_0", 5.0)}

    assert expected_gain(pair("Q4_0"), PROCESSOR, seen) == BY_LOOKUP["Q4_0"]


def test_the_kind_of_weights_is_told_by_the_name_of_the_quantization() -> None:
    kinds = {"Q4_K_M": "Q4_K", "UD-Q3_K_XL": "Q3_K", "IQ3_XXS": "IQ3", "Q8_0": "Q8_0", "BF16": "BF16", "F16": "F16"}
    assert {quant: weights_kind(quant) for quant in kinds} == kinds
    assert weights_kind("MXFP4") == ""


def memory(
    *, judged: int = 0, gain: float = 0.2, draft_ns: float = 1.0, on: bool = True, dear: bool = False
) -> PairStatistics:
    rows = {1: 10.0, 2: 20.0, 64: 640.0} if dear else {1: 10.0, 2: 10.5, 64: 30.0}
    found = PairStatistics(CostModel(CostProfile(rows, draft_ns=draft_ns)), gain=gain, trial=Trial(on=on))
    found.model.counts[0][0] = [judged / 2, float(judged)]
    return found


def seen(found: PairStatistics, benchmarked: float | None = None) -> Seen:
    return seen_of(of_memory(found, with_draft=True, benchmarked=benchmarked), "Q4_0")


def test_a_memory_tells_what_drafting_brought_when_enough_was_drafted() -> None:
    assert seen(memory()) == Seen("Q4_0", 1e8)
    assert seen(memory(judged=500, gain=0.375)).speedup == Speedup(1.6)
    certain = seen(memory(judged=500, gain=1.0)).speedup
    assert certain is not None
    assert certain.ratio == pytest.approx(100)


def test_a_memory_tells_that_drafting_is_off_and_why_others_are_not_judged_by_it() -> None:
    assert seen(memory(on=False)).off == RETRIED
    assert seen(memory(dear=True)).off.startswith("draft model off: even at 97% acceptance")
    assert not seen(memory(draft_ns=9.0)).is_typical


@pytest.mark.parametrize("lost", [memory(on=False), memory(dear=True)])
def test_a_draft_model_that_benchmarks_found_faster_is_not_said_to_cost_more(lost: PairStatistics) -> None:
    assert seen(lost, benchmarked=1.5).drafting == "speedup 1.5×"
    assert seen(lost, benchmarked=0.9).drafting.startswith("draft model off: ")


def test_a_benchmark_counts_before_what_answers_let_expect() -> None:
    assert seen(memory(judged=500, gain=0.375), benchmarked=1.3).drafting == "speedup 1.3×"


@pytest.mark.parametrize("benchmarked", [None, 0.9, 1.5])
@pytest.mark.parametrize("found", [memory(), memory(judged=500), memory(on=False), memory(dear=True)])
def test_the_list_of_pairs_and_doctor_say_the_same(found: PairStatistics, benchmarked: float | None) -> None:
    measured = of_memory(found, with_draft=True, benchmarked=benchmarked)
    told = seen_of(measured, "Q4_0")
    room = replace(PROCESSOR, measured={"mine": told.tokens_per_second})
    doctor = slow_section(Situation(PairView("mine", "Mine", ""), 1, 1, Conditions(), measured=measured), ()).lines[0]

    known = replace(pair("Q4_0"), target=HubModel("a/big-GGUF", quant="Q4_0", size=GB))
    pace, listed = weigh(known, room).reason.partition(";")[0], expected_gain(known, room, {"mine": told})
    assert doctor.text.startswith(f"{pace} without drafts")
    if told.drafting:
        assert listed == f"Measured here: {told.drafting}."
        assert told.drafting in doctor.text
