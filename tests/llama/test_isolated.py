"""The demo pair in a child process: the same answers, and a cancellation during native work."""

import os
import queue
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.core.errors import DoesNotFitError, EngineLostError
from app.core.program import python_command, python_environment
from app.engine.events import PromptProgress, Step
from app.engine.types import FinishReason
from app.llama.child import SafeFiles
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event, Failed, Finished, Loaded
from app.worker.isolated_engine import IsolatedEngine
from app.worker.loading import measured_params
from tests.hanging import HANGS_S
from tests.llama.conftest import Begin
from tests.llama.params import loader_of
from tests.llama.tiny_model import write_aborting_model
from tests.worker.harness import question

pytestmark = pytest.mark.native


def test_the_flag_decides_where_the_models_run(begin: Begin) -> None:
    assert isinstance(begin("--no-draft").engine, EngineWorker)
    assert isinstance(begin("--no-draft", "--isolate").engine, IsolatedEngine)
    assert isinstance(begin("--no-draft", "--rpc", "127.0.0.1:1").engine, IsolatedEngine)


def test_a_cancel_arrives_in_the_middle_of_native_work(begin: Begin) -> None:
    running = begin("--isolate", "--no-draft", "--ctx", "2048")
    running.until(Loaded)
    running.engine.answer(question("one two three four " * 400, None))
    first = running.until(PromptProgress)[-1]
    running.engine.cancel()
    *more, last = running.until(Finished, Failed)

    assert isinstance(last, Finished)
    assert last.reason is FinishReason.CANCELLED
    assert isinstance(first, PromptProgress)
    # The running batch was not finished first.
    assert all(isinstance(event, PromptProgress) and event.done <= first.done < event.total for event in more)


def test_a_process_that_is_killed_for_memory_names_what_takes_less(begin: Begin) -> None:
    running = begin("--isolate", "--ctx", "2048")
    running.until(Loaded)
    running.engine.answer(question("Count to a thousand.", None))
    running.until(Step)
    running.child.kill()
    lost = running.until(Failed)[-1]
    running.engine.answer(question("Hello", 3))

    assert isinstance(lost, Failed)
    assert "was killed by the system" in lost.error.message
    assert "when memory runs out; use a shorter context (⟨model.ctx⟩)" in lost.error.hint
    assert isinstance(running.until(Finished, Failed)[-1], Finished)


def test_the_abort_message_of_the_library_is_shown(begin: Begin, tmp_path: Path) -> None:
    path = write_aborting_model(tmp_path / "m.gguf")
    # Otherwise the file would never get this far.
    kept = measured_params(loader_of("--target", str(path), "--fit", "off")).safe_files
    SafeFiles(kept).add(path)

    lost = begin("--isolate", "--fit", "off", "--target", str(path)).until(Failed)[-1]

    assert isinstance(lost, Failed)
    assert isinstance(lost.error, EngineLostError)
    assert "crashed: smallthinker.cpp:" in lost.error.message
    assert "n_expert > 0" in lost.error.message


def test_a_pair_that_does_not_fit_is_refused_with_the_offers() -> None:
    small = (
        "from app.hardware.system import System; System.memory = lambda self: (10**8, 10**8)\n"
        "from app.llama.cancel import CancelFlag; from app.worker.engine_process import serve; serve(CancelFlag())"
    )
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    # A process that imports only its own entry point, which no test process is.
    engine = IsolatedEngine([events.put], python_command("-c", small))
    try:
        engine.load(loader_of("--isolate", "--ctx", "2048"))
        told = events.get(timeout=HANGS_S)
    finally:
        engine.close(30)

    assert isinstance(told, Failed)
    assert isinstance(told.error, DoesNotFitError)
    assert "in RAM" in told.error.message
    assert told.error.offers


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_stops_a_run_and_leaves_no_process() -> None:
    command = python_command(
        "-m", "app", "run", "--temp", "0", "--no-draft", "--threads", "1", "--isolate", "Count to a thousand."
    )
    # Its own process group, as in a shell: Ctrl+C goes to all of it.
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, env=python_environment(), process_group=0)
    assert parent.stdout is not None
    with parent.stdout:
        assert parent.stdout.read(1)
        (program,) = psutil.Process(parent.pid).children()
        (child,) = program.children()
        os.killpg(parent.pid, signal.SIGINT)
        parent.stdout.read()
        assert parent.wait(HANGS_S) == 130
        child.wait(HANGS_S)
