"""Learned statistics of a pair, and when the costs are measured again."""

from typing import ClassVar

import pytest

from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from tests.engine.generating import begun
from tests.fakes import FakeModel, always

LINEAR = {n: n * 1000.0 for n in (1, 2, 4, 8, 16, 62)}
CONTEXT = {1: 2.0, 8: 3.0, 62: 4.0}
CHEAP_BATCHES = {1: 1000.0, 2: 1100.0, 4: 1200.0, 8: 1500.0}


def statistics_of(batch_ns: dict[int, float]) -> PairStatistics:
    return PairStatistics(CostModel(CostProfile(dict(batch_ns), draft_ns=100.0, context_ns=CONTEXT)))


@pytest.mark.parametrize("is_estimated", [True, False])
def test_another_measurement_replaces_the_costs_and_keeps_the_acceptance(is_estimated: bool) -> None:
    known = statistics_of(LINEAR)
    known.is_estimated, known.gain, acceptance = is_estimated, 0.3, known.model
    known.costs.scale = 2.0
    # The context is relative to a single token, which takes 2,000 ns now.
    known.remeasure(CostProfile({1: 500.0, 2: 550.0}))

    assert (known.costs.profile.batch_ns, known.costs.scale) == ({1: 500.0, 2: 550.0}, 1.0)
    assert known.costs.profile.context_ns == {1: 1.0, 8: 1.5, 62: 2.0}
    assert (known.gain, known.model, known.is_estimated) == (0.3, acceptance, False)
    known.remeasure(CostProfile({1: 500.0}, context_ns={1: 7.0, 8: 8.0, 62: 9.0}))
    assert known.costs.profile.context_ns[1] == 7.0


class TestSlowedMeasurement:
    """Another program slowed down the measurement: three seconds per token, and meaningless ratios."""

    SLOWED: ClassVar = {1: 3e9, 2: 8e9, 4: 3e9, 8: 30e9}

    def slow(self) -> PairStatistics:
        known = statistics_of(self.SLOWED)
        assert not known.why_remeasure
        known.costs.scale = 0.01
        return known

    def test_is_repeated_once_the_machine_is_faster(self) -> None:
        assert self.slow().why_remeasure

    def test_is_not_repeated_forever(self) -> None:
        known = self.slow()
        for _ in range(PairStatistics.MOST_REMEASURED):
            assert known.why_remeasure
            known.remeasure(CostProfile(dict(self.SLOWED)))
            known.costs.scale = 0.01

        assert not known.why_remeasure

    def test_only_single_tokens_show_a_changed_speed(self) -> None:
        known = statistics_of({1: 3e9, 2: 30e9})
        known.costs.scale = 0.4

        assert known.why_remeasure

    def test_a_change_of_clock_speed_is_not_a_slowed_measurement(self) -> None:
        known = statistics_of(LINEAR)
        for scale in (0.6, 1.0, 5.0):
            known.costs.scale = scale
            assert not known.why_remeasure


def begin_answer(known: PairStatistics, length: int = 3) -> None:
    drafter = ModelDrafter(TokenCache(FakeModel(always(3), n_ctx=4096, n_batch=4096)), 64, lambda token: False)
    begun(AutomaticDrafting(known, [drafter], lambda: 0), [1] * length)


def test_rechecks_of_impossible_drafting_become_rarer() -> None:
    known = statistics_of(LINEAR)
    checked = []
    for number in range(1, 90):
        # A long conversation, which would have to be read again, delays the check.
        if known.why_remeasure and number not in (2, 17):
            checked.append(number)
            known.remeasure(known.costs.profile)
        begin_answer(known)

    assert checked == [3, 5, 18, 65]


@pytest.mark.parametrize(("gain", "n_rechecks"), [(0.2, 0), (0.0, 1), (None, 1)])
def test_possible_drafting_ends_the_rechecks_and_a_gain_resets_their_count(gain: float | None, n_rechecks: int) -> None:
    known = statistics_of(CHEAP_BATCHES)
    known.idle_answers, known.n_rechecks, known.gain = 3, 1, gain

    begin_answer(known)

    assert (known.idle_answers, known.n_rechecks, known.why_remeasure) == (0, n_rechecks, None)


def test_answers_with_a_long_context_can_be_idle_too() -> None:
    profile = CostProfile(
        {1: 10.0, 2: 11.0, 4: 13.0, 8: 17.0, 62: 73.0}, draft_ns=1.0, context_ns={1: 0.0, 8: 0.1, 64: 0.8}
    )
    known = PairStatistics(CostModel(profile))
    for length, idle in ((3, 0), (3000, 1)):
        begin_answer(known, length)
        assert known.idle_answers == idle


def test_the_shortest_time_counts_only_steps_over_a_short_context() -> None:
    profile = CostProfile({1: 10.0, 2: 11.0}, context_ns={1: 0.01, 8: 0.01, 62: 0.01})
    known = PairStatistics(CostModel(profile))
    known.observe_batch(1, 10_000, 60.0)
    known.keep_least()
    assert known.least_ns == 0
    known.observe_batch(1, 10, 10.0)
    known.keep_least()
    assert known.least_ns == pytest.approx(known.costs.target_ns(1, 0))
    known.begin_answer(idle=False)
    known.costs.scale = 0.1
    known.keep_least()
    assert known.least_ns > 2.0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"idle_answers": 1}, "drafting did not pay before"),
        ({"idle_answers": 2, "n_rechecks": 1}, None),
        ({"idle_answers": 5, "n_rechecks": 1}, "drafting did not pay before"),
        ({"measured_ns": 3000.0}, "other programs were busy the first time"),
    ],
)
def test_another_measurement_has_a_reason(changes: dict[str, float], why: str | None) -> None:
    known = statistics_of(LINEAR)
    for name, value in changes.items():
        setattr(known, name, value)
    assert known.why_remeasure == why
