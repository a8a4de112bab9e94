"""A child that does not hear a stop, or says nothing any more: the chat is not the one that waits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from app.conversations.message import Begun
from app.core.errors import EngineLostError, StoppedError
from app.engine.types import AutoDraft, Drafting, DraftParams, FinishReason, SamplingParams
from app.worker.events import Failed, Finished, Loaded, LoadProgress, Notice, Step
from app.worker.isolated.engine import Deadlines
from tests.worker.isolated.fake_process import FakeJob, FakeLoader, FakeLook
from tests.worker.isolated.harness import ENDLESS, Harness, failed, finished, question

IMPATIENT = Deadlines(stop=0.05, kill=60.0)


@pytest.fixture
def unresponsive() -> Iterator[Harness]:
    """An engine that gives its child a moment to stop."""
    made = Harness(deadlines=IMPATIENT)
    yield made
    made.engine.close(5)


def hang(unresponsive: Harness, mark: Path, until: str = "") -> int:
    """Bring it into an answer whose fifth call does not return, once; returns the number of the request."""
    unresponsive.engine.load(FakeLoader(waits_at=5, mark=str(mark), until=until))
    unresponsive.until(Loaded)
    number = unresponsive.engine.answer(ENDLESS)
    for _ in range(4):
        unresponsive.until(Step)
    appears(mark)
    return number


def hang_and_stop(unresponsive: Harness, mark: Path) -> psutil.Process:
    """Stop such an answer, which ends without its process; returns that one."""
    hang(unresponsive, mark)
    child = unresponsive.child
    unresponsive.engine.cancel()
    unresponsive.until(Finished)
    return child


def appears(mark: Path) -> None:
    """Wait until the child has come to the call that does not return."""
    deadline = time.monotonic() + 60
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestStop:
    def test_an_answer_ends_with_what_was_said(self, unresponsive: Harness, tmp_path: Path) -> None:
        number = hang(unresponsive, tmp_path / "mark")
        unresponsive.engine.cancel()

        last = finished(unresponsive.until(Finished, Failed)[-1])

        assert (last.request, last.reason, len(last.text)) == (number, FinishReason.CANCELLED, 4)
        assert last.stats.predicted_n == 4
        assert (last.plan.mode, last.plan.drafter, last.plan.seed) == ("off", "none", None)

    @pytest.mark.parametrize(
        ("drafting", "draft", "drafter"),
        [
            (DraftParams(3, 0, 0.0), True, "model"),
            (DraftParams(3, 0, 0.0), False, "none"),
            (AutoDraft(), True, "model+ngram"),
            (AutoDraft(model=False), True, "ngram"),
            (AutoDraft(lookup=False), False, "none"),
        ],
    )
    def test_it_ends_as_one_that_heard(
        self,
        unresponsive: Harness,
        harness: Harness,
        tmp_path: Path,
        drafting: Drafting,
        draft: bool,
        drafter: str,
    ) -> None:
        """The rest of a begun answer: text and plan are as from a child that hears, anyone who drafted meanwhile."""
        asked = replace(question(max_tokens=None, drafting=drafting), begun=Begun(" Well,"))
        ends = []
        for engine, waits_at in ((harness, None), (unresponsive, 9)):
            mark = tmp_path / str(waits_at)
            engine.engine.load(FakeLoader(n_ctx=100_000, draft=draft, waits_at=waits_at, mark=str(mark)))
            engine.until(Loaded)
            engine.engine.answer(asked)
            for _ in range(5):
                engine.until(Step)
            if waits_at is not None:
                appears(mark)
            engine.engine.cancel()
            ends.append(finished(engine.until(Finished, Failed)[-1]))

        heard, unheard = ends
        assert unheard.plan == heard.plan
        assert heard.plan.drafter == drafter
        assert unheard.text.startswith("Well,")
        assert len(unheard.text) > len("Well,") + 5
        assert heard.text.startswith(unheard.text) or unheard.text.startswith(heard.text)

    @pytest.mark.parametrize("given", [7, None])
    def test_the_seed_of_a_draw_is_told_though_nobody_heard(
        self, unresponsive: Harness, tmp_path: Path, given: int | None
    ) -> None:
        asked = replace(ENDLESS, sampling=SamplingParams(seed=given))
        mark = tmp_path / "mark"
        unresponsive.engine.load(FakeLoader(waits_at=5, mark=str(mark)))
        unresponsive.engine.answer(asked)
        appears(mark)
        unresponsive.engine.cancel()
        unheard = finished(unresponsive.until(Finished, Failed)[-1])
        unresponsive.engine.load(FakeLoader())
        unresponsive.engine.answer(replace(asked, max_tokens=2))
        heard = finished(unresponsive.until(Finished, Failed)[-1])

        assert heard.plan.seed
        assert unheard.plan.seed
        assert (heard.plan.seed == unheard.plan.seed == 7) is (given == 7)

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
    def test_a_call_that_returns_late_disturbs_nobody(self, unresponsive: Harness, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        hang(unresponsive, tmp_path / "mark", str(tmp_path / "pipe"))
        before = unresponsive.child.pid
        unresponsive.engine.cancel()
        unresponsive.until(Finished)
        number = unresponsive.engine.answer(question())
        (tmp_path / "pipe").write_text("")
        heard = unresponsive.until(Finished, Failed)

        assert {getattr(event, "request", number) for event in heard} == {number}
        assert finished(heard[-1]).reason is FinishReason.LENGTH
        assert unresponsive.child.pid == before

    def test_loading_ends_with_its_process(self, unresponsive: Harness) -> None:
        unresponsive.engine.load(FakeLoader(waits_at="loading"))
        unresponsive.until(LoadProgress)
        child = unresponsive.child
        unresponsive.engine.cancel()
        stopped = failed(unresponsive.until(Failed)[-1])
        child.wait(30)
        unresponsive.engine.load(FakeLoader())

        assert (stopped.request, type(stopped.error)) == (None, StoppedError)
        assert isinstance(unresponsive.until(Loaded, Failed)[-1], Loaded)

    def test_what_was_asked_after_the_stop_is_done(self, unresponsive: Harness) -> None:
        """As the chat does when another pair is chosen while one loads."""
        unresponsive.engine.load(FakeLoader(waits_at="loading"))
        waiting = unresponsive.engine.answer(ENDLESS)
        unresponsive.until(LoadProgress)
        unresponsive.engine.cancel()
        unresponsive.engine.load(FakeLoader(n_ctx=77))
        number = unresponsive.engine.answer(question())

        assert failed(unresponsive.until(Failed)[-1]).request is None
        cut = finished(unresponsive.until(Finished)[-1])
        assert (cut.request, cut.reason, cut.text) == (waiting, FinishReason.CANCELLED, "")
        (*_, loaded) = unresponsive.until(Loaded, Failed)
        assert isinstance(loaded, Loaded)
        assert loaded.pair.n_ctx == 77
        assert finished(unresponsive.until(Finished, Failed)[-1]).request == number

    def test_another_pair_does_not_wait(self, unresponsive: Harness, tmp_path: Path) -> None:
        child = hang_and_stop(unresponsive, tmp_path / "mark")
        unresponsive.engine.load(FakeLoader())

        assert isinstance(unresponsive.until(Loaded, Failed)[-1], Loaded)
        child.wait(30)

    def test_a_second_stop_ends_the_process(self, unresponsive: Harness, tmp_path: Path) -> None:
        child = hang_and_stop(unresponsive, tmp_path / "mark")
        second = unresponsive.engine.answer(question())
        unresponsive.engine.cancel()
        assert finished(unresponsive.until(Finished, Failed)[-1]).request == second
        child.wait(30)
        third = unresponsive.engine.answer(question())
        last = finished(unresponsive.until(Finished, Failed)[-1])

        assert (last.request, last.reason) == (third, FinishReason.LENGTH)

    def test_a_job(self, unresponsive: Harness, tmp_path: Path) -> None:
        hang(unresponsive, tmp_path / "mark")
        number = unresponsive.engine.run(FakeJob())
        unresponsive.engine.cancel()
        unresponsive.until(Finished)

        stopped = failed(unresponsive.until(Failed)[-1])
        assert (stopped.request, type(stopped.error)) == (number, StoppedError)

    def test_a_stop_that_is_heard_changes_nothing_later(self, unresponsive: Harness) -> None:
        harness = Harness(deadlines=Deadlines(stop=0.0, kill=60.0))
        harness.engine.load(FakeLoader(n_ctx=100_000))
        harness.until(Loaded)
        numbers = []
        for _ in range(3):
            numbers.append(harness.engine.answer(ENDLESS))
            harness.until(Step)
            harness.engine.cancel()
            assert finished(harness.until(Finished, Failed)[-1]).request == numbers[-1]
        # Anyone who came first, the child or the end of the wait: nothing is told twice.
        numbers.append(harness.engine.answer(question()))
        assert finished(harness.until(Finished, Failed)[-1]).request == numbers[-1]
        harness.engine.close(5)

    def test_a_child_that_never_stops_is_ended(self, unresponsive: Harness, tmp_path: Path) -> None:
        unresponsive.engine.deadlines = replace(IMPATIENT, kill=0.2)
        child = hang_and_stop(unresponsive, tmp_path / "mark")
        (notice,) = unresponsive.until(Notice, Failed)
        child.wait(30)
        number = unresponsive.engine.answer(question())

        assert notice == Notice(
            "The engine process did not stop and was ended; the next answer loads the models again."
        )
        assert finished(unresponsive.until(Finished, Failed)[-1]).request == number


class TestSilence:
    """Servers of remote devices that do not answer: llama.cpp waits without a limit."""

    @pytest.fixture
    def watched(self) -> Iterator[Harness]:
        made = Harness(servers=["a:5"], deadlines=replace(IMPATIENT, notice=0.3, silence=0.6))
        yield made
        made.engine.close(5)

    def test_an_answer_ends_and_the_next_one_loads_the_pair_again(self, watched: Harness, tmp_path: Path) -> None:
        watched.engine.deadlines = IMPATIENT
        number = hang(watched, tmp_path / "mark")
        child = watched.child
        watched.engine.deadlines = replace(IMPATIENT, notice=0.1, silence=0.2)
        # Wake it, so that it looks at its new deadlines.
        watched.engine.run(FakeLook())
        notice = watched.until(Notice)[-1]
        lost = failed(watched.until(Failed, Finished)[-1])
        child.wait(30)
        watched.engine.deadlines = IMPATIENT
        again = watched.engine.answer(question())

        assert notice == Notice("a:5 has not answered for 0 seconds. Esc stops the wait.")
        assert (lost.request, type(lost.error)) == (number, EngineLostError)
        assert lost.error.message == (
            "a:5 has not answered for 0 seconds while writing the answer; the engine process was ended."
        )
        assert lost.error.hint == "Send the prompt again; the models are loaded again first."
        assert finished(watched.until(Finished, Failed)[-1]).request == again

    def test_loading_ends(self, watched: Harness) -> None:
        watched.engine.deadlines = Deadlines(notice=2.0, silence=2.2)
        watched.engine.load(FakeLoader(waits_at="loading"))

        lost = failed(watched.until(Failed)[-1])

        assert lost.request is None
        assert "a:5 has not answered for 2 seconds while loading the target model; " in lost.error.message
