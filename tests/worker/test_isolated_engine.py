"""The engine in a child process: the same events, however the process dies."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest

from app.core.errors import EngineLostError, ModelLoadError
from app.core.paths import log_file
from app.core.program import python_command, python_environment
from app.engine.events import PromptProgress, Step
from app.engine.types import DraftParams, FinishReason
from app.worker.events import Failed, Finished, JobEnded, Loaded, LoadProgress, Notice, PairChanged
from tests.hanging import HANGS_S
from tests.worker.fake_process import MODULE, FakeLoader, OptionalJob
from tests.worker.harness import ENDLESS, Harness, WorkerHarness, failed, finished, question, untimed


def end(harness: Harness) -> None:
    """Kill the idle child and wait until the thread that reads from it has noticed."""
    harness.child.kill()
    for thread in threading.enumerate():
        if thread.name == "engine read":
            thread.join(HANGS_S)


class TestSameAsTheWorker:
    def test_events_are_those_of_the_worker_in_this_process(self, harness: Harness, here: WorkerHarness) -> None:
        drafted = question("hello", max_tokens=40, drafting=DraftParams(3, 0, 0.0), stops=("zz",))
        loader = FakeLoader(draft=True)
        for engine in (here.worker, harness.engine):
            engine.load(loader)
            assert [engine.answer(drafted), engine.answer(question())] == [2, 3]
        seen, there = ([*one.until(Finished), *one.until(Finished)] for one in (here, harness))

        assert [untimed(event) for event in there] == [untimed(event) for event in seen]

    def test_drafting_stays_off_also_in_the_next_process(self, harness: Harness) -> None:
        asked = question("hello", max_tokens=20, drafting=DraftParams(3, 0, 0.0))
        harness.engine.load(FakeLoader(draft=True))
        harness.engine.draft(False)
        harness.engine.answer(asked)
        assert finished(harness.until(Finished)[-1]).stats.draft_n == 0
        end(harness)
        harness.engine.answer(asked)
        assert finished(harness.until(Finished)[-1]).stats.draft_n == 0

        harness.engine.draft(True)
        harness.engine.answer(asked)
        assert finished(harness.until(Finished)[-1]).stats.draft_n > 0

    def test_an_optional_job_does_not_load_a_lost_pair_again(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader(n_ctx=77))
        harness.until(Loaded)
        end(harness)
        number = harness.engine.run(OptionalJob())

        assert harness.until(JobEnded) == [JobEnded(number, None)]
        assert harness.engine._process is None
        harness.engine.answer(question())
        harness.until(Finished)
        number = harness.engine.run(OptionalJob())
        assert harness.until(JobEnded)[-1] == JobEnded(number, 77)

    def test_an_ordinary_failure_leaves_the_process_alone(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader(fails_at=2))
        harness.until(Loaded)
        before = harness.child.pid
        number = harness.engine.answer(question())
        error = failed(harness.until(Failed)[-1])
        harness.engine.answer(question())

        assert (error.request, error.error.message) == (number, "The fake failed.")
        assert isinstance(harness.until(Finished, Failed)[-1], Finished)
        assert harness.child.pid == before


class TestDeath:
    def test_a_crash_while_loading_fails_the_load_and_another_pair_loads(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader(dies_at="loading"))
        waiting = harness.engine.answer(question())
        first, second = failed(harness.until(Failed)[-1]), failed(harness.until(Failed)[-1])
        harness.engine.load(FakeLoader())
        number = harness.engine.answer(question())

        assert first.error.message == "The engine process crashed: ggml-x.cpp:12: GGML_ASSERT(it == that) failed."
        assert (first.request, second.request) == (None, waiting)
        assert finished(harness.until(Finished, Failed)[-1]).request == number

    def test_a_crash_in_an_answer_loads_the_pair_again(self, harness: Harness, tmp_path: Path) -> None:
        harness.engine.load(FakeLoader(dies_at=4, mark=str(tmp_path / "mark")))
        harness.until(Loaded)
        number = harness.engine.answer(ENDLESS)
        *shown, last = harness.until(Finished, Failed)
        *_, notice, progress = harness.until(LoadProgress)
        again = harness.engine.answer(question())

        assert [type(event) for event in shown if not isinstance(event, PromptProgress)] == [Step] * 3
        assert "The engine process crashed: ggml-x.cpp" in failed(last).error.message
        assert failed(last).request == number
        assert notice == Notice("The models had to be loaded again.")
        assert isinstance(progress, LoadProgress)
        assert finished(harness.until(Finished, Failed)[-1]).request == again

    def test_a_second_crash_in_a_row_waits_for_the_next_prompt(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader(dies_at=4))
        harness.until(Loaded)
        harness.engine.answer(ENDLESS)
        harness.until(Failed)
        second, third = harness.engine.answer(ENDLESS), harness.engine.answer(ENDLESS)
        heard = [event for _ in range(2) for event in harness.until(Failed)]

        assert [failed(event).request for event in heard if isinstance(event, Failed)] == [second, third]
        # The first crash loaded the pair again: the second message does not say so.
        assert heard.count(Notice("The models had to be loaded again.")) == 1

    def test_a_crash_while_idle_loads_the_pair_again(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader())
        harness.until(Loaded)
        end(harness)
        number = harness.engine.answer(question())
        heard = harness.until(Finished, Failed)

        # The reload is no Loaded event, because no load was requested.
        assert any(isinstance(event, PairChanged) for event in heard)
        assert not any(isinstance(event, Loaded) for event in heard)
        assert finished(heard[-1]).request == number

    @pytest.mark.parametrize("code", ["import time; print('[]', flush=True); time.sleep(3600)", "raise SystemExit(3)"])
    def test_a_child_that_prints_garbage_fails_the_command(self, code: str) -> None:
        harness = Harness([sys.executable, "-c", code])
        harness.engine.load(FakeLoader())

        lost = failed(harness.until(Failed)[-1])

        assert isinstance(lost.error, EngineLostError)

    def test_a_child_that_cannot_be_started_fails_every_command(self, tmp_path: Path) -> None:
        harness = Harness([str(tmp_path / "missing")])
        harness.engine.load(FakeLoader())
        first = failed(harness.until(Failed)[-1])
        number = harness.engine.answer(question())
        second = failed(harness.until(Failed)[-1])

        assert first.error.message == "The engine process cannot be started: No such file or directory."
        assert (first.request, second.request) == (None, number)
        assert harness.engine.close(5)


class TestCancel:
    def test_a_waiting_answer_is_cancelled_with_it_and_a_later_one_is_not(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader(n_ctx=100_000))
        running, waiting = harness.engine.answer(ENDLESS), harness.engine.answer(ENDLESS)
        harness.until(Step)
        harness.engine.cancel()
        later = harness.engine.answer(question())

        ends = [finished(harness.until(Finished)[-1]) for _ in range(3)]

        assert [(end.request, end.reason) for end in ends] == [
            (running, FinishReason.CANCELLED),
            (waiting, FinishReason.CANCELLED),
            (later, FinishReason.LENGTH),
        ]


class TestEnd:
    @pytest.mark.parametrize("waits_at", [None, "loading", 2])
    def test_close_ends_the_process_at_any_work(self, harness: Harness, waits_at: int | str | None) -> None:
        harness.engine.load(FakeLoader(n_ctx=100_000, waits_at=waits_at))
        harness.engine.answer(ENDLESS)
        harness.until(LoadProgress if waits_at == "loading" else PromptProgress)
        child = harness.child

        assert harness.engine.close(60)
        child.wait(HANGS_S)

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
    @pytest.mark.parametrize("waits_at", [None, "loading"])
    def test_the_child_ends_with_a_parent_that_is_killed(self, waits_at: int | str | None) -> None:
        code = f"""
            import time
            from tests.worker.fake_process import FakeLoader
            from tests.worker.harness import ENDLESS, Harness
            from app.engine.events import PromptProgress
            from app.worker.events import LoadProgress
            harness = Harness()
            harness.engine.load(FakeLoader(n_ctx=1_000_000, waits_at={waits_at!r}))
            harness.engine.answer(ENDLESS)
            harness.until(LoadProgress if {waits_at!r} == "loading" else PromptProgress)
            print(harness.child.pid, flush=True)
            time.sleep(3600)
        """
        command = python_command("-c", textwrap.dedent(code))
        parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=python_environment())
        assert parent.stdout is not None
        with parent.stdout:
            child = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
            parent.wait()
            child.wait(HANGS_S)

    def test_the_child_is_in_another_process_group(self, harness: Harness) -> None:
        harness.engine.load(FakeLoader())
        harness.until(Loaded)

        assert MODULE in harness.child.cmdline()
        if sys.platform != "win32":
            assert os.getpgid(harness.child.pid) != os.getpgid(0)


class TestReload:
    def test_a_load_that_fails_the_second_time_fails_the_answer(self, harness: Harness, tmp_path: Path) -> None:
        mark = tmp_path / "mark"
        # The first load creates the mark; the second, in the next process, finds it.
        harness.engine.load(FakeLoader(fails_at="loading", mark=str(mark)))
        harness.until(Loaded)
        end(harness)
        number = harness.engine.answer(question())
        error = failed(harness.until(Failed)[-1])

        assert isinstance(error.error, ModelLoadError)
        assert (error.request, error.error.message) == (number, "It is gone.")
        # It is reported once, and the next answer tries again.
        mark.unlink()
        number = harness.engine.answer(question())
        assert finished(harness.until(Finished, Failed)[-1]).request == number

    def test_a_failed_reload_is_reported(self, harness: Harness, tmp_path: Path) -> None:
        harness.engine.load(FakeLoader(n_ctx=100_000, fails_at="loading", mark=str(tmp_path / "mark")))
        harness.until(Loaded)
        harness.engine.answer(ENDLESS)
        harness.until(Step)
        harness.child.kill()
        harness.until(Failed)
        harness.until(Failed)

        assert harness.until(Notice)[-1] == Notice("The models could not be loaded again. It is gone. Bring it back.")


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of the log is set in XDG's way")
def test_the_messages_of_the_child_are_in_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    harness = Harness()
    # It takes no flag and no function.
    harness.engine.load(int)  # type: ignore[arg-type]
    harness.until(Failed)
    harness.engine.close(60)

    assert "unexpected failure in the engine" in log_file().read_text(encoding="utf-8")
