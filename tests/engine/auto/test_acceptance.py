"""Acceptance tables and the limit of draft lengths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.auto.acceptance import (
    CONFIDENCE_EDGES,
    CONFIDENCE_PRIOR,
    SUPPORT_PRIOR,
    AcceptanceTable,
    RunLength,
    model_table,
    ngram_table,
)
from tests.bench.texts import accepted_by_support
from tests.recordings import other_traces, texts, traces


def test_first_and_later_tokens_are_learned_separately() -> None:
    table = model_table()
    for _ in range(200):
        table.observe([(0.9, 1, False)])

    assert table.probability(0.9, 5) < 0.25
    assert table.probability(0.9, 0) == pytest.approx(0.93)


@pytest.mark.parametrize("learned_depth", [0, 1, 2])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_probabilities_equal_probability_for_each_token(learned_depth: int, depth: int) -> None:
    table, confidences = model_table(), (0.1, 0.9, 0.65)
    for _ in range(50):
        table.observe([(0.9, learned_depth, False)])

    one_by_one = [table.probability(confidence, depth + n) for n, confidence in enumerate(confidences)]
    assert table.probabilities(confidences, depth) == one_by_one
    assert table.probabilities((), depth) == []
    assert (table.probability(0.9, 1) < 0.5) is (learned_depth > 0)
    assert len(table.counts) == 2, "first tokens and later ones"


def test_bins_out_of_order_are_pooled_by_weight() -> None:
    table = AcceptanceTable((0.3, 0.6), (0.2, 0.5, 0.6))
    for _ in range(10):
        table.observe([(0.7, 0, False)])

    _, (_, low), (_, high) = table.counts[0]
    pooled = 12.0 * (0.5 + 0.6) / (12.0 + low + 12.0 + high)
    assert [table.probability(confidence, 0) for confidence in (0.1, 0.4, 0.7)] == pytest.approx([0.2, pooled, pooled])
    assert AcceptanceTable(table.edges, table.prior, table.counts).probability(0.7, 0) == table.probability(0.7, 0)


def test_old_observations_are_forgotten() -> None:
    table = model_table()
    for accepted in (False, True):
        for _ in range(2000):
            table.observe([(0.65, 0, accepted)])

    assert table.probability(0.65, 0) > 0.9


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.booleans()), max_size=200))
def test_more_confidence_never_means_less_acceptance(labels: list[tuple[float, int, bool]]) -> None:
    table = model_table()
    for label in labels:
        table.observe([label])
    for depth in (0, 1):
        values = [table.probability(edge, depth) for edge in (0.0, *CONFIDENCE_EDGES)]
        assert values == sorted(values)
        assert all(0 < value < 1 for value in values)


def test_a_new_table_returns_the_prior() -> None:
    model, ngram = model_table(), ngram_table()

    assert (model.probability(0.99, 0), model.probability(0.1, 3)) == (CONFIDENCE_PRIOR[-2], CONFIDENCE_PRIOR[0])
    assert ngram.probability(-2, 0) < ngram.probability(3, 0) < ngram.probability(8, 0) < ngram.probability(40, 0)


def test_the_support_prior_matches_the_recorded_texts() -> None:
    recorded = [(trace.prompt, trace.text) for trace in (*traces(), *other_traces())]

    measured = accepted_by_support([*texts(), *recorded])

    assert [right / proposed for right, proposed in measured] == pytest.approx(SUPPORT_PRIOR, abs=0.03)


@pytest.mark.parametrize(
    ("drafts", "limit"),
    [
        pytest.param([(8, [True] * 8)], 16, id="a fully accepted draft doubles it"),
        pytest.param([(16, [True] * 16), (20, [True, False])], 29, id="a partly rejected one shortens it by a tenth"),
        # Two tokens were drafted and none submitted; the target's own token judges only the first.
        pytest.param([(16, [True] * 16)] + [(2, [True])] * 20, 32, id="tokens that were not verified"),
        pytest.param([(8, [False])] * 9, 8, id="the first limit is the least"),
    ],
)
def test_the_limit_of_the_next_draft_follows_the_last_ones(drafts: list[tuple[int, list[bool]]], limit: int) -> None:
    run_length = RunLength()
    for n_drafted, judged in drafts:
        run_length.observe_draft(n_drafted, judged)

    assert run_length.limit == limit
