"""Recording a trace: an answer that a draft model then follows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.errors import Interrupted
from app.recording import record
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair


@pytest.mark.parametrize("looks", range(12))
def test_a_stop_at_any_place_is_an_interruption(looks: int) -> None:
    pair = FakePair(FakeModel(mixing(4)), FakeModel(mixing(4)))
    left: Iterator[int] = iter(range(looks))
    recording = record(
        pair, "hello", name="x", kind="x", n_tokens=8, depth=2, cancelled=lambda: next(left, None) is None
    )

    with pytest.raises(Interrupted):
        list(recording)
