"""A time limit ends an answer at the end of a line, as in llama-server."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from app.engine.types import FinishReason
from app.worker.events import Finished
from app.worker.responder import answer
from tests.fakes import FakeModel, script
from tests.pairs import FakePair
from tests.worker.harness import question

LINE_END = 10


def ended(max_predict_ms: int | None) -> Finished:
    """Return the end of an answer of ten short lines; each look at the clock takes a millisecond."""
    pair = FakePair(FakeModel(script([1, 2, LINE_END] * 10, 3), n_ctx=256))
    pair.model.piece = lambda token: b"\n" if token == LINE_END else bytes([96 + token]) if token else b""  # type: ignore[method-assign]
    clock = count(step=1_000_000)
    request = replace(question(max_tokens=None), max_predict_ms=max_predict_ms)
    *_, last = answer(pair, 1, request, clock=lambda: next(clock))
    assert isinstance(last, Finished)
    return last


def test_a_line_that_ends_late_is_the_last_one() -> None:
    limited, whole = ended(30), ended(None)
    assert (limited.reason, whole.reason) == (FinishReason.LENGTH, FinishReason.STOP)
    assert whole.text.startswith(limited.text)
    assert limited.text.endswith("ab\n")
    assert 1 <= limited.text.count("\n") < 10
    assert ended(1).text == "ab\n"
    assert ended(100_000).text == whole.text
