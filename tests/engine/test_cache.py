"""What two token sequences share, and what a model reads that does not know all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.core.errors import ComputeError, DecodeError, Interrupted
from app.engine.cache import TokenCache, common_prefix
from app.engine.vocab import replace_unknown
from tests.fakes import FakeModel, always, mixing


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], (1, 2), 2), ((4,), [5], 0)],
)
def test_common_prefix(a: Sequence[int], b: Sequence[int], shared: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == shared


def test_a_model_reads_something_else_in_the_place_of_what_it_does_not_know() -> None:
    model = FakeModel(mixing(1))
    cache = TokenCache(model, replace_unknown(10, 7))

    cache.evaluate((3, 10, 9, 12), 1)

    assert model.batches == [(3, 7, 9, 7)]
    # What is kept is told apart by what was meant.
    assert list(cache.tokens) == [3, 10, 9, 12]
    assert cache.reuse((3, 10, 9, 11, 1)) == 3


def test_the_question_behind_a_long_document_is_edited_without_reading_that_again() -> None:
    model = FakeModel(mixing(1), n_ctx=8192, n_batch=512)
    model.can_truncate = False
    cache = TokenCache(model)
    document = [i % 9 for i in range(5000)]
    for _ in cache.read([*document, *[1] * 300], cancelled=lambda: False):
        pass

    left = cache.reuse([*document, *[2] * 300])
    assert 4096 <= left <= 5000
    # One whose document is another goes on from the state before that.
    assert 2048 <= cache.reuse([*document[:3000], *[3] * 300]) <= 3000


@pytest.mark.parametrize(
    ("why", "spent"), [(ComputeError("It failed."), True), (DecodeError("It is full."), False), (Interrupted(), False)]
)
def test_only_what_failed_while_it_was_computed_leaves_a_model_that_may_compute_nothing_more(
    why: Exception, spent: bool
) -> None:
    model = FakeModel(mixing(1))
    model.fail_at, model.fail_with = 1, why
    cache = TokenCache(model)

    with pytest.raises(type(why)):
        cache.evaluate((3,), 1)
    assert cache.is_broken is spent
    # That another batch came through means little.
    cache.evaluate((3,), 1)
    assert cache.is_broken is spent


def test_the_speed_of_a_prompt_is_that_of_its_later_batches_and_outlives_it() -> None:
    model = FakeModel(always(5), n_batch=32)
    cache = TokenCache(model)
    assert cache.seconds_to_read(100) is None
    estimates = []
    # A device takes the first batch without computing it.
    model.decode_ns = 0
    for _ in cache.process([5] * 96, lambda: False):
        model.decode_ns = 64_000_000
        estimates.append(cache.seconds_to_read(1000))
    assert estimates == pytest.approx([0.0, 2.0, 2.0])

    cache.rollback(0)
    model.decode_ns = 999
    list(cache.process([5], lambda: False))
    assert cache.seconds_to_read(1000) == pytest.approx(2.0), "one token does not tell it"


def test_a_prompt_of_one_batch_tells_its_speed() -> None:
    model = FakeModel(always(5), n_batch=64)
    model.decode_ns = 64_000_000
    cache = TokenCache(model)
    list(cache.process([5] * 64, lambda: False))
    assert cache.seconds_to_read(1000) == pytest.approx(1.0)
