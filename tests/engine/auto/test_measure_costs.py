"""Measured costs of a fake model with known batch times."""

from collections.abc import Callable, Sequence

import pytest

from app.core.errors import Interrupted
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.measure_costs import QUICK_ORDER, Measurement
from app.engine.cache import TokenCache
from tests.fakes import FakeModel, always, to_end

Disturb = Callable[["TimedModel", int], float]
"""Returns the nanoseconds that other programs add to a batch, from the model and the batch's own time."""


def batches(*numbers: int) -> Disturb:
    """Add 10,000 ns to batches, given their numbers from 1."""
    return lambda model, ns: 10_000 if len(model.batches) in numbers else 0


class TimedModel(FakeModel):
    """A model with scripted batch times.

    Args:
        costs: Nanoseconds by batch size; 10 per token for other sizes.
        disturb: What other programs add.
        switch: Nanoseconds added after a change of the batch size.
        per_cell: Nanoseconds per cached token for a single token.
    """

    now = 0

    def __init__(
        self,
        costs: dict[int, int],
        disturb: Disturb = lambda model, ns: 0,
        *,
        switch: int = 0,
        per_cell: float = 0.0,
    ) -> None:
        super().__init__(always(3), n_ctx=4096, n_batch=64)
        self._costs, self._disturb, self._switch, self._per_cell = costs, disturb, switch, per_cell
        self._last = 0

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        super().decode(tokens, n_outputs)
        size = len(tokens)
        ns = self._costs.get(size, 10 * size) + (self._switch if size != self._last else 0)
        ns += round(self._per_cell * (self.n_past - size) * (1 + 0.1 * size))
        TimedModel.now += ns + round(self._disturb(self, ns))
        self._last = size


def measurement(
    target: TimedModel, draft: TimedModel | None = None, *, budget_ns: int = 10**12, passes: int = 1
) -> Measurement:
    cache = TokenCache(draft) if draft else None
    return Measurement(TokenCache(target), cache, range(1, 65), lambda: TimedModel.now, budget_ns, passes=passes)


def measure(
    target: TimedModel, draft: TimedModel | None = None, *, budget_ns: int = 10**12, passes: int = 1
) -> CostProfile:
    TimedModel.now = 0
    profile, shares = to_end(measurement(target, draft, budget_ns=budget_ns, passes=passes).run(lambda: False))
    assert target.cells == []
    assert not draft or draft.cells == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return profile


def test_every_batch_size_is_measured_without_the_change_of_size() -> None:
    profile = measure(TimedModel({3: 53, 4: 34}, switch=7), TimedModel({1: 8}))

    assert profile.batch_ns == {size: {3: 53, 4: 34}.get(size, 10 * size) for size in QUICK_ORDER}
    assert profile.draft_ns == 8


SLOW = {1: 2000, 2: 2200, 4: 2600, 8: 3600, 16: 5600, 32: 9600, 64: 18_000}
"""A target of two seconds a token, in milliseconds; its draft model takes 20."""
STEEP = {1: 100, 2: 190, 3: 260, 4: 320, 5: 380, 6: 450, 7: 520, 8: 740, 9: 790, 12: 850, 16: 900, 17: 950, 24: 1400}
EXPENSIVE = {1: 340, 2: 640, 3: 900, 4: 1120, 6: 1560, 8: 2470, 16: 2880, 32: 4250, 63: 6000}
"""A 4-bit target of 1.5B on two cores, in tenths of a millisecond: a token takes 34 ms."""
FLAT = {n: 400 + 10 * (n - 1) for n in range(1, 65)}


@pytest.mark.parametrize(
    ("costs", "budget_ns", "sizes"),
    [
        # Two tokens are expensive, so three are essential too.
        pytest.param({4: 15, 8: 25}, 1, {1, 2, 3, 4, 8}, id="the essential sizes, beyond the budget"),
        pytest.param(EXPENSIVE, 33_000, {1, 2, 3, 4, 8, 16, 32}, id="large ones, also if tokens are expensive"),
        pytest.param(STEEP, 4_000, {1, 2, 3, 4, 8, 16}, id="three tokens early, if two are expensive"),
        pytest.param(STEEP | {2: 149}, 4_000, {1, 2, 4, 8, 16}, id="three tokens late, if two are cheap"),
        pytest.param(FLAT | {1: 800}, 4_000, {1, 2, 4, 8}, id="a single token slower than batches is accepted"),
    ],
)
def test_the_most_important_sizes_are_measured_within_the_budget(
    costs: dict[int, int], budget_ns: int, sizes: set[int]
) -> None:
    target = TimedModel(costs)
    profile = measure(target, budget_ns=budget_ns)

    assert profile.batch_ns.keys() == sizes
    least = costs.get(1, 10)
    assert profile.batch_ns == {size: max(least, costs.get(size, 10 * size)) for size in sizes}


@pytest.mark.parametrize("single_ns", [50, 400])
def test_no_measurement_starts_that_exceeds_the_budget(single_ns: int) -> None:
    costs = {n: single_ns + 10 * n for n in range(1, 65)}
    target = TimedModel(costs)
    profile = measure(target, budget_ns=4000)

    assert {1, 2, 4, 8, 16} <= profile.batch_ns.keys()
    warm_up_ns = sum(costs[len(batch)] for batch in target.batches[:2])
    assert TimedModel.now - warm_up_ns <= 4000


@pytest.mark.parametrize(("prompt_ns", "n_prompts"), [(84, 2), (3200, 1)], ids=["fast prompts", "slow prompts"])
def test_a_slow_target_runs_every_size_once(prompt_ns: int, n_prompts: int) -> None:
    target, draft = TimedModel(SLOW), TimedModel({1: 20, 64: prompt_ns})
    profile = measure(target, draft, budget_ns=4000)

    # Two single tokens warm up, and one is timed beside the draft model and each size.
    assert [len(batch) for batch in target.batches] == [1, 1, 1, 1, 2, 1, 4, 1, 8]
    assert profile.batch_ns == {size: SLOW[size] for size in (1, 2, 4, 8)}
    assert (profile.draft_ns, profile.draft_prompt_ns) == pytest.approx((20, prompt_ns / 64))
    assert sum(len(batch) == 64 for batch in draft.batches) == n_prompts


@pytest.mark.parametrize("n_batches", range(0, 120, 7))
def test_a_cancel_stops_after_one_batch(n_batches: int) -> None:
    target, draft = TimedModel({}, per_cell=1.0), TimedModel({})

    def stopped() -> bool:
        return len(target.batches) + len(draft.batches) >= n_batches

    with pytest.raises(Interrupted):
        to_end(measurement(target, draft).run(stopped))
    assert len(target.batches) + len(draft.batches) == n_batches


def test_an_interrupted_measurement_continues_with_the_next_piece() -> None:
    target, draft, shares = TimedModel({}, per_cell=1.0), TimedModel({1: 8}), [0.0]
    whole = measure(TimedModel({}, per_cell=1.0), TimedModel({1: 8}))
    profile, first, work = None, 0, measurement(target, draft)

    def stopped() -> bool:
        return len(target.batches) - first >= 60

    while profile is None:
        first = len(target.batches)
        try:
            profile, last = to_end(work.run(stopped))
            shares += last
        except Interrupted:
            assert work.share > shares[-1]
            shares.append(work.share)

    assert profile == whole
    assert len(shares) > 4
    assert shares == sorted(shares)


@pytest.mark.parametrize(("n_slow", "measured"), [(0, True), (3, False), (10_000, False)])
def test_the_cost_of_context_is_unknown_if_the_speed_changes_meanwhile(n_slow: int, measured: bool) -> None:
    slow, is_long = iter(range(n_slow)), [False]

    def disturb(model: TimedModel, ns: int) -> int:
        """Take twice as long for some batches, from the first single token over a long context."""
        is_long[0] = is_long[0] or (len(model.batches[-1]) == 1 and model.n_past > 65)
        return ns if is_long[0] and next(slow, None) is not None else 0

    profile = measure(TimedModel({n: 10_000 * n for n in range(1, 65)}, disturb, per_cell=1.0))

    assert profile.context_ns == (pytest.approx({1: 1.1, 8: 1.8, 62: 7.2}, rel=0.05) if measured else {})


def test_the_context_is_measured_after_the_first_pass() -> None:
    assert measure(TimedModel({}, per_cell=1.0), passes=3, budget_ns=20_000).context_ns


def test_a_draft_model_with_fast_prompts_reads_longer_ones() -> None:
    draft = TimedModel({n: 50 + n // 32 for n in range(1, 513)})
    draft.n_batch = 512

    assert measure(TimedModel({}), draft, budget_ns=1_000_000).draft_prompt_ns == pytest.approx((50 + 16) / 512)
    assert max(len(batch) for batch in draft.batches) == 512


def test_no_batch_is_measured_that_cannot_be_rolled_back() -> None:
    target = TimedModel({}, per_cell=0.001)
    target.can_truncate, target.n_snapshots = False, 7
    profile = measure(target)

    assert max(profile.batch_ns) == profile.max_batch == 8
    # Without a full rollback, two batches cannot be measured over the same context.
    assert not profile.context_ns
    assert all(len(batch) <= 8 for batch in target.batches)


class TestDisturbances:
    """Other programs slow down some batches."""

    def test_the_first_batches_after_loading_do_not_use_the_budget(self) -> None:
        # The first batches read the weights from disk.
        assert measure(TimedModel({}, batches(1, 2)), budget_ns=9_000).batch_ns.keys() == {*QUICK_ORDER}

    def test_costs_are_relative_to_single_tokens_of_the_same_moment(self) -> None:
        # Every batch is slower than the previous one.
        costs = {n: 1000 * n for n in QUICK_ORDER}
        profile = measure(TimedModel(costs, lambda model, ns: 0.02 * ns * len(model.batches)))

        assert {size: ns / profile.batch_ns[1] for size, ns in profile.batch_ns.items()} == pytest.approx(
            {size: size for size in QUICK_ORDER}, rel=0.04
        )

    @pytest.mark.parametrize("size", [1, 2, 5])
    @pytest.mark.parametrize("first", [1, 3, 5])
    def test_a_third_measurement_decides_if_two_disagree(self, size: int, first: int) -> None:
        def disturb(model: TimedModel, ns: int) -> int:
            n = [len(batch) for batch in model.batches].count(size)
            return 10_000 if len(model.batches[-1]) == size and first <= n < first + 2 else 0

        profile = measure(TimedModel({2: 19}, disturb), TimedModel({1: 8}))

        assert (profile.batch_ns[1], profile.batch_ns[2], profile.batch_ns[5], profile.draft_ns) == (10, 19, 50, 8)

    @pytest.mark.parametrize("begins", range(700, 3500, 100))
    def test_a_slowed_single_token_is_not_the_unit_of_all_sizes(self, begins: int) -> None:
        def disturb(model: TimedModel, ns: int) -> int:
            return ns // 2 if begins <= TimedModel.now < begins + 700 else 0

        costs = {n: 150 + 10 * (n - 1) for n in range(1, 65)}
        profile = measure(TimedModel(costs, disturb), budget_ns=4000)
        shares = {n: profile.batch_ns[n] / profile.batch_ns[1] / (1 + (n - 1) / 15) for n in profile.batch_ns}
        # A size measured when the load begins or ends is relative to the other speed.
        assert sum(abs(share - 1) > 0.2 for share in shares.values()) <= 2, shares

    def test_the_first_long_batch_of_a_draft_model_does_not_count(self) -> None:
        def disturb(model: TimedModel, ns: int) -> int:
            return 1000 if [len(batch) for batch in model.batches].count(64) == 1 else 0

        assert measure(TimedModel({}), TimedModel({64: 128}, disturb)).draft_prompt_ns == 2.0

    @pytest.mark.parametrize("first", range(3, 30))
    @pytest.mark.parametrize("n_disturbed", [2, 3])
    def test_slowed_single_tokens_make_no_size_look_free(self, first: int, n_disturbed: int) -> None:
        # The budget allows one measurement per size, as with 40 ms per token.
        disturb = batches(*range(first, first + n_disturbed))
        profile = measure(TimedModel(STEEP, disturb), budget_ns=8_000 + 10_000 * n_disturbed)
        costs = {size: round(ns / profile.batch_ns[1], 1) for size, ns in profile.batch_ns.items()}
        assert all(costs[size] >= 0.9 * STEEP.get(size, 0) / STEEP[1] for size in costs), costs

    def test_a_real_step_down_of_the_curve_stays(self) -> None:
        assert measure(TimedModel(STEEP | {8: 200}), budget_ns=8_000).batch_ns[8] == pytest.approx(200)

    @pytest.mark.parametrize("until", [3000, 5000])
    def test_repeated_reading_from_disk_makes_no_size_look_free(self, until: int) -> None:
        # Milliseconds of a 4-bit target of 1.5B on two cores. Every batch reads all weights from disk, for a while.
        costs = {n: round(40 * (1 + 0.6 * (n - 1))) for n in range(1, 65)}
        target = TimedModel(costs, lambda model, ns: 970 if TimedModel.now < until else 0)
        profile = measure(target, TimedModel({1: 15, 64: 300}), budget_ns=4000)

        assert [profile.batch_ns[size] for size in (1, 2, 4, 8)] == [costs[size] for size in (1, 2, 4, 8)]
        assert profile.draft_ns == 15

    @pytest.mark.parametrize("slow_single", range(3, 12))
    def test_a_slow_single_token_never_costs_more_than_larger_batches(self, slow_single: int) -> None:
        def disturb(model: TimedModel, ns: int) -> int:
            return 390 if len(model.batches) >= slow_single and len(model.batches[-1]) == 1 else 0

        profile = measure(TimedModel(FLAT, disturb, switch=40), budget_ns=4000)

        assert min(profile.batch_ns.values()) == profile.batch_ns[1]
        assert profile.batch_ns[1] <= 450
