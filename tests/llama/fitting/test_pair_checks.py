"""`tandem doctor` about a pair: its placement and memory, and each cause of a slow pair."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli.setting_flags import in_flags
from app.compare.measured_pairs import of_memory
from app.core.fixes import command
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.hardware.checks import Check
from app.hardware.cpu import Conditions
from app.hardware.devices import Device
from app.hardware.fit import PairNeeds
from app.hardware.measured import Measured
from app.llama.fitting.fit_pair import Fitting
from app.llama.fitting.pair_checks import Situation
from app.models.memory_estimate import ModelMemory
from app.settings.model_params import DRAFT_ANYWHERE, ModelParams
from app.settings.placement import CPU
from tests.llama.params import pair_params

GB = 1_000_000_000
BIG = ModelMemory("Big", 4 * GB, GB, GB // 10, GB // 20, 28, 8192)
SMALL = ModelMemory("Small", GB // 2, GB // 10, GB // 10, 0, 24, 8192)
GPU, RAM = Device("CUDA0", "gpu", "CUDA", 24 * GB), Device(CPU, "cpu", "CPU", 32 * GB)
PROFILE = CostProfile({1: 10e6, 2: 10.4e6, 4: 11e6, 8: 13e6, 16: 20e6}, draft_ns=0.5e6)
MEASURED = Measured(CostModel(PROFILE), acceptance=0.8)


def planned(*rooms: Device, measured: bool = True, draft: ModelParams = DRAFT_ANYWHERE, **asked: Any) -> Fitting:
    needs = PairNeeds(BIG, SMALL, rooms, ModelParams(**asked), draft)
    return Fitting(pair_params(Path("b"), Path("s")), needs, needs.plan(), measured)


GOOD = Situation(
    planned(GPU, RAM),
    threads=8,
    cores=8,
    source="owner/big-GGUF",
    conditions=Conditions(usable=16, others=0.6, throttled=0.0, clock_cap=1.0),
    measured=MEASURED,
)
ON_CPU = replace(GOOD, found=planned(RAM))


def placed(of: Situation = GOOD, **request: Any) -> Situation:
    return replace(of, found=planned(GPU, RAM, **request))


def costing(**changes: Any) -> Situation:
    return replace(GOOD, measured=replace(MEASURED, costs=CostModel(replace(PROFILE, **changes))))


def on_cpu(**changes: Any) -> Situation:
    return replace(ON_CPU, conditions=replace(ON_CPU.conditions, **changes))


def causes_of(situation: Situation) -> list[Check]:
    measured, *causes = situation.speed_checks()
    assert measured.label == "measured"
    return causes


def only(situation: Situation) -> Check:
    (cause,) = causes_of(situation)
    return cause


def test_models_are_listed_with_their_place_and_memory() -> None:
    target, draft, *_ = GOOD.place_checks()
    assert target.text == (
        "Big, all 29 layers on CUDA0: weights 3.7 GB, KV cache 0.9 GB (8,192 tokens, f16), buffers 0.1 GB"
    )
    assert draft.text.startswith("Small, all 25 layers on CUDA0: ")

    target, draft, *_ = placed(n_gpu_layers=20, draft=ModelParams(devices=(CPU,))).place_checks()
    assert target.text.startswith("Big, 20 of 29 layers on CUDA0, 9 on the CPU: ")
    assert draft.text.startswith("Small, all 25 layers on the CPU: ")
    assert placed(n_gpu_layers=99).target.n_offloaded == 29


def test_the_memory_of_each_device_is_listed() -> None:
    _, _, gpu, ram = GOOD.place_checks()
    assert gpu == Check("ok", "CUDA0", "5.4 GB needed (estimated by llama.cpp), 21.6 GB free for models")
    assert ram.label == "RAM"


def test_a_pair_that_does_not_fit_is_a_problem_with_offers() -> None:
    found = planned(replace(GPU, free_bytes=5 * GB), RAM, measured=False)
    _, _, gpu, _ = replace(GOOD, found=found, offers=("--ctx 4096: shorter",)).place_checks()

    assert (gpu.state, gpu.hint[1]) == ("problem", "--ctx 4096: shorter")
    assert gpu.problem == "the pair needs 5.4 GB of CUDA0 (3.9 GB free)"
    assert "estimated from the headers" in gpu.text


@pytest.mark.parametrize("situation", [GOOD, ON_CPU, replace(GOOD, measured=None)])
def test_a_good_pair_has_no_cause(situation: Situation) -> None:
    assert causes_of(situation) == []


@pytest.mark.parametrize(
    ("situation", "label", "fix"),
    [
        (placed(draft=ModelParams(devices=(CPU,))), "draft", "--draft-device CUDA0"),
        (placed(draft=ModelParams(12)), "draft", "--draft-device CUDA0"),
        (placed(n_gpu_layers=20), "layers", "--gpu-layers auto"),
        (placed(devices=(CPU,)), "target", "--device CUDA0"),
        (replace(ON_CPU, threads=12), "threads", "--threads 8"),
        (on_cpu(quota=4.0), "threads", "--threads 4"),
        (on_cpu(others=9.0), "load", "Close other programs."),
        (on_cpu(clock_cap=0.5), "clock", "power profile"),
    ],
)
def test_each_cause_alone_with_its_fix(situation: Situation, label: str, fix: str) -> None:
    cause = only(situation)

    assert (cause.label, cause.slowdown) == (label, None)
    assert fix in in_flags("\n".join(cause.hint))
    assert "Without this" not in cause.text


def test_lacking_memory_comes_first() -> None:
    short = replace(ON_CPU, found=planned(replace(RAM, free_bytes=5 * GB)), offers=("--ctx 4096: shorter",), threads=12)

    assert [cause.label for cause in causes_of(short)] == ["memory", "threads"]
    assert causes_of(short)[0].hint == ("--ctx 4096: shorter",)


def test_a_remote_target_leaves_the_draft_here() -> None:
    remote = planned(replace(GPU, name="RPC0"), RAM, draft=ModelParams(devices=(CPU,)))

    assert causes_of(replace(GOOD, found=remote)) == []


def test_the_slowdown_of_a_quota_is_measured() -> None:
    cause = only(replace(on_cpu(throttled=0.5, quota=2.0), threads=2))

    assert (cause.label, cause.slowdown) == ("quota", 2.0)
    assert cause.text.endswith("Without this, answers would be about 2.0× as fast.")


def test_a_draft_that_is_too_big() -> None:
    cause = only(costing(draft_ns=6e6))

    assert cause.label == "draft size"
    assert "0.60× the time of a token without draft" in cause.text
    # At acceptance 0.8 with a draft cost of a tenth, the best length is 5: 3.69 tokens for 1.7 steps; here it is 1.
    assert cause.slowdown == pytest.approx((3.689 / 1.7) / (1.8 / 1.64), rel=0.01)
    hint = only(replace(costing(draft_ns=6e6), source="my models/big.gguf")).hint
    assert in_flags(hint[1]) == f"  {command(['tandem', 'pairs', 'find', 'my models/big.gguf'])}"


def test_a_draft_that_is_rejected() -> None:
    cause = only(replace(GOOD, measured=replace(MEASURED, acceptance=0.2)))
    assert cause.label == "acceptance"
    assert "Measured acceptance is 20%" in cause.text
    assert cause.slowdown is not None
    assert cause.slowdown > 1.5

    assert causes_of(replace(GOOD, measured=replace(MEASURED, acceptance=None))) == []
    too_big = costing(draft_ns=20e6).measured
    assert too_big is not None
    assert only(replace(GOOD, measured=replace(too_big, acceptance=0.2))).label == "draft size"


def test_a_draft_model_that_is_off_at_these_costs() -> None:
    cause = only(costing(batch_ns={1: 10e6, 2: 20e6, 4: 27e6, 8: 55e6, 16: 77e6}, draft_ns=2.9e6))

    assert cause.label == "draft off"
    assert cause.text == "A batch of 2 tokens takes 2.00× the time of one, and a drafted token 0.29×."


def test_a_draft_on_the_cpu_has_its_measured_cost() -> None:
    assert (
        "A drafted token takes 0.80×"
        in causes_of(placed(costing(draft_ns=8e6), draft=ModelParams(devices=(CPU,))))[0].text
    )


def test_figures_come_from_pair_statistics() -> None:
    memory = PairStatistics(CostModel(CostProfile({1: 10.0, 2: 12.0}, draft_ns=3.0), scale=2.0))
    memory.model.observe([(0.9, 0, True), (0.9, 1, False), (0.3, 0, True)])

    found = of_memory(memory)

    assert (found.plain_ns, found.batch_ns(2), found.draft_ns) == (20.0, 24.0, 6.0)
    assert found.acceptance is None, "too few"
    memory.model.observe([(0.9, 0, True), (0.3, 0, False)] * 50)
    assert of_memory(memory).acceptance == pytest.approx(0.5, abs=0.02)
    assert of_memory(memory, None).draft_ns == 0
    assert replace(GOOD, measured=None).speed_checks()[0].hint == ("  ⟨tune⟩",)
