"""Measured costs of a fake model with known batch times."""

from collections.abc import Generator, Sequence

import pytest

from app.core.errors import Interrupted
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.measure_costs import QUICK_ORDER, Measurement
from app.engine.cache import TokenCache
from tests.fakes import FakeModel, always


class TimedModel(FakeModel):
    """A model with scripted batch times.

    Args:
        costs: Nanoseconds by batch size; 10 per token for other sizes.
        switch: Nanoseconds added after a change of the batch size.
        disturbed: Numbers of batches that take 10,000 ns more.
        per_cell: Nanoseconds per cached token for a single token.
    """

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
        size = len(tokens)
        TimedModel.now += self._costs.get(size, 10 * size) + (self._switch if size != self._last else 0)
        TimedModel.now += round(self._per_cell * (self.n_past - size) * (1 + 0.1 * size))
        TimedModel.now += 10_000 if len(self.batches) in self._disturbed else 0
        self._last = size


def run_to_end(work: Generator[float, None, CostProfile]) -> tuple[CostProfile, list[float]]:
    shares = []
    while True:
        try:
            shares.append(next(work))
        except StopIteration as done:
            return done.value, shares


def measure(
    target: TimedModel, draft: TimedModel | None = None, *, budget_ns: int = 10**12, passes: int = 1
) -> tuple[CostProfile, list[float]]:
    TimedModel.now = 0
    cache = TokenCache(target)
    measurement = Measurement(
        cache,
        TokenCache(draft) if draft else None,
        range(1, 65),
        lambda: TimedModel.now,
        budget_ns,
        passes=passes,
    )
    result = run_to_end(measurement.run(lambda: False))
    assert target.cells == []
    assert not draft or draft.cells == []
    return result


def test_every_batch_size_is_measured_without_the_change_of_size() -> None:
    profile, shares = measure(TimedModel({3: 53, 4: 34}, switch=7), TimedModel({1: 8}))

    assert profile.batch_ns == {size: {3: 53, 4: 34}.get(size, 10 * size) for size in QUICK_ORDER}
    assert profile.draft_ns == 8
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_small_budget_still_measures_the_essential_sizes() -> None:
    profile, _ = measure(TimedModel({4: 15, 8: 25}), budget_ns=1)

    # Two tokens are expensive, so three are essential too.
    assert profile.batch_ns == {1: 10, 2: 20, 3: 30, 4: 15, 8: 25}


def test_the_first_batches_after_loading_do_not_use_the_budget() -> None:
    # The first batches read the weights from disk.
    profile, _ = measure(TimedModel({}, disturbed=[1, 2]), budget_ns=9_000)

    assert sorted(profile.batch_ns) == sorted(QUICK_ORDER)


def test_costs_are_relative_to_single_tokens_of_the_same_moment() -> None:
    class Drifting(TimedModel):
        """Every batch is slower than the one before."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += round((TimedModel.now - before) * 0.02 * len(self.batches))

    profile, _ = measure(Drifting({n: 1000 * n for n in QUICK_ORDER}))

    assert {size: ns / profile.batch_ns[1] for size, ns in profile.batch_ns.items()} == pytest.approx(
        {size: size for size in QUICK_ORDER}, rel=0.04
    )


def test_a_third_measurement_decides_if_two_disagree() -> None:
    # Batches: two to warm up, two single tokens; then two single tokens and two of the size per measurement.
    slow, _ = measure(TimedModel({}, disturbed=[7, 8]))
    fast, _ = measure(TimedModel({2: 19}, disturbed=[5, 6]))

    assert (slow.batch_ns[2], fast.batch_ns[2]) == (20, 19)


SLOW = {1: 2000, 2: 2200, 4: 2600, 8: 3600, 16: 5600, 32: 9600, 64: 18_000}
"""A target of two seconds a token, in milliseconds; its draft model takes 20."""


def test_a_slow_target_runs_every_size_once() -> None:
    target, draft = TimedModel(SLOW), TimedModel({1: 20, 64: 84})
    profile, _ = measure(target, draft, budget_ns=4000)

    # Two single tokens warm up, and one is timed beside the draft model and each size.
    assert [len(batch) for batch in target.batches] == [1, 1, 1, 1, 2, 1, 4, 1, 8]
    assert profile.batch_ns == {size: SLOW[size] for size in (1, 2, 4, 8)}
    assert (profile.draft_ns, profile.draft_prompt_ns) == pytest.approx((20, 84 / 64))


@pytest.mark.parametrize("begins", range(700, 3500, 100))
def test_a_slowed_single_token_is_not_the_unit_of_all_sizes(begins: int) -> None:
    class SlowForAWhile(TimedModel):
        """Every batch takes 50% longer for a while."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += (TimedModel.now - before) // 2 if begins <= before < begins + 700 else 0

    profile, _ = measure(SlowForAWhile({n: 150 + 10 * (n - 1) for n in range(1, 65)}), budget_ns=4000)

    shares = {size: profile.batch_ns[size] / profile.batch_ns[1] / (1 + (size - 1) / 15) for size in profile.batch_ns}
    # A size measured just when the load begins or ends is relative to the other speed.
    assert sum(abs(share - 1) > 0.2 for share in shares.values()) <= 2, shares


def test_a_draft_model_with_slow_prompts_reads_once() -> None:
    draft = TimedModel({1: 100, 64: 3200})
    measure(TimedModel(SLOW), draft, budget_ns=4000)

    assert sum(len(batch) == 64 for batch in draft.batches) == 1


@pytest.mark.parametrize("single_ns", [50, 400])
def test_no_measurement_starts_that_exceeds_the_budget(single_ns: int) -> None:
    costs = {n: single_ns + 10 * n for n in range(1, 65)}
    target = TimedModel(costs)
    profile, _ = measure(target, budget_ns=4000)

    assert {1, 2, 4, 8, 16} <= profile.batch_ns.keys()
    warm_up_ns = sum(costs[len(batch)] for batch in target.batches[:2])
    assert TimedModel.now - warm_up_ns <= 4000


@pytest.mark.parametrize("budget_ns", [40_000, 33_000])
def test_large_batches_are_measured_also_if_tokens_are_expensive(budget_ns: int) -> None:
    # A 4-bit target of 1.5B on two cores, in tenths of a millisecond: one token takes 34 ms.
    costs = {1: 340, 2: 640, 3: 900, 4: 1120, 6: 1560, 8: 2470, 16: 2880, 32: 4250, 63: 6000}
    profile, _ = measure(TimedModel(costs), TimedModel({1: 200, 64: 3000}), budget_ns=budget_ns)

    assert {size: profile.batch_ns.get(size) for size in (2, 4, 8, 16, 32)} == {w: costs[w] for w in (2, 4, 8, 16, 32)}


@pytest.mark.parametrize(("two", "measured"), [(640, True), (500, False)], ids=["expensive", "cheap"])
def test_three_tokens_are_measured_early_if_two_are_expensive(two: int, measured: bool) -> None:
    costs = {1: 340, 2: two, 3: 900, 4: 820, 8: 1560, 16: 2300, 32: 4450, 63: 9000}
    profile, _ = measure(TimedModel(costs), budget_ns=15_000)

    assert {1, 2, 4, 8} < profile.batch_ns.keys()
    assert (profile.batch_ns.get(3) == 900) is measured


@pytest.mark.parametrize("n_batches", range(0, 120, 7))
def test_a_cancel_stops_after_one_batch(n_batches: int) -> None:
    target, draft = TimedModel({}, per_cell=1.0), TimedModel({})
    caches = TokenCache(target), TokenCache(draft)

    def stopped() -> bool:
        return len(target.batches) + len(draft.batches) >= n_batches

    with pytest.raises(Interrupted):
        run_to_end(Measurement(*caches, range(1, 65), lambda: TimedModel.now, 10**12).run(stopped))
    assert len(target.batches) + len(draft.batches) == n_batches


def test_an_interrupted_measurement_continues_with_the_next_piece() -> None:
    target, draft, shares = TimedModel({}, per_cell=1.0), TimedModel({1: 8}), [0.0]
    whole, _ = measure(TimedModel({}, per_cell=1.0), TimedModel({1: 8}))
    profile, first = None, 0
    work = Measurement(TokenCache(target), TokenCache(draft), range(1, 65), lambda: TimedModel.now, 10**12)

    def stopped() -> bool:
        return len(target.batches) - first >= 60

    while profile is None:
        first = len(target.batches)
        try:
            profile, last = run_to_end(work.run(stopped))
            shares += last
        except Interrupted:
            assert work.share > shares[-1]
            shares.append(work.share)

    assert profile == whole
    assert len(shares) > 4
    assert shares == sorted(shares)


class Busy(TimedModel):
    """Half as fast for some batches, from the first single token over a long context."""

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


@pytest.mark.parametrize(("n_slow", "measured"), [(0, True), (3, False), (10_000, False)])
def test_the_cost_of_context_is_unknown_if_the_speed_changes_meanwhile(n_slow: int, measured: bool) -> None:
    profile, _ = measure(Busy({n: 10_000 * n for n in range(1, 65)}, n_slow))

    assert profile.context_ns == (pytest.approx({1: 1.1, 8: 1.8, 62: 7.2}, rel=0.05) if measured else {})


def test_the_context_is_measured_after_the_first_pass() -> None:
    model = TimedModel({}, per_cell=1.0)
    profile, _ = measure(model, passes=3, budget_ns=20_000)

    assert profile.context_ns


def test_a_draft_model_with_fast_prompts_reads_longer_ones() -> None:
    draft = TimedModel({n: 50 + n // 32 for n in range(1, 513)})
    draft.n_batch = 512
    profile, _ = measure(TimedModel({}), draft, budget_ns=1_000_000)

    assert profile.draft_prompt_ns == pytest.approx((50 + 16) / 512)
    assert max(len(batch) for batch in draft.batches) == 512


def test_the_first_long_batch_of_a_draft_model_does_not_count() -> None:
    class Warming(TimedModel):
        n_long = 0

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            super().decode(tokens, n_outputs)
            self.n_long += len(tokens) == 64
            TimedModel.now += 1000 if len(tokens) == 64 and self.n_long == 1 else 0

    assert measure(TimedModel({}), Warming({64: 128}))[0].draft_prompt_ns == 2.0


@pytest.mark.parametrize("disturbed", [(3, 4), (5, 6), (7, 8)])
def test_a_slowed_target_does_not_make_drafting_look_cheap(disturbed: tuple[int, ...]) -> None:
    # Batches of the target: two to warm up, two single tokens, then two before each measurement of the draft model.
    profile, _ = measure(TimedModel({}, disturbed=disturbed), TimedModel({1: 8}))

    assert profile.draft_ns == 8.0


def test_no_batch_is_measured_that_cannot_be_rolled_back() -> None:
    target = TimedModel({}, per_cell=0.001)
    target.can_truncate, target.n_snapshots = False, 7
    profile, _ = measure(target)

    assert max(profile.batch_ns) == profile.max_batch == 8
    # Without a full rollback, two batches cannot be measured over the same context.
    assert not profile.context_ns
    assert all(len(batch) <= 8 for batch in target.batches)


STEEP = {1: 100, 2: 190, 3: 260, 4: 320, 5: 380, 6: 450, 7: 520, 8: 740, 9: 790, 12: 850, 16: 900, 17: 950, 24: 1400}


@pytest.mark.parametrize("first", range(3, 30))
@pytest.mark.parametrize("n_disturbed", [2, 3])
def test_slowed_single_tokens_make_no_size_look_free(first: int, n_disturbed: int) -> None:
    # The budget allows one measurement per size, as with 40 ms per token.
    disturbed = range(first, first + n_disturbed)
    profile, _ = measure(TimedModel(STEEP, disturbed=disturbed), budget_ns=8_000 + 10_000 * n_disturbed)
    costs = {size: round(ns / profile.batch_ns[1], 1) for size, ns in profile.batch_ns.items() if size in (2, 4, 8)}
    assert all(costs[size] >= 0.9 * STEEP[size] / STEEP[1] for size in costs), costs


def test_a_real_step_down_of_the_curve_stays() -> None:
    profile, _ = measure(TimedModel(STEEP | {8: 200}), budget_ns=8_000)
    assert profile.batch_ns[8] == pytest.approx(2 * profile.batch_ns[1])


@pytest.mark.parametrize("until", [3000, 5000])
def test_repeated_reading_from_disk_makes_no_size_look_free(until: int) -> None:
    class Thrashing(TimedModel):
        """Every batch reads all weights from disk, for a while."""

        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            before = TimedModel.now
            super().decode(tokens, n_outputs)
            TimedModel.now += 970 if before < until else 0

    # Milliseconds of a 4-bit target of 1.5B on two cores.
    costs = {n: round(40 * (1 + 0.6 * (n - 1))) for n in range(1, 65)}
    profile, shares = measure(Thrashing(costs), TimedModel({1: 15, 64: 300}), budget_ns=4000)

    assert [profile.batch_ns[size] for size in (1, 2, 4, 8)] == [costs[size] for size in (1, 2, 4, 8)]
    assert profile.draft_ns == 15
    assert shares[-1] == 1.0


FLAT = {n: 400 + 10 * (n - 1) for n in range(1, 65)}


@pytest.mark.parametrize("slow_single", range(3, 12))
def test_a_slow_single_token_never_costs_more_than_larger_batches(slow_single: int) -> None:
    class Jumpy(TimedModel):
        def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
            super().decode(tokens, n_outputs)
            TimedModel.now += 390 if len(self.batches) >= slow_single and len(tokens) == 1 else 0

    profile, _ = measure(Jumpy(FLAT, switch=40), budget_ns=4000)

    assert min(profile.batch_ns.values()) == profile.batch_ns[1]
    assert profile.batch_ns[1] <= 450


def test_a_single_token_that_stays_slower_than_batches_is_accepted_at_last() -> None:
    target = TimedModel(FLAT | {1: 800})
    profile, _ = measure(target, budget_ns=4000)

    assert {1, 2, 4, 8} <= profile.batch_ns.keys()
    # The batch of two shows it in each attempt, before larger ones run.
    assert sum(len(batch) > 2 for batch in target.batches) == len(profile.batch_ns.keys() - {1, 2})
