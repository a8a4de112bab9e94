"""How long a draft model holds: what is learned from drafts, submitted or not."""

from __future__ import annotations

from app.engine.auto.run_length import RunLength


def test_a_draft_that_held_lets_the_next_be_twice_as_long() -> None:
    holding = RunLength()
    first = holding.limit
    holding.observe_draft(first, [True] * first)

    assert holding.limit == 2 * first


def test_one_that_broke_off_makes_it_shorter() -> None:
    holding = RunLength()
    holding.observe_draft(16, [True] * 16)
    holding.observe_draft(20, [True, False])

    assert 16 < holding.limit < 32


def test_what_was_not_judged_is_no_failure() -> None:
    holding = RunLength()
    holding.observe_draft(16, [True] * 16)
    for _ in range(20):
        # Two were drafted and none submitted: the target's own token has judged the first.
        holding.observe_draft(2, [True])

    assert holding.limit == 32
