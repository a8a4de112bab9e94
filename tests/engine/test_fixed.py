"""Fixed drafting, and the speedup that it reports."""

import pytest

from app.cli.report import summary
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.fixed import NEVER_MEASURED, FixedDrafting
from app.engine.interfaces import AnswerStart, Clock, StepResult
from app.engine.ngram import NgramIndex
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams
from app.worker.events import Finished
from tests.engine.generating import ConstantDraft
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.worker.harness import answered, question

FIXED = DraftParams(n_max=3, n_min=0, p_min=0.0)
DRAFTED = Draft.of(Source.MODEL, (1, 2, 3), (0.9, 0.9, 0.9))


def fixed(params: DraftParams = FIXED, clock: Clock = lambda: 0) -> FixedDrafting:
    """Return fixed drafting on a machine on which a batch of four costs 1.6 single tokens."""
    return FixedDrafting(
        ConstantDraft((1, 2, 3), 0.9), params, CostModel(CostProfile({1: 1000.0, 4: 1600.0, 64: 20_000.0})), clock
    )


def observed(strategy: FixedDrafting, *steps: StepResult) -> tuple[str, float]:
    """Return verdict and speedup, or 0."""
    for result in steps:
        strategy.propose([1, 2, 3], 8)
        strategy.observe(result)
    gain = strategy.speedup
    return (gain.verdict, round(gain.ratio, 3)) if gain is not None else ("", 0.0)


@pytest.mark.parametrize("slower", [0.5, 1.0, 1.5, 3.0], ids="a machine {0}× as slow at everything".format)
@pytest.mark.parametrize(("tokens", "speedup"), [((1, 2, 3, 4), 2.0), ((9,), 0.5)], ids=["accepted", "rejected"])
def test_drafts_give_the_measured_speedup(tokens: tuple[int, ...], speedup: float, slower: float) -> None:
    step = StepResult(0, DRAFTED, tokens, len(tokens) - 1, work_ns=round(slower * 2000), draft_ns=round(slower * 400))

    assert observed(fixed(), *[step] * 8) == ("", speedup)


def test_the_prompt_time_of_the_draft_model_counts() -> None:
    now = iter((0, 16_000))
    strategy = fixed(clock=lambda: next(now))
    assert list(strategy.begin(AnswerStart([1, 2, 3], 60), lambda: False)) == [3]
    accepted = StepResult(0, DRAFTED, (1, 2, 3, 4), 3, work_ns=2000, draft_ns=400)

    assert observed(strategy, *[accepted] * 8) == ("", 1.0)


def test_n_max_0_has_no_status() -> None:
    assert fixed(DraftParams(n_max=0)).status is None


def ended(pair: FakePair) -> Finished:
    return answered(pair, question("hello", 60, FIXED))[1]


def test_a_measured_pair_reports_the_speedup_of_fixed_drafts_and_learns_nothing() -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    list(pair.measure_costs(lambda: False))
    assert pair.memory is not None
    before = pair.memory.costs.snapshot()
    finished = ended(pair)

    assert finished.drafting is not None
    assert finished.stats.speedup is not None
    assert finished.drafting.reason is None
    assert " (100% accepted, " in summary(finished, pair.info)
    assert pair.memory.costs.snapshot() == before


def test_without_a_measurement_the_speedup_is_unknown() -> None:
    pair = FakePair(FakeModel(mixing(5)), FakeModel(mixing(5)))
    finished = ended(pair)

    assert pair.memory is None
    assert finished.drafting is not None
    assert (finished.stats.speedup, finished.drafting.reason) == (None, NEVER_MEASURED)
    line = summary(finished, pair.info)
    assert " tok/s (100% accepted, " in line
    assert "; speedup unknown; measure this pair with tandem tune" in line


def test_no_draft_is_made_if_there_is_no_room_for_n_min() -> None:
    drafter = ConstantDraft((1, 2, 3), 0.9)
    limits: list[int] = []
    drafter.draft = lambda tokens, limit, judge: limits.append(limit) or DRAFTED  # type: ignore[method-assign, func-returns-value]
    strategy = FixedDrafting(drafter, DraftParams(8, 3, 0.0))

    assert [len(strategy.propose([1, 2, 3], room)) for room in (2, 3)] == [0, 3]
    assert limits == [3]


def test_n_grams_draft_in_fixed_mode() -> None:
    strategy, text = FixedDrafting(NgramIndex(), DraftParams(3, 0, 0.0)), [1, 2, 3, 4, 5, 1, 2]
    assert list(strategy.begin(AnswerStart(text, 60), lambda: False)) == []
    first = strategy.propose(text, 8)
    strategy.observe(StepResult(len(text) - 1, first, (3,), 0, 2000, 400))
    second = strategy.propose([*text, 3], 2)

    assert (first.tokens, second.tokens) == ((3, 4, 5), (4, 5))
    assert {*first.sources, *second.sources} == {Source.NGRAM}
    assert first.probabilities == (None, None, None)
