"""What is known about a pair, and when it is doubted."""

from __future__ import annotations

from typing import ClassVar

import pytest

from app.conversations.message import Message, Role
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics, SingleTokenCheck
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.interfaces import AnswerStart
from app.engine.types import AutoDraft, SamplingParams
from app.worker.events import Measuring
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, always
from tests.pairs import FakePair

HOPELESS = {n: n * 1000.0 for n in (1, 2, 4, 8, 16, 64)}
CONTEXT = {1: 2.0, 8: 3.0, 64: 4.0}
GOOD = {1: 1000.0, 2: 1100.0, 4: 1200.0, 8: 1500.0}


def memory(rows: dict[int, float]) -> PairStatistics:
    return PairStatistics(CostModel(CostProfile(dict(rows), draft_ns=100.0, context_ns=CONTEXT)))


def test_a_second_measurement_counts_where_it_is_lower() -> None:
    known = memory(HOPELESS)

    # The machine is twice as fast just now; what counts is a width in terms of a single row.
    known.remeasure(CostProfile({1: 500.0, 2: 550.0, 4: 4500.0}, draft_ns=35.0))

    assert known.costs.profile.batch_ns == {**HOPELESS, 2: 1100.0}
    assert known.costs.profile.draft_ns == 70.0


def test_a_second_measurement_is_held_against_what_the_first_became() -> None:
    known = memory(HOPELESS)
    known.costs.scale = 2.0

    known.remeasure(CostProfile({1: 2000.0, 2: 3000.0, 4: 9000.0}, draft_ns=500.0))

    assert known.costs.scale == 1.0
    assert [known.costs.profile.batch_ns[n] for n in (1, 2, 4)] == [2000.0, 3000.0, 8000.0]
    assert (known.costs.profile.draft_ns, known.costs.profile.context_ns[8]) == (200.0, 6.0)


def test_a_second_measurement_of_the_context_counts_in_terms_of_a_single_row() -> None:
    known = memory(HOPELESS)

    known.remeasure(CostProfile({1: 500.0, 2: 900.0}, context_ns={1: 1.0, 8: 5.0, 64: 9.0}))

    assert known.costs.profile.context_ns == {1: 2.0, 8: 10.0, 64: 18.0}


def test_other_costs_keep_what_was_learned_besides() -> None:
    known = memory(HOPELESS)
    known.model.observe([(0.9, 0, False)])
    again = known.with_costs(CostModel(CostProfile({1: 500.0, 2: 550.0})))
    with_context = known.with_costs(CostModel(CostProfile({1: 500.0}, context_ns={1: 7.0, 8: 8.0, 64: 9.0})))

    assert again.model is known.model
    assert again.costs.profile.context_ns == {1: 1.0, 8: 1.5, 64: 2.0}
    assert with_context.costs.profile.context_ns[1] == 7.0


class TestAMeasurementThatWasHeldUp:
    """Three seconds a row, because another program had the machine, and ratios of nothing."""

    ODD: ClassVar = {1: 3e9, 2: 8e9, 4: 3e9, 8: 30e9}

    def slow(self) -> PairStatistics:
        known = memory(self.ODD)
        assert not known.wants_recalibration
        known.costs.scale = 0.01
        return known

    def test_is_repeated_once_the_machine_turns_out_to_be_faster(self) -> None:
        assert self.slow().wants_recalibration

    def test_is_forgotten_also_where_it_was_lower(self) -> None:
        known = self.slow()
        known.model.observe([(0.9, 0, False)])
        learned = known.model.counts

        known.remeasure(CostProfile({1: 40e6, 2: 70e6, 4: 120e6, 8: 300e6}))

        assert known.costs.profile.batch_ns == {1: 40e6, 2: 70e6, 4: 120e6, 8: 300e6}
        assert known.model.counts is learned
        assert known.measured_ns == 40e6
        assert not known.wants_recalibration

    def test_is_not_repeated_for_ever(self) -> None:
        known = self.slow()
        for _ in range(PairStatistics.MOST_RECALIBRATED):
            assert known.wants_recalibration
            known.remeasure(CostProfile(dict(self.ODD)))
            known.costs.scale = 0.01

        assert not known.wants_recalibration

    def test_it_is_told_by_a_plain_step_and_no_other(self) -> None:
        known = memory({1: 3e9, 2: 30e9})
        known.costs.scale = 0.4

        assert known.wants_recalibration

    def test_a_machine_that_only_changes_its_clock_is_not_measured_anew(self) -> None:
        known = memory(HOPELESS)
        for scale in (0.6, 1.0, 5.0):
            known.costs.scale = scale
            assert not known.wants_recalibration


def begin_answer(known: PairStatistics, pair: FakePair) -> None:
    for _ in AutomaticDrafting(known, pair.drafter, None, lambda: 0).begin(AnswerStart([1, 2, 3], 10), lambda: False):
        pass


def new_pair(known: PairStatistics | None = None) -> FakePair:
    target, draft = (FakeModel(always(3), n_ctx=4096, n_batch=4096) for _ in range(2))
    pair = FakePair(target, draft)
    pair.memory = known
    return pair


def measures(pair: FakePair) -> bool:
    """Whether an automatic answer begins with a measurement."""
    request = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(), AutoDraft(lookup=False), max_tokens=2)
    return any(isinstance(event, Measuring) for event in answer(pair, 0, request))


def test_a_verdict_that_drafting_cannot_pay_is_checked_more_and_more_seldom() -> None:
    known, pair = memory(HOPELESS), new_pair()
    checked = []
    for number in range(1, 90):
        # A conversation that would have to be read again puts it off.
        if known.wants_recalibration and number not in (2, 17):
            checked.append(number)
            known.remeasure(known.costs.profile)
        begin_answer(known, pair)

    assert checked == [3, 5, 18, 65]


@pytest.mark.parametrize(("gain", "looks"), [(0.2, 0), (0.0, 1), (None, 1)])
def test_where_drafting_can_pay_nothing_is_checked_but_only_drafts_that_did_clear_what_was(
    gain: float | None, looks: int
) -> None:
    """On the border of what can pay one look says yes and the answer behind it no."""
    known, pair = memory(GOOD), new_pair()
    known.idle_answers, known.n_rechecks, known.gain = 3, 1, gain

    begin_answer(known, pair)

    assert (known.idle_answers, known.n_rechecks, known.wants_recalibration) == (0, looks, False)


def test_what_cannot_pay_behind_a_long_context_is_checked_too() -> None:
    profile = CostProfile(
        {1: 10.0, 2: 11.0, 4: 13.0, 8: 17.0, 64: 73.0}, draft_ns=1.0, context_ns={1: 0.0, 8: 0.1, 64: 0.8}
    )
    known, pair = PairStatistics(CostModel(profile)), new_pair()
    for length, idle in ((3, 0), (3000, 1)):
        start = AnswerStart([1] * length, 10)
        for _ in AutomaticDrafting(known, pair.drafter, None, lambda: 0).begin(start, lambda: False):
            pass
        assert known.idle_answers == idle


def test_the_least_is_taken_only_from_rows_that_tell_it() -> None:
    profile = CostProfile({1: 10.0, 2: 11.0}, context_ns={1: 0.01, 8: 0.01, 64: 0.01})
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


def test_a_row_that_nobody_asked_for_tells_of_the_machines_speed() -> None:
    known = memory(GOOD)
    known.observe_batch(1, 10, 1.08 * known.costs.target_ns(1, 10))

    assert known.costs.scale > 1.0


@pytest.mark.parametrize(("idle", "looks", "expected"), [(0, 0, False), (1, 0, True), (2, 1, False), (5, 1, True)])
def test_an_answer_begins_with_the_check_that_is_due(idle: int, looks: int, expected: bool) -> None:
    known = memory(HOPELESS)
    known.idle_answers, known.n_rechecks = idle, looks

    assert measures(new_pair(known)) is expected


def test_a_check_is_told_apart_from_the_first_measurement() -> None:
    known = memory(HOPELESS)
    known.idle_answers = 1
    request = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(), AutoDraft(lookup=False), max_tokens=2)

    for pair, words in (
        (new_pair(), "measuring this pair"),
        (new_pair(known), "measuring this pair once more"),
    ):
        told = {e.what for e in answer(pair, 0, request) if isinstance(e, Measuring)}
        assert told == {words}


def test_a_long_conversation_is_not_read_again_for_a_check() -> None:
    known = memory(HOPELESS)
    known.idle_answers = 1
    pair = new_pair(known)
    pair.target.evaluate([1] * 2000, 1)

    assert not measures(pair)


def test_losses_on_one_text_do_not_keep_the_draft_model_from_the_next() -> None:
    known, pair = memory(GOOD), new_pair()
    known.gain = -0.1
    strategy = AutomaticDrafting(known, pair.drafter, None, lambda: 0)

    for _ in strategy.begin(AnswerStart([1, 2, 3], 10), lambda: False):
        pass
    strategy.propose([1, 2, 3], 8)

    assert strategy.status.source == "model"


class TestWhatDraftsMaySave:
    def test_before_any_did_the_costs_say_what_usual_ones_would(self) -> None:
        def saved(right: float, n: int, rows_ns: float) -> float:
            return 1 - (rows_ns + n * 100.0) / 1000.0 / sum(right**i for i in range(n + 1))

        # Two tokens in hard texts, four and more in others: the line goes on beyond eight rows.
        hard, usual, easy = (
            max(saved(right, n, ns) for n, ns in enumerate((1100, 1150, 1200, 1275, 1350, 1425, 1500), start=1))
            for right in (0.6, 0.75, 0.9)
        )
        assert memory(GOOD).likely_gain == pytest.approx((hard + usual + easy) / 3, abs=0.02)
        assert memory(HOPELESS).likely_gain == 0

    def test_rounds_say_it_better(self) -> None:
        known = memory(GOOD)
        expected = known.likely_gain

        known.observe_gain(-0.1, 0.5)

        assert known.likely_gain == known.gain == pytest.approx((expected - 0.1) / 2)


def steps_until_due(check: SingleTokenCheck) -> int:
    for n in range(1000):
        if check.is_due:
            return n
        check.waited += 1
    raise AssertionError("never due")


def test_the_first_check_comes_soon_and_later_ones_rarely() -> None:
    check = SingleTokenCheck()

    assert steps_until_due(check) == SingleTokenCheck.SOON
    assert check.observe(1.0, 1.0) == 1.0
    assert steps_until_due(check) == SingleTokenCheck.EVERY


def test_half_of_a_surprise_corrects_the_cost() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY)

    assert check.observe(4.0, 1.0) == pytest.approx(2.0)


def test_a_single_token_that_was_not_a_check_corrects_nothing_but_postpones_the_next() -> None:
    check = SingleTokenCheck(waited=SingleTokenCheck.EVERY - 1)

    assert check.observe(4.0, 1.0) == 1.0
    assert steps_until_due(check) == SingleTokenCheck.EVERY


def test_a_check_moves_the_single_token_and_no_other_batch() -> None:
    statistics = PairStatistics(CostModel(CostProfile({1: 100.0, 4: 150.0})))
    statistics.single_token_check.waited = SingleTokenCheck.EVERY
    statistics.observe_batch(1, 0, 144.0)

    assert statistics.costs.target_ns(1, 0) == pytest.approx(120.0)
    assert statistics.costs.target_ns(4, 0) == pytest.approx(150.0)


def test_over_a_long_context_a_check_corrects_nothing() -> None:
    statistics = PairStatistics(CostModel(CostProfile({1: 100.0, 4: 150.0}, context_ns={1: 1.0, 8: 8.0, 64: 64.0})))
    statistics.single_token_check.waited = SingleTokenCheck.EVERY
    before = statistics.costs.profile.batch_ns[1]
    statistics.observe_batch(1, 1000, 1100.0)

    assert statistics.costs.profile.batch_ns[1] == pytest.approx(before, rel=0.05)
