"""Plain steps that are taken only to see what one takes, where drafts win in every round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.compare.replay import plain_cost, replay
from app.engine.auto.curve import CostModel, CostProfile
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.single_token_check import SingleTokenCheck
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.interfaces import Clock, ModelDrafting, Strategy
from tests.bench.policies import automatic, memory_for
from tests.replays import curves, traces


def watched(check: SingleTokenCheck, n: int, *, rows: int = 4, n_past: int = 100, ns: float = 1.0) -> None:
    for _ in range(n):
        if rows > 1:
            check.pass_by(1.0)
        else:
            check.observe(n_past, ns, 1.0)


def test_one_is_due_after_many_rounds_without_and_soon_where_none_was_seen_on_this_day() -> None:
    check = SingleTokenCheck()
    watched(check, SingleTokenCheck.SOON - 1)
    assert not check.is_due(100)
    watched(check, 1)
    assert check.is_due(100)

    watched(check, 1, rows=1)
    watched(check, SingleTokenCheck.EVERY - 1)
    assert not check.is_due(100)
    watched(check, 1)
    assert check.is_due(100)


def test_plain_steps_that_are_taken_anyway_are_enough() -> None:
    check = SingleTokenCheck()
    for _ in range(10):
        watched(check, SingleTokenCheck.SOON - 1)
        assert not check.is_due(100)
        watched(check, 1, rows=1)


def test_behind_one_that_nobody_asked_for_the_wait_begins_anew() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.FEW)
    watched(check, 1, rows=1)
    watched(check, SingleTokenCheck.EVERY - 1)
    assert not check.is_due(100)
    watched(check, 1)
    assert check.is_due(100)


def test_one_that_is_far_off_is_seen_again_but_not_for_ever() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY)
    taken = 0
    while check.is_due(100):
        watched(check, 1, rows=1, ns=2.0)
        taken += 1
    assert taken == SingleTokenCheck.LOOKS


def test_one_that_nobody_asked_for_and_that_was_held_up_moves_hardly_anything() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.FEW)
    assert 1.0 < check.observe(100, 5.0, 1.0) < 1.02
    assert not check.is_due(100)


def test_behind_few_wide_batches_one_tells_nothing_of_its_own() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.FEW - 1)
    assert check.observe(100, 1.2, 1.0) == 1.0


def test_what_a_change_of_width_adds_is_not_the_rows_own() -> None:
    memory = PairStatistics(CostModel(CostProfile({1: 100.0, 4: 150.0}, switch_ns=9.0)))
    for rows, ns in [*[(4, 150.0)] * 200, (1, 109.0)]:
        memory.observe_batch(rows, 10, ns, switched=rows == 1)
    assert memory.costs.target_ns(1, 0) == pytest.approx(100.0, rel=0.005)


def test_what_was_seen_of_other_widths_stays_when_the_single_row_is_corrected() -> None:
    costs = CostModel(CostProfile({1: 100.0, 2: 110.0, 4: 130.0, 16: 300.0}))
    costs.observe_target(4, 0, 195.0, switched=False)
    before = [costs.target_ns(width, 0) for width in (2, 4, 16)]
    costs.correct_single_row(0.9)
    assert [costs.target_ns(width, 0) for width in (2, 4, 16)] == pytest.approx(before)
    for _ in range(3):
        costs.observe_target(4, 0, 195.0, switched=False)
    assert costs.target_ns(4, 0) > 180.0


def test_the_middle_one_of_three_counts() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY)
    factors = [check.observe(100, ns, 1.0) for ns in (9.0, 1.2, 1.3)]
    assert factors == pytest.approx([1.0, 1.0, 1.3])


def test_a_context_many_times_as_long_is_looked_at_once() -> None:
    check = SingleTokenCheck(waited=0)
    watched(check, 1, rows=1, n_past=3_000)
    assert not check.is_due(12_000)
    assert check.is_due(12_001)
    watched(check, 1, rows=1, n_past=12_001)
    assert not check.is_due(40_000)


@pytest.mark.parametrize("wrong", [0.8, 1.25])
def test_the_speed_up_that_is_told_is_the_true_one_where_every_round_drafts(wrong: float) -> None:
    curve = curves()["ada"]
    code = traces()[0]
    profile = curve.profile()
    rows = profile.rows | {1: wrong * profile.rows[1]}
    memory = PairStatistics(CostModel(replace(profile, rows=rows)))
    made: list[AutomaticDrafting] = []

    def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
        made.append(AutomaticDrafting(memory, drafter, None, clock))
        return made[-1]

    for _ in range(8):
        played = replay(code, curve, make)

    told, true = made[-1].status.speedup, plain_cost(code, curve) / played.cost
    assert told == pytest.approx(true, rel=0.03)


def test_where_costs_were_just_measured_a_short_answer_takes_none() -> None:
    curve = curves()["ada"]
    played = replay(traces()[0], curve, automatic(memory_for(curve)))
    assert len(played.rounds) < SingleTokenCheck.SOON
    assert all(len(round_.draft) for round_ in played.rounds[:-1])


def test_one_is_taken_soon_where_wide_batches_tell_of_another_machine_than_was_measured() -> None:
    check = SingleTokenCheck()
    check.pass_by(0.3)
    assert not check.is_due(100)
    check.pass_by(0.2)
    assert check.is_due(100)

    seen = SingleTokenCheck()
    watched(seen, 1, rows=1)
    seen.pass_by(0.2)
    assert not seen.is_due(100)


@pytest.mark.parametrize(("curve", "least"), [("m1_ultra", 0.7), ("cpu_bf16", 0.85)])
def test_costs_measured_while_all_waited_for_a_disk_do_not_decide_a_whole_answer(curve: str, least: float) -> None:
    machine = curves()[curve]
    profile = machine.profile()
    held_up = replace(profile, rows=dict.fromkeys(profile.rows, 25 * profile.rows[1]))
    for trace in traces():
        memory = PairStatistics(CostModel(replace(held_up, rows=dict(held_up.rows))))
        assert plain_cost(trace, machine) / replay(trace, machine, automatic(memory)).cost > least
        assert memory.was_held_up
