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
        list(cache.process([5] * n_tokens, lambda: False))


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


@pytest.mark.parametrize(
    ("device", "n_tokens", "change", "sizes", "last"),
    [
        pytest.param((0.1, 10.0, 1), 2000, None, [1, 16, 256, 512, 512], None, id="a fast GPU is known after two"),
        pytest.param((450.0, 20.0, 1), 20, None, [1, 2, *[1] * 17], None, id="half a second for a token"),
        pytest.param((6.0, 20e3, 1), 800, (0, 6.0, 15.0), [1, 2, 16, 32, 32], None, id="shaders for one token"),
        pytest.param((6.0, 20e3, 64), 800, (64, 6.0, 15.0), [64, 32, 256, 32, 32], None, id="shaders for a batch"),
        pytest.param((0.5, 1300.0, 64), 2400, None, [64, 32, 256, *[512] * 4], None, id="every batch takes long"),
        pytest.param((0.05, 210.0, 64), 4000, None, [64, 128, 512, 512], None, id="longer ones take hardly longer"),
        # Shorter batches would read half as fast, and longer batches hardly faster.
        pytest.param((13.0, 380.0, 1), 4000, None, [1], 64, id="worth their time"),
        pytest.param((0.2, 0.0, 64), 4000, (1000, 2.0, 0.0), [64], 64, id="the device becomes slower"),
        pytest.param((0.5, 1300.0, 64), 8000, (1000, 8.0, 0.0), [64], 32, id="other programs end"),
    ],
)
def test_the_sizes_of_batches_follow_their_times(
    device: tuple[float, float, int],
    n_tokens: int,
    change: tuple[int, float, float] | None,
    sizes: list[int],
    last: int | None,
) -> None:
    """The device changes its times per token and per batch after some tokens; `last` is the last whole batch."""
    model = Device(*device)
    for done in TokenCache(model).process([5] * n_tokens, lambda: False):
        if change is not None and done > change[0]:
            model.token_ms, model.batch_ms = change[1:]
    assert model.sizes()[: len(sizes)] == sizes
    assert last in (None, model.sizes()[-2])


def test_the_first_batch_of_a_gpu_tells_no_speed() -> None:
    cache = TokenCache(Device(450.0, first=1))
    told = [cache.seconds_to_read(1) for _ in cache.process([5] * 4, lambda: False)]
    assert told == [None, *[pytest.approx(0.45)] * 2]


def test_later_prompts_begin_with_the_size_that_was_found() -> None:
    model = Device(0.1)
    read(model, 1024, times=2)
    assert model.sizes() == [64, 512, 448, 512, 512]


def test_batches_that_can_be_stopped_grow_for_two_seconds_in_each_prompt() -> None:
    model = Device(10.0, stops_inside=True)
    read(model, 600, times=2)
    assert model.sizes() == [64, 128, 256, 152] * 2
