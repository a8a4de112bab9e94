"""Prompt batches: a stop takes effect soon on every device, and a fast device loses nothing."""

from collections.abc import Sequence

import pytest

from app.engine.cache import TokenCache
from tests.fakes import FakeModel, always

MS = 1_000_000


class Device(FakeModel):
    """A device that computes queued batches when an output is fetched.

    Args:
        token_ms: Time of each token.
        batch_ms: Additional time of each batch, such as for reading the weights.
        first: Tokens of its first batch.
    """

    def __init__(self, token_ms: float, batch_ms: float = 0.0, first: int = 64, *, stops_inside: bool = False) -> None:
        super().__init__(always(5), n_ctx=8192, n_batch=512)
        self.n_chunk, self.stops_inside = first, stops_inside
        self.token_ms, self.batch_ms = token_ms, batch_ms
        self.queued_ms = 0.0
        self.waits_ms: list[float] = []

    def decode(self, tokens: Sequence[int], n_outputs: int) -> None:
        self.queued_ms += self.batch_ms + len(tokens) * self.token_ms
        self.decode_ns = 0
        if n_outputs or self.stops_inside:
            self.waits_ms.append(self.queued_ms)
            self.decode_ns, self.queued_ms = round(self.queued_ms * MS), 0.0
        super().decode(tokens, n_outputs)

    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


def read(model: Device, n_tokens: int, times: int = 1) -> None:
    cache = TokenCache(model)
    for _ in range(times):
        cache.rollback(0)
        for _ in cache.process([5] * n_tokens, lambda: False):
            pass


@pytest.mark.parametrize("first", [1, 64])
@pytest.mark.parametrize("batch_ms", [0.0, 15.0, 60.0])
@pytest.mark.parametrize("token_ms", [0.02, 0.2, 0.5, 1.0, 3.0, 6.0])
def test_no_wait_is_longer_than_a_quarter_of_a_second_once_the_speed_is_known(
    token_ms: float, batch_ms: float, first: int
) -> None:
    model = Device(token_ms, batch_ms, first)
    read(model, 4000)
    # Once, a batch that takes up to twice as long may be tried.
    *usual, longest = sorted([0.0, *model.waits_ms[1:]])
    assert max(usual) <= 275
    assert longest <= 500
    # A batch is not shorter than necessary: twice the tokens would exceed the limit at this speed.
    size = model.sizes()[-2]
    assert size == 512 or 2 * (batch_ms + size * token_ms) > 250


def test_a_fast_device_gets_the_longest_batches_and_seldom_waits() -> None:
    model = Device(0.1)
    read(model, 4096 + 64)
    assert model.sizes() == [64, *[512] * 8]
    assert len(model.waits_ms) == 4


def test_a_few_short_batches_tell_that_a_gpu_is_fast() -> None:
    model = Device(0.1, batch_ms=10.0, first=1)
    read(model, 2000)
    assert model.sizes()[:5] == [1, 16, 256, 512, 512]


def test_a_gpu_that_takes_half_a_second_for_a_token_gets_one_at_a_time() -> None:
    model = Device(450.0, batch_ms=20.0, first=1)
    read(model, 20)
    # Before, it is unknown whether two cost more than one.
    assert model.sizes() == [1, 2, *[1] * 17]


@pytest.mark.parametrize(("first", "n_slow", "sizes"), [(1, 0, [1, 2, 16, 32, 32]), (64, 64, [64, 32, 256, 32, 32])])
def test_the_time_of_compiling_shaders_does_not_count_for_later_batches(
    first: int, n_slow: int, sizes: list[int]
) -> None:
    model = Device(6.0, batch_ms=20_000.0, first=first)
    cache = TokenCache(model)
    for done in cache.process([5] * 800, lambda: False):
        if done > n_slow:
            model.batch_ms = 15.0
    assert model.sizes()[:5] == sizes


def test_the_first_batch_of_a_gpu_tells_no_speed() -> None:
    cache = TokenCache(Device(450.0, first=1))
    told = [cache.seconds_to_read(1) for _ in cache.process([5] * 4, lambda: False)]
    assert told == [None, *[pytest.approx(0.45)] * 2]


def test_later_prompts_begin_with_the_size_that_was_found() -> None:
    model = Device(0.1)
    read(model, 1024, times=2)
    assert model.sizes() == [64, 512, 448, 512, 512]


def test_a_device_that_becomes_slower_gets_shorter_batches() -> None:
    model = Device(0.2)
    cache = TokenCache(model)
    for done in cache.process([5] * 4000, lambda: False):
        if done > 1000:
            model.token_ms = 2.0
    assert model.sizes()[-2] == 64


def test_a_device_that_takes_long_for_every_batch_gets_the_longest_ones() -> None:
    model = Device(0.5, batch_ms=1300.0)
    read(model, 96 + 256 + 4 * 512)
    assert model.sizes() == [64, 32, 256, *[512] * 4]


def test_batches_are_short_again_when_other_programs_no_longer_slow_them() -> None:
    model = Device(0.5, batch_ms=1300.0)
    cache = TokenCache(model)
    for done in cache.process([5] * 8000, lambda: False):
        if done > 1000:
            model.token_ms, model.batch_ms = 8.0, 0.0
    assert model.sizes()[-2] == 32


def test_longer_batches_are_tried_where_they_may_take_hardly_longer() -> None:
    model = Device(0.05, batch_ms=210.0)
    read(model, 4000)
    assert model.sizes()[:4] == [64, 128, 512, 512]


def test_a_device_that_is_slow_for_every_batch_gets_batches_that_are_worth_their_time() -> None:
    model = Device(13.0, batch_ms=380.0, first=1)
    read(model, 4000)
    # Shorter batches would read half as fast, and longer batches hardly faster.
    assert model.sizes()[-2] == 64


def test_batches_that_can_be_stopped_grow_for_two_seconds_in_each_prompt() -> None:
    model = Device(10.0, stops_inside=True)
    read(model, 600, times=2)
    assert model.sizes() == [64, 128, 256, 152] * 2
