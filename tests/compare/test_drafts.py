"""Draft models of one target, compared on the same text."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from app.compare.drafts import Agreement, Sample, agreement, divergence, expected
from app.core.errors import Interrupted
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from tests.fakes import N_VOCAB, FakeModel, always, script, to_end

PROMPT, ANSWER = [5, 6, 7], [10, 11, 12, 13]
BATCHES = {1: 10e6, 2: 11e6, 4: 12e6, 8: 14e6}


def sample() -> Sample:
    cache = TokenCache(FakeModel(script(ANSWER, start=len(PROMPT))))
    rows = []
    for token in [None, *ANSWER[:-1]]:
        list(cache.process(PROMPT if token is None else [token], lambda: False))
        rows.append(np.array(cache.logits(0)))
    return Sample(PROMPT, ANSWER, rows)


def judged(model: FakeModel, samples: Sequence[Sample], *, cancelled: bool = False) -> Agreement:
    drafter = ModelDrafter(TokenCache(model), N_VOCAB, is_end=lambda token: False)
    target = TokenCache(FakeModel(always(1)))
    found, progress = to_end(agreement(drafter, target, samples, lambda: cancelled))
    assert all(0.0 <= done <= 1.0 for done in progress)
    assert not target.tokens, "only draft layers need the target"
    return found


@pytest.mark.parametrize(("drafted", "acceptance"), [(ANSWER, 1.0), ([10, 11, 1, 13], 0.75), ([1, 2, 3, 4], 0.0)])
def test_acceptance_is_the_share_of_tokens_ranked_first(drafted: Sequence[int], acceptance: float) -> None:
    found = judged(FakeModel(script(drafted, start=len(PROMPT))), [sample(), sample()])

    assert found.acceptance == acceptance
    assert found.divergence is not None
    assert (found.divergence < 1e-6) is (drafted == ANSWER)


def test_a_draft_model_with_a_shorter_vocabulary_is_judged_on_the_shared_part() -> None:
    assert judged(FakeModel(script(ANSWER, start=len(PROMPT)), n_vocab=N_VOCAB - 8), [sample()]).acceptance == 1.0


def test_a_cancel_ends_the_comparison() -> None:
    with pytest.raises(Interrupted):
        judged(FakeModel(always(1)), [sample()], cancelled=True)


def test_the_divergence_is_that_of_the_distributions() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.75, 0.25, 0.0])
    with np.errstate(divide="ignore"):
        found = divergence(np.log(p).astype(np.float32), np.log(q).astype(np.float32) + 3)

    assert found == pytest.approx(0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25), abs=1e-6)


def costs(draft_ns: float, scale: float = 1.0, batches: Mapping[int, float] = BATCHES) -> CostModel:
    return CostModel(CostProfile({size: scale * ns for size, ns in batches.items()}, draft_ns=scale * draft_ns))


def test_a_cheaper_draft_wins_at_the_same_acceptance_and_a_better_one_at_the_same_cost() -> None:
    target = costs(0.0)
    cheap, dear = expected(target, costs(0.5e6), 0.7), expected(target, costs(2e6), 0.7)
    better = expected(target, costs(2e6), 0.9)

    assert cheap.speedup > dear.speedup > 1
    assert better.speedup > dear.speedup
    assert better.length >= dear.length


def test_the_cost_of_a_draft_is_relative_to_the_target_at_that_time() -> None:
    assert expected(costs(0.0), costs(1e6, scale=3.0), 0.8) == expected(costs(0.0), costs(1e6), 0.8)


def test_no_speedup_where_the_rule_would_not_draft() -> None:
    line = {1: 10e6, 2: 20e6, 8: 80e6}
    found = expected(costs(0.0, batches=line), costs(3e6, batches=line), 1.0)

    assert (found.speedup, found.length) == (1.0, 0)


def test_the_start_of_a_block_counts_for_its_own_draft_only() -> None:
    target = costs(0.0)
    target.profile.draft_start_ns = 50e6
    block = costs(0.1e6)
    block.profile.draft_start_ns = 5e6

    assert expected(target, costs(1e6), 0.8) == expected(costs(0.0), costs(1e6), 0.8)
    assert expected(costs(0.0), block, 0.9).draft_ns == pytest.approx(5.1e6)
    whole, short = expected(costs(0.0), block, 1.0), expected(costs(0.0), block, 1.0, longest=3)
    assert whole.length > short.length == 3
    assert whole.speedup > short.speedup
    assert expected(costs(0.0), block, 0.9).speedup < expected(costs(0.0), costs(0.1e6), 0.9).speedup
