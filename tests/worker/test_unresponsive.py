"""A child that does not react to a stop, or goes silent: it is killed, and the next command works."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Prefill
from app.core.errors import EngineLostError, StoppedError
from app.engine.events import Step
from app.engine.types import FinishReason
from app.worker.events import Failed, Finished, Loaded, LoadProgress
from tests.hanging import HANGS_S
from tests.worker.fake_process import FakeJob, FakeLoader
from tests.worker.harness import ENDLESS, Harness, failed, finished, question


@pytest.fixture
def impatient() -> Iterator[Harness]:
    """Return an engine that gives its child only a moment."""
    made = Harness(servers=["a:5"], stop_s=0.05)
    yield made
    made.engine.close(5)


def hang(engine: Harness, mark: Path) -> int:
    """Start an answer whose fifth call hangs once; return the number of the request."""
    engine.engine.load(FakeLoader(waits_at=5, mark=str(mark)))
    engine.until(Loaded)
    number = engine.engine.answer(replace(ENDLESS, prefill=Prefill(" Well,")))
    for _ in range(4):
        engine.until(Step)
    deadline = time.monotonic() + 240
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return number


def test_a_stopped_answer_keeps_its_text_and_the_next_one_loads_the_pair_again(
    impatient: Harness, tmp_path: Path
) -> None:
    number = hang(impatient, tmp_path / "mark")
    child = impatient.child
    waiting = impatient.engine.answer(question()), impatient.engine.run(FakeJob())
    impatient.engine.cancel()
    last = finished(impatient.until(Finished, Failed)[-1])
    child.wait(HANGS_S)
    unsaid, unworked = finished(impatient.until(Finished)[-1]), failed(impatient.until(Failed)[-1])
    again = impatient.engine.answer(question())

    assert (last.request, last.reason, last.stats.predicted_n) == (number, FinishReason.CANCELLED, 4)
    assert last.text.startswith("Well,")
    assert len(last.text) == len("Well,") + 4
    assert (unsaid.request, unsaid.reason, unsaid.text) == (waiting[0], FinishReason.CANCELLED, "")
    assert (unworked.request, type(unworked.error)) == (waiting[1], StoppedError)
    assert finished(impatient.until(Finished, Failed)[-1]).request == again


def test_a_stopped_load_makes_way_for_the_next_pair(impatient: Harness) -> None:
    impatient.engine.load(FakeLoader(waits_at="loading"))
    impatient.until(LoadProgress)
    impatient.engine.cancel()
    impatient.engine.load(FakeLoader(n_ctx=77))
    stopped = failed(impatient.until(Failed)[-1])

    assert (stopped.request, type(stopped.error)) == (None, StoppedError)
    loaded = impatient.until(Loaded, Failed)[-1]
    assert isinstance(loaded, Loaded)
    assert loaded.pair.n_ctx == 77


@pytest.mark.parametrize("where", ["answer", "load"])
def test_a_server_that_is_silent_ends_the_command(impatient: Harness, tmp_path: Path, where: str) -> None:
    number = None
    if where == "answer":
        number = hang(impatient, tmp_path / "mark")
    else:
        impatient.engine.load(FakeLoader(waits_at="loading"))
        impatient.until(LoadProgress)
    child = impatient.child
    impatient.engine.silence_s = 0.2
    lost = failed(impatient.until(Failed, Finished)[-1])
    child.wait(HANGS_S)

    assert (lost.request, type(lost.error)) == (number, EngineLostError)
    assert lost.error.message == "a:5 did not answer for 0 seconds; the engine process was ended."
