"""Medians, ranges, and verdicts that say no more than the runs allow."""

import math
import random
from dataclasses import replace

import pytest

from app.compare.measure import Outcome, SideFigures, Spread, measure, spread
from tests.compare.runs import made


def with_ratios(*ratios: float) -> SideFigures:
    return replace(measure([], "automatic", "plain"), ratio=spread(ratios))


def noisy(rng: random.Random, n: int, ratio: float = 1.0, sd: float = 0.05) -> SideFigures:
    return with_ratios(*(ratio * math.exp(rng.gauss(0, sd)) for _ in range(n)))


def test_the_drafts_prefill_counts_against_it() -> None:
    rounds = [{"plain": made("plain", 1000), "draft": made("draft", 500, draft_prompt_ns=500)}]

    assert measure([rounds], "draft", "plain").ratio == Spread(1.0, 1.0, 1.0, 1)


def test_ratios_are_taken_within_a_round_so_that_drift_cancels() -> None:
    drift = (1.0, 1.5, 3.0)
    rounds = [{"plain": made("plain", round(1000 * d)), "draft": made("draft", round(500 * d))} for d in drift]

    m = measure([rounds], "draft", "plain")
    assert m.ratio is not None
    assert (m.ratio.median, m.ratio.low, m.ratio.high) == (2.0, 2.0, 2.0)
    assert m.tokens_per_second is not None
    assert m.tokens_per_second.high > m.tokens_per_second.low


def test_prompts_weigh_by_equal_tokens() -> None:
    slow = [{"plain": made("plain", 3000), "draft": made("draft", 1000)}]
    fast = [{"plain": made("plain", 1000), "draft": made("draft", 1000)}]
    one_token = [{"plain": made("plain", 0, n=1), "draft": made("draft", 900)}]

    assert measure([slow, fast, one_token], "draft", "plain").ratio == Spread(2.0, 2.0, 2.0, 1)


def test_acceptance_is_over_all_rounds() -> None:
    counts = ((10, 10), (30, 10))
    rounds = [{"draft": made("draft", 900, drafted=drafted, accepted=accepted)} for drafted, accepted in counts]
    m = measure([rounds], "draft", "draft")

    assert (m.acceptance, m.tokens_per_verify, m.ratio) == (0.5, 2.0, None)


@pytest.mark.parametrize(
    ("ratios", "outcome", "verdict"),
    [
        ((2.0, 2.1, 2.2), "faster", "2.1× faster (3 runs each, alternating: 2.0 to 2.2)"),
        ((0.5, 0.52), "slower", "slower, 0.5× the speed (2 runs each, alternating: 0.50 to 0.52)"),
        ((1.02,), "unclear", "no speedup, too few runs to tell (1 run each; more: --repeat 3)"),
        ((3.1,), "unclear", "3.1× faster, too few runs to tell (1 run each; more: --repeat 3)"),
        (
            (1.0, 1.05, 1.1),
            "unclear",
            "1.1× faster, too few runs to tell (3 runs each, alternating: 1.00 to 1.10; more: --repeat 10)",
        ),
        (
            (0.81, 0.9, 0.99),
            "unclear",
            "slower, 0.9× the speed, too few runs to tell (3 runs each, alternating: 0.81 to 0.99; more: --repeat 10)",
        ),
        (
            (0.81, 0.88, 0.9, 0.9, 0.92, 0.99),
            "slower",
            "slower, 0.9× the speed (6 runs each, alternating: 0.81 to 0.99)",
        ),
        ((0.99, 1.0, 1.01), "tie", "no speedup (3 runs each, alternating: 0.99 to 1.01)"),
        ((), "unknown", "not measured: the answers are too short"),
    ],
)
def test_the_verdict_shows_no_more_than_the_runs_allow(
    ratios: tuple[float, ...], outcome: Outcome, verdict: str
) -> None:
    m = with_ratios(*ratios)
    assert (m.outcome, m.verdict("--repeat {}")) == (outcome, verdict)


@pytest.mark.parametrize("ns", [670, 1500])
def test_without_drafts_there_is_no_speedup_at_any_speed(ns: int) -> None:
    m = measure([[{"plain": made("plain", 1000), "automatic": made("automatic", ns)}]], "automatic", "plain")

    assert m.as_json()["verdict"] == "same"
    assert m.verdict() == "no speedup: nothing was drafted, any difference is chance (1 run each)"
    assert m.ratio_text() == "no draft"


@pytest.mark.parametrize(
    "side",
    [
        made("side", 1500, drafted=1),
        made("side", 1000, draft_prompt_ns=500),
    ],
    ids=["drafted", "read a prompt"],
)
def test_drafting_and_reading_are_work_of_a_side(side: object) -> None:
    assert measure([[{"plain": made("plain", 1000), "side": side}] * 2], "side", "plain").outcome == "slower"  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ((3.0, 3.1, 3.2), "3.1× (3.0 to 3.2)"),
        ((0.995, 1.0, 1.004), "1.00× (0.99 to 1.00), a tie"),
        ((1.02,), "1.02×?"),
        ((0.81, 0.9, 0.99), "0.90×? (0.81 to 0.99)"),
    ],
)
def test_a_table_shows_ties_and_unclear_ratios(ratios: tuple[float, ...], text: str) -> None:
    assert with_ratios(*ratios).ratio_text() == text


@pytest.mark.parametrize(("n_runs", "sd"), [(2, 0.05), (3, 0.1), (5, 0.05), (6, 0.05), (12, 0.05), (30, 0.1)])
def test_equal_sides_are_seldom_called_different(n_runs: int, sd: float) -> None:
    rng = random.Random(1)
    outcomes = [noisy(rng, n_runs, sd=sd).outcome for _ in range(1000)]

    assert sum(one in ("faster", "slower") for one in outcomes) < 0.06 * len(outcomes)


def test_each_advised_number_of_runs_shows_more() -> None:
    rng = random.Random(1)
    shares = []
    for n_runs in (3, 10, 30, 100):
        outcomes = [noisy(rng, n_runs, 1.05, 0.04).outcome for _ in range(200)]
        shares.append(outcomes.count("faster") / len(outcomes))

    assert shares == sorted(shares)
    assert shares[1] > 0.6
    assert shares[2] > 0.95


def test_a_few_stalled_runs_hide_nothing_among_many() -> None:
    rng = random.Random(1)
    ratios = [1.05 * math.exp(rng.gauss(0, 0.01)) for _ in range(30)]

    assert with_ratios(*ratios[2:], 0.2, 5.0).outcome == "faster"
