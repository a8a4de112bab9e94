"""Automatic drafting on recorded answers of a real pair and on the cost curves of real machines.

Results are exact: the strategy is the real one, its draft model and its clock are replayed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from random import Random

import pytest

from app.engine.auto.cost_profile import MAX_BATCH, CostProfile, expand
from app.engine.auto.guard import Ledger
from app.engine.auto.measure_costs import FirstCosts
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.draft_source import DraftSource
from app.engine.events import Step
from app.engine.interfaces import AnswerStart, Cancelled, Clock, Strategy
from app.engine.sources import Source
from app.engine.stats import GenerationStats
from app.engine.types import DraftParams
from tests.bench.policies import automatic, measured
from tests.recordings import Trace, baseline_cost, curves, lowest_cost, other_traces, texts, traces
from tests.replay import RecordedDraft, best_fixed, fixed, replay

GAINING_CURVES = ["ada", "m1_ultra", "deepseek_v3", "cpu_q4_0", "cpu_bf16"]
HOPELESS_CURVES = ["hopeless", "nearly_hopeless"]

TINY = Trace("tiny", "code", (1, 2, 3), (4, 5, 6, 7, 8), (4, 0, 2, 1), ((0.9,) * 4,) * 4)
LINE = CostProfile({1: 10.0, 65: 74.0}, draft_ns=1.0)


@cache
def auto_costs(name: str, order: int = 0) -> dict[str, float]:
    """Return the cost of every answer; the statistics start fresh and continue from answer to answer."""
    make = automatic(measured(curves()[name]))
    ordered = [*traces()[order:], *traces()[:order]]
    return {trace.name: replay(trace, curves()[name], make).cost for trace in ordered}


@cache
def fixed_costs(name: str) -> dict[str, float]:
    """Return the cost of every answer with its best fixed setting."""
    return {trace.name: best_fixed([trace], curves()[name])[1] for trace in traces()}


class TestReplay:
    @pytest.mark.parametrize(
        ("curve", "n_max", "steps", "cost", "lowest"),
        [
            pytest.param(LINE, 0, [(0, 0)] * 4, 40.0, 3 * 1.0 + 13.0, id="each token costs a single token"),
            # Two drafted tokens are accepted (2 + 12), then the last token is single (10).
            pytest.param(LINE, 2, [(2, 2), (0, 0)], 24.0, 3 * 1.0 + 13.0, id="two drafted tokens"),
            # The last accepted token is evaluated with the next draft.
            pytest.param(
                replace(LINE, draft_prompt_ns=0.5),
                2,
                [(2, 2), (0, 0)],
                24.0 + 3 * 0.5,
                3 * 1.0 + 13.0,
                id="three tokens read",
            ),
            # One accepted token in a batch of two, twice: no draft is longer than the target can roll back.
            pytest.param(replace(LINE, max_batch=2), 4, [(1, 1)] * 2, 24.0, 2 * (1.0 + 11.0), id="two at most"),
        ],
    )
    def test_fixed_drafting_is_replayed(
        self, curve: CostProfile, n_max: int, steps: list[tuple[int, int]], cost: float, lowest: float
    ) -> None:
        played = replay(TINY, curve, fixed(DraftParams(n_max, 0, 0.0)))

        assert [(len(r.draft), r.n_accepted) for r in played.steps] == steps
        assert (played.cost, lowest_cost(TINY, curve)) == (cost, lowest)
        assert baseline_cost(TINY, curve) == 40.0

    @pytest.mark.parametrize("name", GAINING_CURVES)
    def test_no_strategy_costs_less_than_the_lowest_cost(self, name: str) -> None:
        curve = curves()[name]
        for trace in traces():
            assert auto_costs(name)[trace.name] >= lowest_cost(trace, curve, ngram=True) - 1e-6
            assert fixed_costs(name)[trace.name] >= lowest_cost(trace, curve) - 1e-6


@pytest.mark.parametrize("name", GAINING_CURVES)
class TestGainingMachines:
    def test_automatic_drafting_beats_the_best_fixed_setting_of_each_prompt(self, name: str) -> None:
        assert sum(fixed_costs(name).values()) / sum(auto_costs(name).values()) >= 1.0

    @pytest.mark.parametrize("order", [0, 6])
    def test_the_draft_model_alone_comes_close_in_any_order(self, name: str, order: int) -> None:
        curve = curves()[name]
        make = automatic(measured(curve), ngram=False)
        ordered = [*traces()[order:], *traces()[:order]]
        assert sum(fixed_costs(name).values()) / sum(replay(trace, curve, make).cost for trace in ordered) >= 0.97

    def test_automatic_drafting_beats_the_best_fixed_setting_on_other_texts(self, name: str) -> None:
        curve = curves()[name]
        costs = [replay(trace, curve, automatic(measured(curve))).cost for trace in other_traces()]
        assert best_fixed(other_traces(), curve)[1] / sum(costs) >= 1.0

    def test_editing_needs_no_draft_model(self, name: str) -> None:
        (edit,) = [trace for trace in traces() if trace.kind == "edit"]
        cost = replay(edit, curves()[name], automatic(measured(curves()[name]), model=False)).cost

        assert baseline_cost(edit, curves()[name]) / cost >= 2.4


def test_a_draft_model_that_recovers_is_noticed_from_drafts_that_are_not_submitted() -> None:
    curve, trace = curves()["deepseek_v3"], next(trace for trace in other_traces() if trace.name == "edit 1")
    # Two drafts fail first, which costs more than a dozen steps gain; then 100 tokens are predicted.
    played = replay(trace, curve, automatic(measured(curve), ngram=False))

    assert [result.n_accepted < len(result.draft) for result in played.steps[:2]] == [True, True]
    assert baseline_cost(trace, curve) / played.cost > 1.2


@pytest.mark.parametrize("name", HOPELESS_CURVES)
@pytest.mark.parametrize("order", [0, 6])
def test_useless_drafting_costs_less_than_one_percent(name: str, order: int) -> None:
    costs = auto_costs(name, order)
    for trace in traces():
        assert baseline_cost(trace, curves()[name]) / costs[trace.name] >= 0.99


@pytest.mark.parametrize("order", [0, 6])
def test_n_grams_win_where_the_draft_model_cannot_and_no_text_loses(order: int) -> None:
    curve, costs = curves()["cpu_q4_0_reading"], auto_costs("cpu_q4_0_reading", order)

    assert all(baseline_cost(trace, curve) / costs[trace.name] >= 0.98 for trace in traces())
    assert sum(baseline_cost(trace, curve) for trace in traces()) / sum(costs.values()) > 1.05


@pytest.mark.parametrize("name", [*GAINING_CURVES, *HOPELESS_CURVES, "cpu_q4_0_reading"])
def test_no_answer_loses_more_than_the_ledger_allows(name: str) -> None:
    curve = curves()[name]
    single = curve.batch_ns[1]
    make = automatic(measured(curve))
    for trace in traces():
        played = replay(trace, curve, make)
        longest = max(result.work_ns for result in played.steps)
        assert played.cost <= baseline_cost(trace, curve) * (1 + Ledger.INTEREST) + Ledger.CAP * single + longest


class TestImpossibleDrafting:
    def test_the_draft_model_is_never_called(self) -> None:
        class UncallableDraft(DraftSource):
            follows = False

            def unread(self, tokens: Sequence[int]) -> int:
                return len(tokens)

            def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
                raise AssertionError("the draft model was called")

        curve = curves()["hopeless"]
        statistics = measured(curve)

        def make(drafter: DraftSource, clock: Clock) -> Strategy:
            return AutomaticDrafting(statistics, [UncallableDraft(Source.MODEL)], clock)

        for trace in traces():
            assert replay(trace, curve, make).cost == pytest.approx(baseline_cost(trace, curve))


class TestStatus:
    def test_the_speedup_is_an_estimate_if_every_step_has_a_draft(self) -> None:
        curve = curves()["ada"]
        code = traces()[0]
        played = replay(code, curve, automatic(measured(curve), ngram=False))
        status, gain = played.strategy.status, played.strategy.speedup

        assert status is not None
        assert gain is not None
        assert (status.source, gain.verdict, gain.measured) == ("model", "", False)
        assert gain.ratio == pytest.approx(baseline_cost(code, curve) / played.cost, rel=0.05)


def test_a_prompt_that_costs_more_to_read_than_drafts_can_save_is_not_read() -> None:
    curve = curves()["ada"]
    (edit,) = [trace for trace in traces() if trace.kind == "edit"]
    # At 20 ms per prompt token, reading the edit prompt takes longer than a usual answer can save.
    for token_ns, reads in ((2e7, False), (1e5, True)):
        statistics = measured(curve)
        statistics.costs.profile.draft_prompt_ns = token_ns
        drafter = RecordedDraft(edit, 0.0, lambda cost: None, reading=1.0)
        strategy = AutomaticDrafting(statistics, [drafter])
        list(strategy.begin(AnswerStart([*edit.prompt, edit.text[0]], 256), lambda: False))

        assert drafter.unread([*edit.prompt, edit.text[0]]) == (0 if reads else len(edit.prompt))
        assert (strategy.status.reason or "").startswith("reading this text would cost more") is not reads


class TestExpensiveReading:
    """Two cores with a 4-bit target of 38 ms per token, and 4 ms per prompt token of the draft model."""

    SHARE = 0.1

    def machine(self) -> CostProfile:
        curve = curves()["cpu_q4_0"]
        return replace(curve, draft_prompt_ns=self.SHARE * curve.batch_ns[1])

    def test_first_answers_lose_little_and_win_together(self) -> None:
        curve = self.machine()
        costs = {t.name: replay(t, curve, automatic(measured(curve))).cost for t in (*traces(), *other_traces())}
        baseline = {trace.name: baseline_cost(trace, curve) for trace in (*traces(), *other_traces())}

        assert min(baseline[name] / costs[name] for name in costs) >= 0.9
        assert sum(baseline.values()) / sum(costs.values()) >= 1.04

    def test_easy_texts_are_read_also_if_single_tokens_are_fast(self) -> None:
        # Measured on two cores at a high clock speed, with a 16-bit target.
        shares = {1: 1.0, 2: 1.75, 4: 2.17, 8: 2.84, 16: 3.64, 32: 6.69}
        curve = CostProfile(
            {n: share * 79e6 for n, share in shares.items()}, draft_ns=0.15 * 79e6, draft_prompt_ns=3.6e6
        )
        cost = sum(replay(trace, curve, automatic(measured(curve))).cost for trace in traces())

        assert sum(baseline_cost(trace, curve) for trace in traces()) / cost >= 1.25

    def test_hard_texts_are_not_read_again_and_again(self) -> None:
        curve, hard = self.machine(), [t for t in (*traces(), *other_traces()) if t.kind in ("prose", "chat")]
        make = automatic(measured(curve))
        cost = sum(replay(trace, curve, make).cost for _ in range(6) for trace in hard)

        assert 6 * sum(baseline_cost(trace, curve) for trace in hard) / cost >= 0.99

    @pytest.mark.parametrize("gain", [0.3, 0.0])
    def test_a_model_turned_off_earlier_reads_if_a_gain_is_likely(self, gain: float) -> None:
        curve = self.machine()
        statistics = measured(curve)
        statistics.gain, statistics.trial.on = gain, False
        code = next(trace for trace in traces() if trace.kind == "code")
        steps = replay(code, curve, automatic(statistics)).steps

        assert any(Source.MODEL in step.draft.sources for step in steps) == (gain > 0)


class TestDocuments:
    """Several short answers about a long document; none alone justifies reading it."""

    CURVE = CostProfile(
        {1: 100.0, 2: 103.0, 4: 109.0, 8: 121.0, 16: 180.0, 32: 200.0}, draft_ns=10.0, draft_prompt_ns=2.0
    )
    DOCUMENT = tuple(range(10_000, 13_000))

    def answers(self, statistics: PairStatistics, documents: Sequence[tuple[int, ...]]) -> list[int]:
        """Return the tokens that the draft model drafted in each answer."""
        trace = next(trace for trace in traces() if trace.kind == "code")
        return [
            sum(
                result.draft.sources.count(Source.MODEL)
                for result in replay(
                    replace(trace, prompt=(*document, *trace.prompt)), self.CURVE, automatic(statistics, ngram=False)
                ).steps
            )
            for document in documents
        ]

    def test_an_unread_document_is_read_after_enough_answers(self) -> None:
        drafted = self.answers(measured(self.CURVE), [self.DOCUMENT] * 4)

        assert not drafted[0]
        assert any(drafted)

    def test_another_document_starts_the_count_again(self) -> None:
        statistics = measured(self.CURVE)

        assert not any(self.answers(statistics, [tuple(range(n, n + 3000)) for n in range(20_000, 50_000, 5000)]))


def test_a_long_copy_does_not_change_the_drafts_of_later_text() -> None:
    curve = CostProfile({1: 10.0, 2: 10.3, 4: 10.9, 8: 12.1, 9: 17.0, 16: 18.0, 32: 20.0, 64: 28.0}, draft_ns=1.0)
    code = next(trace for trace in traces() if trace.kind == "code")
    page = tuple(range(50_000, 50_400))
    depth = len(code.confidences[0])
    copied = replace(
        code,
        prompt=(*page, *code.prompt),
        text=(*page, *code.text),
        matches=(*(min(depth, len(page) - 1 - i) for i in range(len(page) - 1)), 0, *code.matches),
        confidences=(*((0.99,) * depth,) * len(page), *code.confidences),
    )
    alone = replay(code, curve, automatic(measured(curve))).cost
    steps = replay(copied, curve, automatic(measured(curve))).steps
    after_copy = sum(r.work_ns for r in steps if r.n_past >= len(copied.prompt) + len(page))

    assert after_copy <= 1.1 * alone


class TestStalls:
    """A short stall of the machine does not count against drafts."""

    CURVE = CostProfile({1: 100.0, 2: 140.0, 4: 170.0, 8: 220.0, 16: 320.0, 32: 560.0}, draft_ns=13.0)

    def cost(self, trace: Trace, stalled: range) -> float:
        """Return the cost of an answer if some of its batches seem to take twenty times as long."""
        step = count()
        make = automatic(measured(self.CURVE))
        return replay(trace, self.CURVE, make, lambda: 20.0 if next(step) in stalled else 1.0).cost

    @pytest.mark.parametrize("length", [1, 16])
    @pytest.mark.parametrize("start", range(0, 60, 12))
    def test_drafting_continues_after_the_stall(self, start: int, length: int) -> None:
        code = next(trace for trace in traces() if trace.kind == "code")
        undisturbed = self.cost(code, range(0))

        assert self.cost(code, range(start, start + length)) <= 1.15 * undisturbed

    def test_a_long_stall_is_not_a_loss(self) -> None:
        code = next(trace for trace in traces() if trace.kind == "code")
        step = count()
        make = automatic(measured(self.CURVE), ngram=False)
        gain = replay(code, self.CURVE, make, lambda: 500.0 if next(step) == 30 else 1.0).strategy.speedup

        assert gain is not None
        assert gain.verdict != "losing"


def test_a_confident_and_wrong_draft_model_costs_short_answers_little() -> None:
    curve, n = curves()["cpu_bf16"], 64
    baseline = cost = 0.0
    for seed in range(4):
        random, statistics = Random(seed), measured(curve)
        for _ in range(24):
            text = tuple(random.randrange(50_000) for _ in range(n))
            sure = tuple(tuple(random.choice((0.9, 0.95, 0.97, 0.99)) for _ in range(16)) for _ in text)
            wrong = Trace("wrong", "prose", (1,) * 40, text, (0,) * n, sure)
            cost += replay(wrong, curve, automatic(statistics)).cost
            baseline += baseline_cost(wrong, curve)

    assert baseline / cost >= 0.945


def test_wrong_n_grams_cost_a_short_answer_at_most_two_percent() -> None:
    curve = curves()["cpu_q4_0"]
    recorded = [(trace.prompt, trace.text) for trace in (*traces(), *other_traces())]
    ratios = []
    for prompt, text in (*texts(), *recorded):
        start = text[:64]
        trace = Trace("start", "any", prompt, start, (0,) * len(start), ((),) * len(start))
        cost = replay(trace, curve, automatic(measured(curve), model=False)).cost
        ratios.append(baseline_cost(trace, curve) / cost)

    assert min(ratios) >= 0.98
    assert len(ratios) / sum(1 / ratio for ratio in ratios) >= 1.09


class TestFirstAnswers:
    """The first answer of an unmeasured pair, 96 tokens long, with costs learned during it."""

    def ratio(self, trace: Trace, curve: CostProfile, draft_share: float) -> float:
        """Return the cost with no draft over that of a first answer, without the end of its prompt."""
        costs, first = expand(curve.batch_ns, MAX_BATCH), FirstCosts(curve.max_batch, draft_share)
        for size in first.probes:
            first.observe_probe(size, round(costs[size]))
        n = 1
        while not first.observe(Step(1, stats=GenerationStats(verify_steps=n), work_ns=round(costs[1]))):
            n += 1
        # The answer so far is part of the text before the first draft.
        short = replace(trace, text=trace.text[:96], has_end=trace.has_end and len(trace.text) <= 96)
        rest = replace(
            short,
            prompt=(*trace.prompt, *short.text[:n]),
            text=short.text[n:],
            matches=trace.matches[n:],
            confidences=trace.confidences[n:],
        )
        cost = replay(rest, curve, automatic(PairStatistics.estimated(first.profile()))).cost
        return baseline_cost(short, curve) / (cost + baseline_cost(short, curve) - baseline_cost(rest, curve))

    @pytest.mark.parametrize("name", ["cpu_q4_0", "cpu_q4_0_reading"])
    def test_drafts_that_seldom_win_lose_at_most_three_percent(self, name: str) -> None:
        curve = curves()[name]
        curve = replace(curve, draft_prompt_ns=0.1 * curve.batch_ns[1])
        ratios = {id(trace): self.ratio(trace, curve, 0.36) for trace in (*traces(), *other_traces())}
        assert min(ratios.values()) >= 0.97
        assert max(ratios.values()) >= 1.5

    def test_code_is_twice_as_fast_where_drafts_are_cheap(self) -> None:
        curve = curves()["cpu_bf16"]
        code = [self.ratio(trace, curve, 0.11) for trace in (*traces(), *other_traces()) if trace.kind == "code"]
        assert len(code) / sum(1 / ratio for ratio in code) >= 1.9
        assert min(code) >= 1.5
