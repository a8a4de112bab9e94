"""Automatic drafting on recorded traces of a real pair and on the cost curves of real machines.

Exact expectations without a clock: the strategy is the one that runs on models, only its draft and its time are
played.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from app.engine.auto.curve import CostModel
from app.engine.auto.guard import Ledger
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.strategy import AutomaticDrafting
from app.engine.cache import TokenCache
from app.engine.fixed import NoDrafting
from app.engine.interfaces import AnswerStart, Cancelled, Clock, ModelDrafting, Strategy
from app.engine.types import DraftParams
from tests.bench.policies import automatic, calibrated
from tests.bench.upper_bound import teacher_forced
from tests.fakes import N_VOCAB, FakeModel, mixing, script
from tests.recordings import Curve, Trace, baseline_cost, curves, lowest_cost, other_traces, texts, traces
from tests.replay import RecordedDraft, best_fixed, fixed, replay

PAYING = ["ada", "m1_ultra", "deepseek_v3", "cpu_q4_0", "cpu_bf16"]
HOPELESS = ["hopeless", "nearly_hopeless"]

TINY = Trace("tiny", "code", (1, 2, 3), (4, 5, 6, 7, 8), (4, 0, 2, 1), ((0.9,) * 4,) * 4)
LINE = Curve("line", {1: 10.0, 65: 74.0}, draft=1.0)


def auto_costs(curve: Curve, *, order: int = 0, model: bool = True) -> dict[str, float]:
    """Cost of every trace by one automatic strategy that starts cold and learns from one to the next."""
    make = automatic(calibrated(curve), model=model)
    ordered = [*traces()[order:], *traces()[:order]]
    return {trace.name: replay(trace, curve, make).cost for trace in ordered}


class TestReplayer:
    def test_plain_decoding_costs_one_row_a_token(self) -> None:
        assert replay(TINY, LINE, lambda drafter, clock: NoDrafting()).cost == baseline_cost(TINY, LINE) == 40.0

    def test_fixed_drafting_is_played_as_it_runs(self) -> None:
        played = replay(TINY, LINE, fixed(DraftParams(2, 0, 0.0)))

        # Two drafted and both right, then the last token alone: 2 + 12, 10.
        assert [(r.draft.tokens, r.n_accepted) for r in played.steps] == [((5, 6), 2), ((), 0)]
        assert played.cost == 24.0

    def test_a_prompt_is_read_once_and_so_is_what_was_not_drafted(self) -> None:
        reader = replace(LINE, reading=0.5)
        played = replay(TINY, reader, fixed(DraftParams(2, 0, 0.0)))

        # Three prompt tokens besides; after two of two the last drafted one is read with the next draft.
        assert played.cost == 24.0 + 3 * 0.5

    def test_the_oracle_knows_what_will_be_accepted(self) -> None:
        # Three drafted and right, one batch of four rows.
        assert lowest_cost(TINY, LINE) == 3 * 1.0 + 13.0

    def test_no_draft_is_longer_than_what_can_be_taken_back(self) -> None:
        short = replace(LINE, max_batch=2)

        steps = replay(TINY, short, fixed(DraftParams(4, 0, 0.0))).steps
        assert [len(result.draft) for result in steps] == [1, 1]
        # One drafted and right in a batch of two, twice.
        assert lowest_cost(TINY, short) == 2 * (1.0 + 11.0)

    @pytest.mark.parametrize("name", PAYING)
    def test_nothing_beats_the_oracle(self, name: str) -> None:
        curve = curves()[name]
        automatic = auto_costs(curve)
        for trace in traces():
            assert automatic[trace.name] >= lowest_cost(trace, curve, ngram=True) - 1e-6
            assert best_fixed([trace], curve)[1] >= lowest_cost(trace, curve) - 1e-6


@pytest.mark.parametrize("name", PAYING)
class TestWherePays:
    def test_it_beats_the_best_fixed_setting_of_every_single_prompt_together(self, name: str) -> None:
        curve = curves()[name]
        best = sum(best_fixed([trace], curve)[1] for trace in traces())

        assert best / sum(auto_costs(curve).values()) >= 1.0

    @pytest.mark.parametrize("order", [0, 3, 6])
    def test_the_draft_model_alone_reaches_it_in_any_order(self, name: str, order: int) -> None:
        curve = curves()[name]
        make = automatic(calibrated(curve), ngram=False)
        ordered = [*traces()[order:], *traces()[:order]]
        best = sum(best_fixed([trace], curve)[1] for trace in traces())

        assert best / sum(replay(trace, curve, make).cost for trace in ordered) >= 0.97

    def test_on_other_texts_it_beats_the_best_fixed_setting_over_all(self, name: str) -> None:
        curve = curves()[name]
        costs = [replay(trace, curve, automatic(calibrated(curve))).cost for trace in other_traces()]
        assert best_fixed(other_traces(), curve)[1] / sum(costs) >= 1.0

    def test_editing_needs_no_draft_model(self, name: str) -> None:
        (edit,) = [trace for trace in traces() if trace.kind == "edit"]
        cost = replay(edit, curves()[name], automatic(calibrated(curves()[name]), model=False)).cost

        assert baseline_cost(edit, curves()[name]) / cost >= 2.4


def test_a_draft_model_that_recovers_is_seen_to_be_right_before_anything_is_submitted() -> None:
    curve, trace = curves()["deepseek_v3"], next(trace for trace in other_traces() if trace.name == "edit 1")
    # Two drafts fail at the beginning, which costs more than a dozen steps bring; then 100 tokens are predicted.
    played = replay(trace, curve, automatic(calibrated(curve), ngram=False))

    assert [result.n_accepted < len(result.draft) for result in played.steps[:2]] == [True, True]
    assert baseline_cost(trace, curve) / played.cost > 1.2


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize("order", [0, 3, 6])
def test_where_drafting_cannot_pay_it_costs_next_to_nothing(name: str, order: int) -> None:
    curve = curves()[name]
    costs = auto_costs(curve, order=order)

    for trace in traces():
        assert baseline_cost(trace, curve) / costs[trace.name] >= 0.99


@pytest.mark.parametrize("order", [0, 3, 6])
def test_where_only_look_up_pays_it_wins_and_no_text_loses(order: int) -> None:
    curve = curves()["cpu_q4_0_reading"]
    costs = auto_costs(curve, order=order)

    assert all(baseline_cost(trace, curve) / costs[trace.name] >= 0.98 for trace in traces())
    assert sum(baseline_cost(trace, curve) for trace in traces()) / sum(costs.values()) > 1.05


@pytest.mark.parametrize("name", [*PAYING, *HOPELESS, "cpu_q4_0_reading"])
def test_no_answer_loses_more_than_the_ledger_allows(name: str) -> None:
    curve = curves()[name]
    plain = curve.costs()[1]
    make = automatic(calibrated(curve))
    for trace in traces():
        played = replay(trace, curve, make)
        widest = max(result.total_ns for result in played.steps)
        assert played.cost <= baseline_cost(trace, curve) * (1 + Ledger.INTEREST) + Ledger.CAP * plain + widest


class TestOff:
    def test_where_no_draft_can_win_the_draft_model_is_never_asked(self) -> None:
        class Forbidden:
            native_ns = 0

            def unread(self, tokens: Sequence[int]) -> int:
                return len(tokens)

            def __getattr__(self, name: str) -> object:
                raise AssertionError(f"the draft model was asked to {name}")

        curve = curves()["hopeless"]
        memory = calibrated(curve)

        def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
            return AutomaticDrafting(memory, Forbidden(), None, clock)  # type: ignore[arg-type]

        for trace in traces():
            assert replay(trace, curve, make).cost == pytest.approx(baseline_cost(trace, curve))

    def test_whether_drafts_could_win_is_weighed_as_an_answer_begins_and_once_in_many_rounds(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weighed: list[int] = []

        def weigh(costs: CostModel, n_past: int, n_max: int) -> str:
            weighed.append(n_past)
            return "it cannot"

        monkeypatch.setattr("app.engine.auto.strategy.impossibility", weigh)
        trace = Trace("long", "prose", (1, 2, 3), tuple(range(4, 75)), (0,) * 70, ((),) * 70)
        curve = curves()["hopeless"]
        steps = replay(trace, curve, automatic(calibrated(curve), ngram=False)).steps

        assert len(steps) == 70
        assert weighed == [3, 3 + 32, 3 + 64]

    def test_it_says_why(self) -> None:
        curve = curves()["hopeless"]
        strategy = AutomaticDrafting(calibrated(curve), RecordedDraft(TINY, 0.0, lambda cost: None), None)
        for _ in strategy.begin(AnswerStart(TINY.prompt, 256), lambda: False):
            pass

        assert strategy.status.source == "off"
        assert strategy.status.reason == "verifying 2 tokens costs 2.3× one token here, so drafting cannot help"


class TestStatus:
    def test_the_speedup_of_a_winning_text_is_an_estimate_where_every_step_drafted(self) -> None:
        curve = curves()["ada"]
        strategies: list[AutomaticDrafting] = []
        memory = calibrated(curve)

        def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
            strategies.append(AutomaticDrafting(memory, drafter, None, clock))
            return strategies[-1]

        code = traces()[0]
        cost = replay(code, curve, make).cost
        status = strategies[0].status

        assert (status.source, status.verdict, status.measured) == ("model", "", False)
        assert status.speedup == pytest.approx(baseline_cost(code, curve) / cost, rel=0.05)

    def test_nothing_is_claimed_before_it_was_measured(self) -> None:
        strategy = AutomaticDrafting(calibrated(curves()["ada"]), None, None)

        assert (strategy.status.verdict, strategy.status.speedup) == ("", None)


class TestLongPrompts:
    def test_a_prompt_that_costs_more_to_read_than_it_can_bring_is_not_read(self) -> None:
        curve = curves()["ada"]
        memory = calibrated(curve)
        # Twenty milliseconds a prompt token: reading the edit prompt takes longer than a whole usual answer saves.
        memory.costs.profile.draft_prompt_ns = 2e7
        (edit,) = [trace for trace in traces() if trace.kind == "edit"]
        read: list[int] = []

        class Reader(RecordedDraft):
            def unread(self, tokens: Sequence[int]) -> int:
                return len(tokens) - 1

            def begin(self, tokens: Sequence[int], cancelled: Cancelled) -> Iterator[int]:
                read.append(len(tokens))
                return iter(())

        strategy = AutomaticDrafting(memory, Reader(edit, 0.0, lambda cost: None), None)
        for _ in strategy.begin(AnswerStart(edit.prompt, 256), lambda: False):
            pass

        assert read == []
        assert strategy.status.reason.startswith("reading this text would cost more")

        memory.costs.profile.draft_prompt_ns = 1e5
        for _ in strategy.begin(AnswerStart(edit.prompt, 256), lambda: False):
            pass
        assert read == [len(edit.prompt)]


class TestReadingThatIsDear:
    """Two cores on which a target of four bits takes 38 ms a token, and its draft model 4 ms for each of a prompt."""

    SHARE = 0.1

    def machine(self) -> Curve:
        curve = curves()["cpu_q4_0"]
        return replace(curve, reading=self.SHARE * curve.costs()[1])

    def test_what_first_answers_lose_to_it_is_bounded_and_together_they_win(self) -> None:
        curve = self.machine()
        costs = {t.name: replay(t, curve, automatic(calibrated(curve))).cost for t in (*traces(), *other_traces())}
        plain = {trace.name: baseline_cost(trace, curve) for trace in (*traces(), *other_traces())}

        assert min(plain[name] / costs[name] for name in costs) >= 0.9
        assert sum(plain.values()) / sum(costs.values()) >= 1.04

    def test_where_single_rows_are_fast_easy_texts_are_still_read(self) -> None:
        # As two cores were measured in a fast moment, with a target of sixteen bits.
        rows = {1: 1.0, 2: 1.75, 4: 2.17, 8: 2.84, 16: 3.64, 32: 6.69}
        curve = Curve("steep", {n: share * 79e6 for n, share in rows.items()}, draft=0.15 * 79e6, reading=3.6e6)
        cost = sum(replay(trace, curve, automatic(calibrated(curve))).cost for trace in traces())

        assert sum(baseline_cost(trace, curve) for trace in traces()) / cost >= 1.25

    def test_texts_that_drafts_lose_on_are_not_read_again_and_again(self) -> None:
        curve, hard = self.machine(), [t for t in (*traces(), *other_traces()) if t.kind in ("prose", "chat")]
        make = automatic(calibrated(curve))
        cost = sum(replay(trace, curve, make).cost for _ in range(6) for trace in hard)

        assert 6 * sum(baseline_cost(trace, curve) for trace in hard) / cost >= 0.99

    @pytest.mark.parametrize("gain", [0.3, 0.0])
    def test_one_that_was_turned_off_in_another_run_reads_where_drafts_are_likely_to_pay(self, gain: float) -> None:
        curve = self.machine()
        memory = calibrated(curve)
        memory.gain, memory.trial.on = gain, False
        code = next(trace for trace in traces() if trace.kind == "code")
        drafted = [result.draft.n_model for result in replay(code, curve, automatic(memory)).steps]

        assert any(drafted) == (gain > 0)


class TestDocuments:
    """A document of thousands of tokens, asked about in answer after answer, each too short to be worth reading it."""

    CURVE = Curve("card", {1: 100.0, 2: 103.0, 4: 109.0, 8: 121.0, 16: 180.0, 32: 200.0}, draft=10.0, reading=2.0)
    DOCUMENT = tuple(range(10_000, 13_000))

    def answers(self, memory: PairStatistics, documents: Sequence[tuple[int, ...]]) -> list[int]:
        """Tokens that the draft model drafted in each of them."""
        trace = next(trace for trace in traces() if trace.kind == "code")
        return [
            sum(
                result.draft.n_model
                for result in replay(
                    replace(trace, prompt=(*document, *trace.prompt)), self.CURVE, automatic(memory, ngram=False)
                ).steps
            )
            for document in documents
        ]

    def test_it_is_read_once_so_much_was_answered_without(self) -> None:
        drafted = self.answers(calibrated(self.CURVE), [self.DOCUMENT] * 4)

        assert not drafted[0]
        assert any(drafted)

    def test_another_text_begins_anew(self) -> None:
        memory = calibrated(self.CURVE)

        assert not any(self.answers(memory, [tuple(range(n, n + 3000)) for n in range(20_000, 50_000, 5000)]))


def test_after_a_copy_other_text_is_drafted_as_if_there_had_been_none() -> None:
    curve = Curve("card", {1: 10.0, 2: 10.3, 4: 10.9, 8: 12.1, 9: 17.0, 16: 18.0, 32: 20.0, 64: 28.0}, draft=1.0)
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
    alone = replay(code, curve, automatic(calibrated(curve))).cost
    steps = replay(copied, curve, automatic(calibrated(curve))).steps
    behind = sum(r.total_ns for r in steps if r.n_past >= len(copied.prompt) + len(page))

    assert behind <= 1.1 * alone


class TestStretch:
    """A confident draft model is not believed for a whole page at once."""

    @staticmethod
    def drafted(matches: int) -> list[int]:
        n = 120
        text = tuple(1000 + i for i in range(n))
        trace = Trace(
            "long", "edit", (1, 2, 3), text, tuple(min(matches, n - 1 - i) for i in range(n)), ((0.999,) * 64,) * n
        )
        curve = Curve("flat", {1: 1000.0, 64: 1100.0}, 1.0)

        def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
            return AutomaticDrafting(calibrated(curve), drafter, None, clock)

        return [len(result.draft) for result in replay(trace, curve, make).steps]

    def test_the_first_draft_is_short_where_it_is_wrong(self) -> None:
        assert max(self.drafted(3)) <= 12

    def test_a_draft_that_held_lets_the_next_one_be_twice_as_long(self) -> None:
        assert self.drafted(64)[:4] == [8, 16, 32, 59]


def test_a_text_that_is_decoded_plainly_is_neither_winning_nor_losing_however_slow_the_machine_is_just_now() -> None:
    curve = curves()["hopeless"]
    strategies: list[AutomaticDrafting] = []

    def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
        strategies.append(AutomaticDrafting(calibrated(curve), drafter, None, clock))
        return strategies[-1]

    replay(traces()[0], curve, make, lambda: 4.0)

    assert (strategies[0].status.speedup, strategies[0].status.verdict) == (None, "")


class TestStalls:
    """A machine that stands still for a moment is not a loss of drafts."""

    CURVE = Curve("steep enough", {1: 100.0, 2: 140.0, 4: 170.0, 8: 220.0, 16: 320.0, 32: 560.0}, draft=13.0)

    def cost(self, trace: Trace, held_up: range) -> float:
        """What an answer takes where so many of its steps look twenty times as long."""
        step = count()
        make = automatic(calibrated(self.CURVE))
        return replay(trace, self.CURVE, make, lambda: 20.0 if next(step) in held_up else 1.0).cost

    @pytest.mark.parametrize("length", [1, 4, 16])
    @pytest.mark.parametrize("start", range(0, 60, 6))
    def test_drafting_goes_on_when_it_is_over(self, start: int, length: int) -> None:
        code = next(trace for trace in traces() if trace.kind == "code")
        undisturbed = self.cost(code, range(0))

        assert self.cost(code, range(start, start + length)) <= 1.15 * undisturbed

    def test_it_is_no_loss_to_speak_of(self) -> None:
        code = next(trace for trace in traces() if trace.kind == "code")
        strategies: list[AutomaticDrafting] = []
        step = count()

        def make(drafter: ModelDrafting, clock: Clock) -> Strategy:
            strategies.append(AutomaticDrafting(calibrated(self.CURVE), drafter, None, clock))
            return strategies[-1]

        replay(code, self.CURVE, make, lambda: 500.0 if next(step) == 30 else 1.0)

        assert strategies[0].status.verdict != "losing"


def test_a_draft_model_that_is_sure_and_wrong_costs_short_answers_little_in_the_long_run() -> None:
    curve, n = curves()["cpu_bf16"], 64
    plain = took = 0.0
    for seed in range(4):
        random, memory = Random(seed), calibrated(curve)
        for _ in range(24):
            text = tuple(random.randrange(50_000) for _ in range(n))
            sure = tuple(tuple(random.choice((0.9, 0.95, 0.97, 0.99)) for _ in range(16)) for _ in text)
            wrong = Trace("wrong", "prose", (1,) * 40, text, (0,) * n, sure)
            took += replay(wrong, curve, automatic(memory)).cost
            plain += baseline_cost(wrong, curve)

    assert plain / took >= 0.945


def test_a_short_answer_loses_next_to_nothing_to_a_look_up_that_is_wrong() -> None:
    curve = curves()["cpu_q4_0"]
    spoken = [(trace.prompt, trace.text) for trace in (*traces(), *other_traces())]
    ratios = []
    for prompt, text in (*texts(), *spoken):
        said = text[:64]
        trace = Trace("said", "any", prompt, said, (0,) * len(said), ((),) * len(said))
        cost = replay(trace, curve, automatic(calibrated(curve), model=False)).cost
        ratios.append(baseline_cost(trace, curve) / cost)

    assert min(ratios) >= 0.98
    assert len(ratios) / sum(1 / ratio for ratio in ratios) >= 1.09


PROMPT = (1, 2, 3)
TEXT = (10, 11, 12, 13, 14, 15)


def test_the_draft_looks_no_further_than_its_context() -> None:
    # The answer ended because a context of eight was full: its last token was chosen and never evaluated.
    draft = TokenCache(FakeModel(script(TEXT, len(PROMPT)), n_ctx=8))
    views = list(teacher_forced(draft, N_VOCAB, PROMPT, TEXT, depth=4))

    assert [matches for matches, _ in views] == [4, 4, 3, 2, 1]
    assert [len(confidences) for _, confidences in views] == [4, 4, 3, 2, 1]


def test_what_was_drafted_before_leaves_no_trace() -> None:
    wrong = TokenCache(FakeModel(mixing(7)))
    alone = [
        list(teacher_forced(TokenCache(FakeModel(mixing(7))), N_VOCAB, PROMPT, TEXT, depth))[2] for depth in (1, 5)
    ]

    deep = list(teacher_forced(wrong, N_VOCAB, PROMPT, TEXT, depth=5))
    assert deep[2] == alone[1]
    assert deep[2][1][:1] == alone[0][1]
