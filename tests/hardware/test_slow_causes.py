"""Causes of a slow pair: each alone, their order, and which are measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.cli.measured_pairs import of_memory
from app.core.shell import command
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.hardware.cpu import Conditions
from app.hardware.fit import Load
from app.hardware.pair_view import DRAFT, TARGET, Measured, ModelPlace, PairView
from app.hardware.slow_causes import Cause, Situation, diagnose, speed_section

GB = 1_000_000_000
BIG = ModelPlace(TARGET, "Big 7B", "CUDA0", 29, 29, 4 * GB, GB, GB // 10, 8192, "f16")
SMALL = ModelPlace(DRAFT, "Small 0.5B", "CUDA0", 25, 25, GB // 2, GB // 10, GB // 10, 8192, "f16")
ROOM = Load("CUDA0", 6 * GB, 23 * GB, 24 * GB)
PROFILE = CostProfile({1: 10e6, 2: 10.4e6, 4: 11e6, 8: 13e6, 16: 20e6}, draft_ns=0.5e6)
MEASURED = Measured(CostModel(PROFILE), acceptance=0.8)
GOOD = Situation(
    pair=PairView("pair", "A pair", "", (BIG, SMALL), (ROOM,), target_source="owner/big-GGUF"),
    threads=8,
    cores=8,
    conditions=Conditions(usable=16, others=0.6, throttled=0.0, clock_cap=1.0),
    gpu="CUDA0",
    measured=MEASURED,
)
TARGET_ON_CPU = replace(BIG, device="cpu", layers_offloaded=0)
DRAFT_ON_CPU = replace(SMALL, device="cpu", layers_offloaded=0)
ON_CPU = replace(GOOD, pair=replace(GOOD.pair, models=(TARGET_ON_CPU, DRAFT_ON_CPU), needs=()), gpu="")


def with_models(*models: ModelPlace, of: Situation = GOOD) -> Situation:
    return replace(of, pair=replace(of.pair, models=models))


def only(situation: Situation) -> Cause:
    (cause,) = diagnose(situation)
    return cause


def costing(**changes: Any) -> Situation:
    return replace(GOOD, measured=replace(MEASURED, costs=CostModel(replace(PROFILE, **changes))))


def on_cpu(**changes: Any) -> Situation:
    return replace(ON_CPU, conditions=replace(ON_CPU.conditions, **changes))


@pytest.mark.parametrize("situation", [GOOD, ON_CPU, replace(GOOD, measured=None)])
def test_a_good_pair_has_no_cause(situation: Situation) -> None:
    assert diagnose(situation) == ()
    assert speed_section(situation.measured, ()).lines[-1].text == "none found"


@pytest.mark.parametrize(
    ("situation", "label", "fix"),
    [
        (with_models(BIG, DRAFT_ON_CPU), "draft", "--draft-device CUDA0"),
        (with_models(BIG, replace(SMALL, layers_offloaded=12)), "draft", "--draft-device CUDA0"),
        (with_models(replace(BIG, layers_offloaded=20), SMALL), "layers", "--gpu-layers auto"),
        (with_models(TARGET_ON_CPU, SMALL), "target", "--device CUDA0"),
        (replace(ON_CPU, threads=12), "threads", "--threads 8"),
        (on_cpu(quota=4.0), "threads", "--threads 4"),
        (on_cpu(others=9.0), "load", "Close other programs."),
        (on_cpu(clock_cap=0.5), "clock", "power profile"),
    ],
)
def test_each_cause_alone_with_its_fix(situation: Situation, label: str, fix: str) -> None:
    cause = only(situation)

    assert cause.label == label
    assert fix in "\n".join(cause.hint)
    assert not cause.measured
    assert "Without this" not in speed_section(situation.measured, (cause,)).lines[1].text


def test_a_pair_that_does_not_fit_comes_first() -> None:
    short = replace(GOOD.pair, needs=(replace(ROOM, free_bytes=5 * GB),), offers=("--ctx 4096: shorter",))
    situation = replace(ON_CPU, pair=replace(short, models=ON_CPU.pair.models), threads=12)

    assert [cause.label for cause in diagnose(situation)] == ["memory", "threads"]
    assert diagnose(situation)[0].hint == ("--ctx 4096: shorter",)


def test_a_remote_target_leaves_the_draft_here() -> None:
    assert diagnose(with_models(replace(BIG, device="RPC0"), DRAFT_ON_CPU)) == ()


def test_a_quota_that_ran_out_is_measured() -> None:
    cause = only(replace(on_cpu(throttled=0.5, quota=2.0), threads=2))

    assert (cause.label, cause.factor, cause.measured) == ("quota", 2.0, True)
    assert speed_section(None, (cause,)).lines[1].text.endswith("Without this, answers would be about 2.0× as fast.")


def test_a_draft_that_is_too_big() -> None:
    cause = only(costing(draft_ns=6e6))

    assert (cause.label, cause.measured) == ("draft size", True)
    assert "0.60× the time of a token without draft" in cause.text
    # At 0.8 accepted and a draft of a tenth the best length is 5: 3.69 tokens for 1.7 plain steps; here it is 1.
    assert cause.factor == pytest.approx((3.689 / 1.7) / (1.8 / 1.64), rel=0.01)
    spaced = replace(GOOD.pair, target_source="my models/big.gguf")
    hint = only(replace(costing(draft_ns=6e6), pair=spaced)).hint
    assert hint[1] == f"  {command(['tandem', 'pairs', 'find', 'my models/big.gguf'])}"


def test_a_draft_that_is_rejected() -> None:
    cause = only(replace(GOOD, measured=replace(MEASURED, acceptance=0.2)))
    assert (cause.label, cause.measured) == ("acceptance", True)
    assert "Measured acceptance is 20%" in cause.text
    assert cause.factor > 1.5

    assert diagnose(replace(GOOD, measured=replace(MEASURED, acceptance=None))) == ()
    too_big = costing(draft_ns=20e6).measured
    assert too_big is not None
    assert only(replace(GOOD, measured=replace(too_big, acceptance=0.2))).label == "draft size"


def test_a_draft_model_that_is_off_at_these_costs() -> None:
    cause = only(costing(batch_ns={1: 10e6, 2: 20e6, 4: 27e6, 8: 55e6, 16: 77e6}, draft_ns=2.9e6))

    assert cause.label == "draft off"
    assert cause.text == (
        "Draft model off: even at 97% acceptance the speedup would be 1.07× (it needs 1.2×). A batch of 2 tokens takes "
        "2.00× the time of one."
    )


def test_measured_draft_cost_outweighs_the_rule() -> None:
    first, *others = diagnose(with_models(BIG, DRAFT_ON_CPU, of=costing(draft_ns=8e6)))

    assert "A drafted token takes 0.80×" in next(c for c in (first, *others) if c.label == "draft").text
    assert first.factor >= 1.8


def test_figures_come_from_pair_statistics() -> None:
    memory = PairStatistics(CostModel(CostProfile({1: 10.0, 2: 12.0}, draft_ns=3.0), scale=2.0))
    memory.model.observe([(0.9, 0, True), (0.9, 1, False), (0.3, 0, True)])

    found = of_memory(memory)

    assert (found.plain_ns, found.batch_ns(2), found.draft_ns) == (20.0, 24.0, 6.0)
    assert found.acceptance is None, "too few"
    memory.model.observe([(0.9, 0, True), (0.3, 0, False)] * 50)
    assert of_memory(memory).acceptance == pytest.approx(0.5, abs=0.02)
    assert of_memory(memory, None).draft_ns == 0
