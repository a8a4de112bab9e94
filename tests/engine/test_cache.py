"""The token cache: common prefixes, unknown tokens, saved states, failures and prefill speed."""

from collections.abc import Sequence

import pytest

from app.core.errors import ComputeError, DecodeError, Interrupted
from app.engine.cache import TokenCache, common_prefix
from app.engine.vocab_compatibility import replace_unknown
from tests.fakes import FakeModel, always, mixing


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 2, 3], [1, 9, 3], 1), ([1, 2], (1, 2), 2), ((4,), [5], 0)],
)
def test_common_prefix(a: Sequence[int], b: Sequence[int], shared: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == shared


def test_unknown_tokens_are_replaced_for_the_model_only() -> None:
    model = FakeModel(mixing(1))
    cache = TokenCache(model, replace_unknown(10, 7))

    cache.evaluate((3, 10, 9, 12), 1)

    assert model.batches == [(3, 7, 9, 7)]
    # The cache compares the original tokens.
    assert list(cache.tokens) == [3, 10, 9, 12]
    assert cache.reuse((3, 10, 9, 11, 1)) == 3


def test_an_edited_question_does_not_read_the_document_again() -> None:
    model = FakeModel(mixing(1), n_ctx=8192, n_batch=512)
    model.can_truncate = False
    cache = TokenCache(model)
    document = [i % 9 for i in range(5000)]
    list(cache.read([*document, *[1] * 300], cancelled=lambda: False))

    left = cache.reuse([*document, *[2] * 300])
    assert 4096 <= left <= 5000
    # A change within the document returns to an earlier state.
    assert 2048 <= cache.reuse([*document[:3000], *[3] * 300]) <= 3000


@pytest.mark.parametrize(
    ("error", "broken"),
    [(ComputeError("It failed."), True), (DecodeError("It is full."), False), (Interrupted(), False)],
)
def test_only_a_failed_computation_breaks_the_model(error: Exception, broken: bool) -> None:
    model = FakeModel(mixing(1))
    model.fail_at, model.fail_with = 1, error
    cache = TokenCache(model)

    with pytest.raises(type(error)):
        cache.evaluate((3,), 1)
    assert cache.is_broken is broken
    # A later batch that succeeds does not change this.
    cache.evaluate((3,), 1)
    assert cache.is_broken is broken


def test_the_prefill_speed_is_that_of_the_last_batch_of_many_tokens() -> None:
    model = FakeModel(always(5), n_batch=32)
    cache = TokenCache(model)
    assert cache.seconds_to_read(100) is None
    estimates = []
    # The first batch sets up kernels.
    model.decode_ns = 640_000_000
    for _ in cache.process([5] * 96, lambda: False):
        model.decode_ns = 64_000_000
        estimates.append(cache.seconds_to_read(1000))
    assert estimates == pytest.approx([20.0, 2.0, 2.0])

    # A prompt of one batch gives it too.
    cache.rollback(0)
    model.decode_ns = 32_000_000
    list(cache.process([5] * 32, lambda: False))
    assert cache.seconds_to_read(1000) == pytest.approx(1.0)

    cache.rollback(0)
    model.decode_ns = 999
    list(cache.process([5], lambda: False))
    assert cache.seconds_to_read(1000) == pytest.approx(1.0), "one token does not change it"
