"""Costs before the first measurement: interpolation, first answers, and text that is worth reading."""

import pytest

from app.engine.auto.backlog import Backlog
from app.engine.auto.cost_profile import expand
from app.engine.auto.curve import CostModel
from app.engine.auto.measure_costs import FirstCosts
from app.engine.events import Step
from app.engine.interfaces import AnswerStart, StepResult
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import NO_DRAFT, Draft
from tests.bench.policies import measured
from tests.recordings import curves, traces
from tests.replay import RecordedDraft

SINGLE_NS = 50_000_000


def step(ns: int, draft: Draft = NO_DRAFT, *, is_first: bool = False) -> Step:
    return Step(1, stats=GenerationStats(verify_steps=0 if is_first else 1), draft=draft, work_ns=ns)


def learned(*, batches: dict[int, int], max_batch: int = 63, draft_share: float = 0.5) -> CostModel:
    """Return the costs after a prompt whose end was read in these batches, and enough single tokens."""
    first = FirstCosts(max_batch, draft_share)
    for size, ns in batches.items():
        first.observe_probe(size, ns)
    while not first.observe(step(SINGLE_NS)):
        pass
    return CostModel(first.profile())


def test_single_tokens_without_a_draft_are_counted_and_one_slow_one_is_ignored() -> None:
    first = FirstCosts(63, 1.0)
    first.observe_probe(1, 900)
    seen = [step(9, is_first=True), step(9, Draft.of(Source.MODEL, (1,), (0.9,))), step(51)]
    assert not any(map(first.observe, seen))
    assert first.observe(step(52))
    assert first.profile().batch_ns[1] == 52


@pytest.mark.parametrize(
    ("batches", "twice", "eight", "slope"),
    [
        ({8: 3 * SINGLE_NS, 2: 2 * SINGLE_NS}, 2.0, 3.0, 2 / 7),
        ({8: SINGLE_NS // 2, 2: SINGLE_NS // 3}, 1.0, 1.0, 0.01),
        ({}, 1.25, 2.75, 0.25),
    ],
    ids=["measured", "GPU", "short prompt"],
)
def test_the_end_of_the_prompt_shows_the_cost_of_a_batch(
    batches: dict[int, int], twice: float, eight: float, slope: float
) -> None:
    costs = learned(batches=batches)
    assert costs.target_ns(2, 0) == pytest.approx(twice * SINGLE_NS)
    assert costs.target_ns(8, 0) == pytest.approx(eight * SINGLE_NS)
    assert costs.target_ns(63, 0) == pytest.approx((eight + 55 * slope) * SINGLE_NS)
    assert costs.profile.draft_prompt_ns == pytest.approx(0.5 * slope * SINGLE_NS)


@pytest.mark.parametrize(("share", "cost"), [(0.0, 0.0), (0.02, 0.1), (0.3, 0.3)])
def test_a_drafted_token_costs_what_the_size_of_its_model_says(share: float, cost: float) -> None:
    assert learned(batches={}, draft_share=share).draft_ns(0) == pytest.approx(cost * SINGLE_NS)


@pytest.mark.parametrize(("max_batch", "probes"), [(63, (8, 2, 1)), (3, (2, 1)), (1, (1,))])
def test_no_batch_is_larger_than_the_target_can_roll_back(max_batch: int, probes: tuple[int, ...]) -> None:
    first = FirstCosts(max_batch, 0.5)
    assert first.probes == probes
    assert learned(batches={}, max_batch=max_batch).profile.max_batch == max_batch
    assert max(learned(batches={}, max_batch=max_batch).profile.batch_ns) == max_batch


def test_costs_between_measured_sizes_are_interpolated() -> None:
    costs = expand({1: 22.0, 2: 36.0, 3: 53.0, 4: 34.0, 8: 63.0}, 12)

    assert [costs[n] for n in (1, 2, 3, 4, 8)] == [22, 36, 53, 34, 63]
    assert costs[6] == pytest.approx((34 + 63) / 2)
    assert costs[12] == pytest.approx(63 + 4 * (63 - 22) / 7)


def test_one_measured_size_is_enough() -> None:
    assert expand({1: 10.0}, 3) == [0.0, 10.0, 20.0, 30.0]


def backlog_of(n_prompt: int, *, gain: float, n_undrafted: int = 0) -> Backlog:
    """Return the backlog of a prompt; the draft model reads ten tokens in the time of a single token."""
    curve = curves()["cpu_bf16"]
    statistics = measured(curve)
    prompt = [5] * n_prompt
    statistics.gain, statistics.n_undrafted, statistics.last_prompt = gain, n_undrafted, prompt
    statistics.costs.profile.draft_prompt_ns = 0.1 * statistics.costs.target_ns(1, n_prompt)
    backlog = Backlog(statistics, RecordedDraft(traces()[0], curve.draft_ns, lambda cost: None, 1.0), lambda: 0)
    backlog.begin(AnswerStart([*prompt, 6], 256))
    return backlog


@pytest.mark.parametrize(
    ("n_prompt", "gain", "expected"), [(800, 0.9, True), (1000, 0.5, False), (20, 0.0, True), (1000, -0.2, False)]
)
def test_a_prompt_is_read_if_drafts_are_likely_to_save_more(n_prompt: int, gain: float, expected: bool) -> None:
    assert backlog_of(n_prompt, gain=gain).is_worth_reading is expected


def test_a_text_is_read_after_several_answers_about_it() -> None:
    assert backlog_of(1000, gain=0.5, n_undrafted=600).is_worth_reading


def test_tokens_generated_without_the_draft_model_become_unread_text() -> None:
    backlog = backlog_of(20, gain=0.5)
    backlog.unread = 0
    for n in range(40):
        backlog.observe(StepResult(20 + n, NO_DRAFT, (7,), 0, 10, 0), used_model=False)

    assert backlog.unread > 0
