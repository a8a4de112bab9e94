"""A text is counted as what it adds to a prompt, and crosses to another process as a value."""

from __future__ import annotations

from app.cli.engine import codec
from app.worker.commands import RunJob
from app.worker.counting import CountJob
from app.worker.events import JobEnded
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair


def test_it_is_what_the_text_adds() -> None:
    pair = FakePair(FakeModel(mixing(1), n_ctx=16))
    assert list(CountJob("abc" * 20).run(pair, 7, lambda: False)) == [JobEnded(7, 60)]
    assert not pair.target.tokens


def test_after_a_stop_nothing_is_counted() -> None:
    assert list(CountJob("abc").run(FakePair(FakeModel(mixing(1))), 7, lambda: True)) == [JobEnded(7, None)]


def test_it_goes_to_another_process() -> None:
    sent = RunJob(1, CountJob("text"))
    assert codec().decode(codec().encode(sent)) == sent
