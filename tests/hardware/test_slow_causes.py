"""Why a pair is slow: each cause alone, their order, and what is said to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.measured_pairs import of_memory
from app.cli.tune_charts import Drafters, verdict
from app.core.shell import command
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.guard import PLAUSIBLE_ACCEPTANCE, ceiling
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.types import MAX_DRAFT
from app.hardware.busy import Busy
from app.hardware.conditions import Conditions, conditions, resident_share
from app.hardware.measured import Measured
from app.hardware.pair_view import DRAFT, TARGET, DeviceNeed, ModelPlace, PairView
from app.hardware.slow_causes import Cause, Situation, diagnose, slow_section
from tests.machines import FakeSystem

GB = 1_000_000_000
BIG = ModelPlace(TARGET, "Big 7B", "CUDA0", 29, 29, 4 * GB, GB, GB // 10, 8192, "f16")
SMALL = ModelPlace(DRAFT, "Small 0.5B", "CUDA0", 25, 25, GB // 2, GB // 10, GB // 10, 8192, "f16")
ROOM = DeviceNeed("CUDA0", 6 * GB, 23 * GB, 24 * GB)
PROFILE = CostProfile({1: 10e6, 2: 10.4e6, 4: 11e6, 8: 13e6, 16: 20e6}, draft_ns=0.5e6)
GOOD = Situation(
    pair=PairView("pair", "A pair", "", (BIG, SMALL), (ROOM,), target_source="owner/big-GGUF"),
    threads=8,
    cores=8,
    conditions=Conditions(usable=16, processors=16, busy=Busy(0.2, 0.4), throttled=0.0, clock_cap=1.0, heat_events=0),
    gpu="CUDA0",
    resident=1.0,
    measured=Measured(CostModel(PROFILE), least_ns=9.8e6, accepted=800, judged=1000),
)
HERE = replace(BIG, device="cpu", layers_offloaded=0)
ON_CPU = replace(
    GOOD,
    pair=replace(GOOD.pair, models=(HERE, replace(SMALL, device="cpu", layers_offloaded=0)), needs=()),
    gpu="",
)


def with_models(*models: ModelPlace, of: Situation = GOOD) -> Situation:
    return replace(of, pair=replace(of.pair, models=models))


def only(situation: Situation) -> Cause:
    (cause,) = diagnose(situation)
    return cause


def measured(**changes: Any) -> Situation:
    assert GOOD.measured is not None
    return replace(GOOD, measured=replace(GOOD.measured, **changes))


def costing(profile: CostProfile = PROFILE, *, with_draft: bool = True, **changes: Any) -> Situation:
    return measured(costs=CostModel(replace(profile, **changes)), with_draft=with_draft)


def on_cpu(**changes: Any) -> Situation:
    return replace(ON_CPU, conditions=replace(ON_CPU.conditions, **changes))


@pytest.mark.parametrize("situation", [GOOD, ON_CPU, replace(GOOD, measured=None)])
def test_a_good_pair_has_no_cause(situation: Situation) -> None:
    assert diagnose(situation) == ()
    assert "none found" in slow_section(situation, ()).lines[-1].text


# What is known by rule


def test_what_an_unused_gpu_is_faster_than_is_what_is_used() -> None:
    unused = replace(ON_CPU, unused_gpu="RTX 4090", command="pip install x")

    assert only(unused).text.endswith("faster than the CPU.")
    assert only(replace(unused, pair=GOOD.pair, gpu="Vulkan0")).text.endswith("faster than the integrated GPU.")


@pytest.mark.parametrize(
    ("situation", "label", "command"),
    [
        (with_models(BIG, replace(SMALL, device="cpu", layers_offloaded=0)), "draft", "--draft-device CUDA0"),
        (with_models(BIG, replace(SMALL, layers_offloaded=12)), "draft", "--draft-device CUDA0"),
        (with_models(replace(BIG, kv_type="q8_0"), SMALL), "KV cache", "--kv-type f16"),
        (with_models(BIG, replace(SMALL, kv_type="q4_0")), "KV cache", "--draft-kv-type f16"),
        (with_models(BIG, replace(SMALL, n_ctx=2048)), "context", "--ctx 2048"),
        (replace(GOOD, draft_n_ctx_train=4096), "context", "--ctx 4096"),
        (with_models(replace(BIG, layers_offloaded=20), SMALL), "layers", "--gpu-layers auto"),
        (with_models(HERE, SMALL), "target", "--device CUDA0"),
        (replace(GOOD, gpu="", software=("CUDA0",)), "software", "--device cpu"),
        (with_models(HERE, SMALL, of=replace(ON_CPU, software=("CUDA0",))), "software", "--draft-device cpu"),
        (
            with_models(BIG, replace(SMALL, device="cpu", layers_offloaded=0), of=replace(GOOD, software=("CUDA0",))),
            "software",
            "--device cpu",
        ),
        (replace(ON_CPU, threads=12), "threads", "--threads 8"),
        (replace(ON_CPU, threads=32), "threads", "--threads 16"),
        (replace(on_cpu(quota=4.0), threads=8), "threads", "--threads 4"),
        (on_cpu(busy=Busy(others=9.0)), "load", "Close other programs."),
        (on_cpu(busy=Busy(tandems=9.0, others=1.0)), "tandem", "Wait until it has answered."),
        (on_cpu(clock_cap=0.5), "clock", "power profile"),
        (on_cpu(heat_events=7), "heat", "Improve cooling"),
        (replace(ON_CPU, resident=0.25), "file", "read once"),
        (replace(ON_CPU, unused_gpu="RTX 4090", command="pip install x"), "build", "  pip install x"),
    ],
)
def test_each_cause_alone_with_what_mends_it(situation: Situation, label: str, command: str) -> None:
    cause = only(situation)

    assert cause.label == label
    assert command in "\n".join(cause.hint)
    assert not cause.measured
    assert "measurements" not in slow_section(situation, (cause,)).lines[1].text


def test_what_does_not_fit_comes_first() -> None:
    short = replace(GOOD.pair, needs=(replace(ROOM, free_bytes=5 * GB),), offers=("--ctx 4096: shorter",))
    situation = replace(with_models(replace(BIG, kv_type="q8_0"), SMALL), pair=replace(short, models=(BIG, SMALL)))

    cause = diagnose(situation)[0]

    assert (cause.label, cause.hint) == ("memory", ("--ctx 4096: shorter",))
    assert "5.6 GB of CUDA0, and 4.7 GB are free" in cause.text


def test_the_processor_does_not_matter_where_it_computes_nothing() -> None:
    hot = replace(GOOD.conditions, busy=Busy(9.0, 20.0), clock_cap=0.3, heat_events=9, throttled=0.9, quota=1.0)

    assert diagnose(replace(GOOD, conditions=hot, threads=64)) == ()


# What was measured


def test_a_quota_that_runs_out_is_measured() -> None:
    cause = only(on_cpu(quota=8.0, throttled=0.5))

    assert (cause.label, cause.factor, cause.measured) == ("quota", 2.0, True)
    assert "50% of its time slices" in cause.text


def test_a_draft_that_costs_too_much() -> None:
    cause = only(costing(draft_ns=6e6))

    assert (cause.label, cause.measured) == ("draft size", True)
    assert "0.60× the time of a token without draft" in cause.text
    assert "pairs find owner/big-GGUF" in cause.hint[1]
    spaced = replace(GOOD.pair, target_source="my models/big.gguf")
    cause = only(replace(costing(draft_ns=6e6), pair=spaced))
    assert cause.hint[1] == f"  {command(['tandem', 'pairs', 'find', 'my models/big.gguf'])}"
    # At 0.8 accepted and a draft of a tenth the best length is 5: 3.69 tokens for 1.7 plain steps; here it is 1.
    assert cause.factor == pytest.approx((3.689 / 1.7) / (1.8 / 1.64), rel=0.01)


def test_a_draft_that_is_rejected() -> None:
    cause = only(measured(accepted=200))

    assert (cause.label, cause.measured) == ("acceptance", True)
    assert "Measured acceptance is 20%" in cause.text
    assert cause.factor > 1.5
    assert diagnose(measured(accepted=2, judged=10)) == ()


def test_what_no_acceptance_would_mend_is_not_blamed_on_it() -> None:
    dear = costing(draft_ns=20e6).measured
    assert dear is not None
    assert only(measured(costs=dear.costs, accepted=200)).label == "draft size"


def test_costs_that_grew_since_the_fastest_answer_are_a_cause() -> None:
    cause = only(measured(least_ns=4e6))

    assert (cause.label, cause.factor, cause.measured) == ("slower now", 2.5, True)
    assert "10.0 ms in the last answer, and 4.0 ms in the fastest" in cause.text
    assert "tandem tune" in cause.hint[1]
    assert diagnose(measured(least_ns=0.0)) == ()


def test_batches_that_cost_as_much_as_their_tokens() -> None:
    cause = only(costing(rows={1: 10e6, 2: 20e6, 4: 40e6}, with_draft=False))

    assert cause.label == "batches"
    assert "2 tokens takes 2.00×" in cause.text
    assert "draft model" not in cause.text, "there is none"


@pytest.mark.parametrize(("wide_ns", "is_off"), [(760e6, True), (100e6, False)])
def test_dear_batches_are_no_reason_to_say_that_all_drafting_is_off(wide_ns: float, *, is_off: bool) -> None:
    # Behind the expensive ones a wide batch may be cheap enough for drafts that are nearly always right.
    rows = {1: 10e6, 2: 20e6, 4: 40e6, 64: wide_ns}
    cause = next(c for c in diagnose(costing(rows=rows, draft_ns=1e5)) if c.label == "batches")

    assert ("N-gram drafting is used where" in cause.text) is is_off
    assert "drafting stays off" not in cause.text


def test_a_draft_that_is_left_out_on_these_costs_is_said_to_be() -> None:
    rows = {1: 10e6, 2: 20e6, 4: 27e6, 8: 55e6, 16: 77e6}
    cause = only(costing(rows=rows, draft_ns=2.9e6))

    assert cause.text == (
        "Draft model off: even at 97% acceptance the speedup would be 1.07× (it needs 1.2×). A batch of 2 tokens takes "
        "2.00× the time of one, and a drafted token 0.29×."
    )


def test_a_dear_draft_on_the_processor_outweighs_the_rule() -> None:
    on_main = with_models(BIG, replace(SMALL, device="cpu", layers_offloaded=0), of=costing(draft_ns=8e6))

    first = diagnose(on_main)[0]

    assert "A drafted token takes 0.80×" in next(c for c in diagnose(on_main) if c.label == "draft").text
    assert first.factor >= 1.8


def test_the_dearest_comes_first() -> None:
    situation = replace(
        with_models(HERE, replace(SMALL, device="cpu", layers_offloaded=0), of=measured(least_ns=5e6)),
        threads=64,
        resident=0.5,
    )

    assert [cause.label for cause in diagnose(situation)] == ["target", "threads", "slower now", "file"]


@pytest.mark.parametrize(
    "profile",
    [
        CostProfile({1: 10e6, 2: 10.4e6, 4: 11e6, 8: 13e6}, draft_ns=0.5e6),
        CostProfile({1: 10e6, 2: 18e6, 3: 12e6, 8: 13e6, 64: 40e6}, draft_ns=0.5e6),
        CostProfile({1: 10e6, 2: 10.4e6, 64: 20e6}, draft_ns=0.5e6, widest=8),
    ],
)
def test_tune_and_doctor_say_the_same_of_a_pair(profile: CostProfile) -> None:
    costs = CostModel(profile)
    best = ceiling(costs, 0, MAX_DRAFT, profile.draft_ns)

    assert f"at most {best:.1f}×" in "\n".join(verdict(costs, Drafters(model=True, lookup=False)))
    assert Measured(costs).best_speed(PLAUSIBLE_ACCEPTANCE, profile.draft_ns) == best
    assert not Measured(costs).off


# Where the figures come from


def test_a_memory_gives_its_figures() -> None:
    memory = PairStatistics(CostModel(CostProfile({1: 10.0, 2: 12.0}, draft_ns=3.0), scale=2.0))
    memory.model.observe([(0.9, 0, True), (0.9, 1, False), (0.3, 0, True)])
    memory.keep_least()
    assert memory.least_ns == 0, "no single row was seen"
    memory.tells_least = True
    memory.keep_least()
    memory.costs.scale = 3.0
    memory.keep_least()

    found = of_memory(memory, with_draft=True)

    assert (found.rows, found.draft_ns, found.least_ns) == ({1: 30.0, 2: 36.0}, 9.0, 20.0)
    assert (found.accepted, found.judged) == (2, 3)
    assert found.acceptance is None
    assert of_memory(memory, with_draft=False).draft_ns == 0


def read(files: Mapping[str, str]) -> Conditions:
    return conditions(FakeSystem(files=files))


def test_the_conditions_of_a_container() -> None:
    cgroup = "/sys/fs/cgroup"
    found = read({f"{cgroup}/cpu.max": "150000 100000", f"{cgroup}/cpu.stat": "nr_periods 200\nnr_throttled 50\n"})

    assert (found.quota, found.throttled) == (1.5, 0.25)
    assert (found.clock_cap, found.heat_events) == (None, None)


def test_the_clock_and_the_heat_of_the_worst_core() -> None:
    files: dict[str, str] = {}
    for n, allowed in enumerate((3_000_000, 1_500_000)):
        cpu = f"/sys/devices/system/cpu/cpu{n}"
        files |= {f"{cpu}/cpufreq/scaling_max_freq": f"{allowed}\n", f"{cpu}/cpufreq/cpuinfo_max_freq": "3000000\n"}
        files[f"{cpu}/thermal_throttle/core_throttle_count"] = f"{n * 4}\n"

    found = read(files)

    assert (found.clock_cap, found.heat_events, found.throttled) == (0.5, 4, None)


def test_a_file_that_was_just_written_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1_000_000)

    # Not every system and file system can tell.
    assert resident_share(tmp_path / "a") in (1.0, None)
    assert resident_share(tmp_path / "none") is None
