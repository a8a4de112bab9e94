"""Measuring costs on a fake that takes a known time."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest

from app.core.errors import Interrupted
from app.engine.auto.calibrate import QUICK_ORDER, calibrate
from app.engine.auto.cost_profile import CostProfile
from app.engine.cache import TokenCache
from tests.fakes import FakeModel, always


class TimedModel(FakeModel):
    """A model whose batches take their rows' cost, more after a change of width, and much more when disturbed."""

    now = 0

    def __init__(
        self, costs: dict[int, int], switch: int = 0, disturbed: Sequence[int] = (), per_cell: float = 0.0
    ) -> None:
        super().__init__(always(3), n_ctx=4096, n_batch=64)
        self._per_cell = per_cell
        self._costs = costs
        self._switch = switch
        self._disturbed = disturbed
        self._last = 0

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        super().decode(tokens, n_outputs)
        width = len(tokens)
        TimedModel.now += self._costs.get(width, 10 * width) + (self._switch if width != self._last else 0)
        TimedModel.now += round(self._per_cell * (self.n_past - width) * (1 + 0.1 * width))
        TimedModel.now += 10_000 if len(self.batches) in self._disturbed else 0
        self._last = width


def finish(work: Generator[float, None, CostProfile]) -> tuple[CostProfile, list[float]]:
    shares = []
    while True:
        try:
            shares.append(next(work))
        except StopIteration as done:
            return done.value, shares


def measure(target: TimedModel, draft: TimedModel | None = None, **options: int) -> tuple[CostProfile, list[float]]:
    TimedModel.now = 0
    cache = TokenCache(target)
    budget_ns = options.pop("budget_ns", 10**12)
    work = calibrate(
        cache,
        TokenCache(draft) if draft else None,
        range(1, 65),
        lambda: TimedModel.now,
        budget_ns=budget_ns,
        passes=options.pop("passes", 1),
    )
    result = finish(work)
    assert target.cells == []
    assert not draft or draft.cells == []
    return result


def test_every_width_is_measured_without_the_change_of_width() -> None:
    profile, shares = measure(TimedModel({3: 53, 4: 34}, switch=7), TimedModel({1: 8}))

    assert profile.batch_ns == {width: {3: 53, 4: 34}.get(width, 10 * width) for width in QUICK_ORDER}
    assert profile.draft_ns == 8
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_small_budget_leaves_the_ends_of_likely_steps() -> None:
    profile, _ = measure(TimedModel({4: 15, 8: 25}), budget_ns=1)

    assert profile.batch_ns == {1: 10, 2: 20, 4: 15, 8: 25}


def test_weights_that_are_read_from_the_disk_first_do_not_use_up_the_time() -> None:
    # The first batches of a model touch weights that no one has read yet.
    profile, _ = measure(TimedModel({}, disturbed=[1, 2]), budget_ns=9_000)

    assert sorted(profile.batch_ns) == sorted(QUICK_ORDER)


def test_costs_are_told_in_single_rows_of_the_same_moment() -> None:
    class Drifting(TimedModel):
        """Slower with every batch, for everybody alike."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += round((TimedModel.now - before) * 0.02 * len(self.batches))

    profile, _ = measure(Drifting({n: 1000 * n for n in QUICK_ORDER}))

    assert {width: ns / profile.batch_ns[1] for width, ns in profile.batch_ns.items()} == pytest.approx(
        {width: width for width in QUICK_ORDER}, rel=0.04
    )


def test_what_disturbs_a_measurement_does_not_count() -> None:
    profile, _ = measure(TimedModel({}, disturbed=[5, 8, 12]))

    assert profile.batch_ns == {width: 10 * width for width in QUICK_ORDER}


def test_two_looks_that_do_not_agree_leave_it_to_a_third() -> None:
    # Batches: two to warm up, two single rows; then for each look two single rows and two of the width.
    dear, _ = measure(TimedModel({}, disturbed=[7, 8]))
    cheap, _ = measure(TimedModel({2: 19}, disturbed=[5, 6]))

    assert (dear.batch_ns[2], cheap.batch_ns[2]) == (20, 19)


def test_what_takes_long_is_looked_at_less_often() -> None:
    quick, slow = TimedModel({}), TimedModel({})
    measure(quick, budget_ns=10_000)
    measure(slow, budget_ns=100)

    assert sorted({len(batch) for batch in slow.batches}) == [1, 2, 4, 8]
    assert sum(len(batch) == 8 for batch in slow.batches) == 1
    assert sum(len(batch) == 8 for batch in quick.batches) == 4


SLOW = {1: 2000, 2: 2200, 4: 2600, 8: 3600, 16: 5600, 32: 9600, 64: 18_000}
"""A target of two seconds a token, in milliseconds; its draft model takes 20."""


def test_a_slow_target_runs_every_batch_once() -> None:
    target, draft = TimedModel(SLOW), TimedModel({1: 20, 64: 84})
    profile, _ = measure(target, draft, budget_ns=4000)

    # Two rows tell that the weights are in memory.
    assert [len(batch) for batch in target.batches] == [1, 1, 2, 4, 8]
    assert profile.batch_ns == {width: SLOW[width] for width in (1, 2, 4, 8)}
    assert (profile.draft_ns, profile.draft_prompt_ns) == pytest.approx((20, 84 / 64))


@pytest.mark.parametrize("begins", range(700, 3500, 100))
def test_a_row_that_was_held_up_is_not_what_all_widths_are_told_in(begins: int) -> None:
    class HeldUp(TimedModel):
        """For a while all takes half as long again, and single rows more than those of a slow target."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += (TimedModel.now - before) // 2 if begins <= before < begins + 700 else 0

    profile, _ = measure(HeldUp({n: 150 + 10 * (n - 1) for n in range(1, 65)}), budget_ns=4000)

    shares = {
        width: profile.batch_ns[width] / profile.batch_ns[1] / (1 + (width - 1) / 15) for width in profile.batch_ns
    }
    # What is looked at just when that begins or ends is told in the other speed.
    assert sum(abs(share - 1) > 0.2 for share in shares.values()) <= 2, shares


def test_a_draft_model_that_reads_slowly_reads_once() -> None:
    draft = TimedModel({1: 100, 64: 3200})
    measure(TimedModel(SLOW), draft, budget_ns=4000)

    assert sum(len(batch) == 64 for batch in draft.batches) == 1


@pytest.mark.parametrize("row_ns", [50, 400])
def test_what_does_not_fit_into_the_time_that_is_left_is_not_begun(row_ns: int) -> None:
    costs = {n: row_ns + 10 * n for n in range(1, 65)}
    target = TimedModel(costs)
    profile, _ = measure(target, budget_ns=4000)

    assert {1, 2, 4, 8, 16} <= profile.batch_ns.keys()
    warming = sum(costs[len(batch)] for batch in target.batches[:2])
    # Where eight rows take hardly longer than an expensive one, that is timed once more in the end.
    again = costs[1] if row_ns == 400 else 0
    assert TimedModel.now - warming - again <= 4000


def test_two_rows_tell_that_a_single_one_was_held_up() -> None:
    profile, _ = measure(TimedModel(SLOW, disturbed=[1, 2]), budget_ns=4000)

    assert profile.batch_ns == {width: SLOW[width] for width in (1, 2, 4, 8)}


@pytest.mark.parametrize("budget_ns", [40_000, 33_000])
def test_the_wide_end_is_measured_even_where_rows_are_dear(budget_ns: int) -> None:
    # A 4-bit target of 1.5B on two cores, in tenths of a millisecond: one row takes 34 ms.
    costs = {1: 340, 2: 640, 3: 900, 4: 1120, 6: 1560, 8: 2470, 16: 2880, 32: 4250, 63: 6000}
    profile, _ = measure(TimedModel(costs), TimedModel({1: 200, 64: 3000}), budget_ns=budget_ns)

    assert {width: profile.batch_ns.get(width) for width in (2, 4, 8, 16, 32)} == {
        w: costs[w] for w in (2, 4, 8, 16, 32)
    }


@pytest.mark.parametrize(("two", "told"), [(640, True), (500, False)], ids=["expensive", "cheap"])
def test_where_a_second_row_is_dear_three_are_measured_before_many(two: int, told: bool) -> None:
    costs = {1: 340, 2: two, 3: 900, 4: 820, 8: 1560, 16: 2300, 32: 4450, 63: 9000}
    profile, _ = measure(TimedModel(costs), budget_ns=15_000)

    assert {1, 2, 4, 8} < profile.batch_ns.keys()
    assert (profile.batch_ns.get(3) == 900) is told


def test_no_batch_costs_less_than_one_row() -> None:
    profile, _ = measure(TimedModel({4: 8}))

    assert profile.batch_ns[4] == profile.batch_ns[1]


def test_a_stop_leaves_no_half_curve() -> None:
    work = calibrate(TokenCache(TimedModel({})), None, range(1, 65), lambda: 0, budget_ns=10**9, cancelled=lambda: True)

    with pytest.raises(Interrupted):
        finish(work)


@pytest.mark.parametrize("n_batches", range(0, 120, 7))
def test_a_stop_waits_for_one_batch_and_no_more(n_batches: int) -> None:
    target, draft = TimedModel({}, per_cell=1.0), TimedModel({})
    caches = TokenCache(target), TokenCache(draft)

    def stopped() -> bool:
        return len(target.batches) + len(draft.batches) >= n_batches

    with pytest.raises(Interrupted):
        finish(calibrate(*caches, range(1, 65), lambda: TimedModel.now, budget_ns=10**12, cancelled=stopped))
    assert len(target.batches) + len(draft.batches) == n_batches


def test_a_pair_without_a_draft_has_no_cost_of_drafting() -> None:
    assert measure(TimedModel({}))[0].draft_ns == 0.0


def test_what_a_long_context_costs_is_measured_where_there_is_time() -> None:
    profile, _ = measure(TimedModel({}, per_cell=1.0))

    assert profile.context_ns == pytest.approx({1: 1.1, 8: 1.8, 64: 7.4}, rel=0.05)


class Busy(TimedModel):
    """Half as fast for so many batches from the first single row behind a long context on; then as before."""

    def __init__(self, costs: dict[int, int], n_slow: int) -> None:
        super().__init__(costs, per_cell=1.0)
        self._slow = iter(range(n_slow))
        self._is_long = False

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        before = TimedModel.now
        super().decode(tokens, n_outputs)
        self._is_long = self._is_long or (len(tokens) == 1 and self.n_past > 65)
        if self._is_long and next(self._slow, None) is not None:
            TimedModel.now += TimedModel.now - before


@pytest.mark.parametrize(("n_slow", "told"), [(0, True), (3, False), (10_000, False)])
def test_a_machine_that_got_busy_meanwhile_does_not_tell_what_a_long_context_costs(n_slow: int, told: bool) -> None:
    profile, _ = measure(Busy({n: 10_000 * n for n in range(1, 65)}, n_slow))

    assert profile.context_ns == (pytest.approx({1: 1.1, 8: 1.8, 64: 7.4}, rel=0.05) if told else {})


def test_of_several_passes_none_but_the_first_comes_before_the_context() -> None:
    model = TimedModel({}, per_cell=1.0)
    profile, _ = measure(model, passes=3, budget_ns=20_000)

    assert profile.context_ns


def test_the_draft_models_reading_speed_is_measured() -> None:
    assert measure(TimedModel({}), TimedModel({64: 128}))[0].draft_prompt_ns == 2.0


def test_a_draft_model_that_reads_fast_is_timed_with_longer_prompts() -> None:
    draft = TimedModel({n: 50 + n // 32 for n in range(1, 513)})
    draft.n_batch = 512
    profile, _ = measure(TimedModel({}), draft, budget_ns=1_000_000)

    assert profile.draft_prompt_ns == pytest.approx((50 + 16) / 512)
    assert max(len(batch) for batch in draft.batches) == 512


def test_the_first_long_batch_of_a_draft_model_pays_for_its_kernels() -> None:
    class Warming(TimedModel):
        n_long = 0

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            super().decode(tokens, n_outputs)
            self.n_long += len(tokens) == 64
            TimedModel.now += 1000 if len(tokens) == 64 and self.n_long == 1 else 0

    assert measure(TimedModel({}), Warming({64: 128}))[0].draft_prompt_ns == 2.0


@pytest.mark.parametrize("disturbed", [(3, 4), (5, 6), (7, 8)])
def test_a_target_that_is_held_up_does_not_make_drafting_look_cheap(disturbed: tuple[int, ...]) -> None:
    # Batches of the target: two to warm up, two single rows, then two more before each look at the draft.
    profile, _ = measure(TimedModel({}, disturbed=disturbed), TimedModel({1: 8}))

    assert profile.draft_ns == 8.0


def test_nothing_is_measured_that_could_not_be_taken_back() -> None:
    target = TimedModel({}, per_cell=0.001)
    target.can_truncate, target.n_snapshots = False, 7
    profile, _ = measure(target)

    assert max(profile.batch_ns) == profile.max_batch == 8
    # Where a whole batch cannot be taken back, no two are measured behind the same context.
    assert not profile.context_ns
    assert all(len(batch) <= 8 for batch in target.batches)


STEEP = {1: 100, 2: 190, 3: 260, 4: 320, 5: 380, 6: 450, 7: 520, 8: 740, 9: 790, 12: 850, 16: 900, 17: 950, 24: 1400}


@pytest.mark.parametrize("first", range(3, 30))
@pytest.mark.parametrize("n_disturbed", [2, 3])
def test_single_rows_that_were_held_up_make_no_width_look_free(first: int, n_disturbed: int) -> None:
    """On a budget that allows of one look, as where a row takes 40 ms."""
    disturbed = range(first, first + n_disturbed)
    profile, _ = measure(TimedModel(STEEP, disturbed=disturbed), budget_ns=8_000 + 10_000 * n_disturbed)
    told = {width: round(ns / profile.batch_ns[1], 1) for width, ns in profile.batch_ns.items() if width in (2, 4, 8)}
    assert all(told[width] >= 0.9 * STEEP[width] / STEEP[1] for width in told), told


def test_a_step_down_that_is_really_there_stays() -> None:
    profile, _ = measure(TimedModel(STEEP | {8: 200}), budget_ns=8_000)
    assert profile.batch_ns[8] == pytest.approx(2 * profile.batch_ns[1])


@pytest.mark.parametrize("until", [3000, 5000])
def test_weights_that_come_from_the_disk_again_and_again_for_a_while_make_no_width_look_free(until: int) -> None:
    class Thrashing(TimedModel):
        """Every batch reads all weights from the disk, for a while."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += 970 if before < until else 0

    # In milliseconds: a 4-bit target of 1.5B on two cores.
    rows = {n: round(40 * (1 + 0.6 * (n - 1))) for n in range(1, 65)}
    profile, shares = measure(Thrashing(rows), TimedModel({1: 15, 64: 300}), budget_ns=4000)

    assert [profile.batch_ns[width] for width in (1, 2, 4, 8)] == [rows[width] for width in (1, 2, 4, 8)]
    assert profile.draft_ns == 15
    assert shares[-1] == 1.0


FLAT = {n: 400 + 10 * (n - 1) for n in range(1, 65)}


@pytest.mark.parametrize("slow_single", range(3, 12))
def test_a_second_look_at_a_dear_row_makes_it_no_dearer_than_several(slow_single: int) -> None:
    class Jumpy(TimedModel):
        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            super().decode(tokens, n_outputs)
            TimedModel.now += 390 if len(self.batches) >= slow_single and len(tokens) == 1 else 0

    profile, _ = measure(Jumpy(FLAT, switch=40), budget_ns=4000)

    assert min(profile.batch_ns.values()) == profile.batch_ns[1]
    assert profile.batch_ns[1] <= 450


def test_a_single_row_that_stays_dearer_than_several_is_measured_in_the_end() -> None:
    target = TimedModel(FLAT | {1: 800})
    profile, _ = measure(target, budget_ns=4000)

    assert {1, 2, 4, 8} <= profile.batch_ns.keys()
    # Two rows tell each time, before anything else is done.
    assert sum(len(batch) > 2 for batch in target.batches) == len(profile.batch_ns.keys() - {1, 2})
