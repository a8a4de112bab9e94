"""Devices behind ggml's RPC, on loopback: needs a llama.cpp that is built with it."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.message import Message, Role
from app.child import python_command, python_environment
from app.cli.engine import Engine, make_engine
from app.cli.loader import PairLoader
from app.cli.options import read_options
from app.cli.parser import build_parser
from app.engine.types import FinishReason, SamplingParams
from app.errors import EngineLostError, ModelLoadError, RemoteError
from app.events import Event, Failed, Finished, Loaded, LoadProgress, Notice, StepCompleted
from app.hardware.rpc import Endpoint, ask
from app.isolated.engine import IsolatedEngine
from app.isolated.patience import Limits
from app.llama import remote
from app.llama.pair import PairParams
from app.responder import AnswerRequest

pytestmark = pytest.mark.native
LIBRARY = Path(os.environ.get("TANDEM_TEST_RPC_LIBRARY", Path.home() / ".cache" / "tandem-test-rpc"))
_TRIES = 600
Begun = tuple[queue.SimpleQueue[Event], AnswerRequest, Callable[[AnswerRequest], int]]
Begin = Callable[..., Begun]


class Server:
    """A server on this machine, on a port of its own that it keeps."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.endpoint = Endpoint("127.0.0.1", listener.getsockname()[1])
        self.start()

    def answers(self) -> None:
        """Wait until it does."""
        for _ in range(_TRIES):
            try:
                ask(self.endpoint)
            except RemoteError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not answer")

    def start(self) -> None:
        self._process = subprocess.Popen(
            python_command("-m", "tests.native.rpc_server", str(self.endpoint.port)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=python_environment(),
        )
        for _ in range(_TRIES):
            try:
                ask(self.endpoint)
            except RemoteError:
                assert self._process.poll() is None
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not answer")

    def freeze(self) -> None:
        """Its system goes on, and takes connections for it."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    if not LIBRARY.is_dir():
        pytest.skip(f"{LIBRARY} is absent; set TANDEM_TEST_RPC_LIBRARY to the libraries of a build with GGML_RPC")
    # For the processes that are started from here; this one has its library.
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARY))
    made = Server()
    yield made
    made.kill()


def run(*flags: str) -> dict[str, object]:
    command = python_command("-m", "app", "run", "--temp", "0", "--threads", "1", "--max-tokens", "16", "--json")
    done = subprocess.run(
        [*command, *flags, "Name three rivers."],
        capture_output=True,
        text=True,
        env=python_environment(),
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.fixture
def started() -> Iterator[list[Engine]]:
    """The engines of a test; they are closed after it."""
    made: list[Engine] = []
    yield made
    for engine in made:
        engine.close(30)


@pytest.fixture
def begin(started: list[Engine]) -> Begin:
    def make(*flags: str) -> Begun:
        options = read_options(build_parser().parse_args(["--threads", "1", *flags]))
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        engine = make_engine(options.process, events.put)
        started.append(engine)
        engine.load(PairLoader(options))
        request = AnswerRequest((Message(Role.USER, "Count to a thousand."),), SamplingParams(temperature=0))
        return events, request, engine.answer

    return make


def until(events: queue.SimpleQueue[Event], *kinds: type[Event]) -> Event:
    while not isinstance(event := events.get(timeout=120), kinds):
        pass
    return event


def test_the_target_goes_there_and_the_draft_stays_here(server: Server, begin: Begin) -> None:
    events, _, _ = begin("--rpc", str(server.endpoint))

    loaded = until(events, Loaded, Failed)

    assert isinstance(loaded, Loaded)
    assert loaded.pair.device == "RPC0, draft on CPU"


def test_the_answer_is_the_same_there(server: Server) -> None:
    far = run("--rpc", str(server.endpoint), "--draft-n-max", "3")

    assert far["text"] == run("--draft-n-max", "3")["text"]


def test_a_server_that_dies_in_an_answer_is_a_sentence_and_a_new_one_is_taken(server: Server, begin: Begin) -> None:
    events, request, answer = begin("--rpc", str(server.endpoint), "--no-draft")
    assert isinstance(until(events, Loaded, Failed), Loaded)
    number = answer(request)
    until(events, StepCompleted)
    server.kill()
    lost = until(events, Failed, Finished)
    again = answer(request)
    gone = until(events, Failed, Finished)
    server.start()
    last = answer(request)

    assert isinstance(lost, Failed)
    assert (lost.request, type(lost.error)) == (number, EngineLostError)
    assert "Remote RPC server crashed" in lost.error.message
    assert lost.error.hint.endswith("Without --rpc the models are loaded on this machine alone.")
    assert isinstance(gone, Failed)
    assert (gone.request, type(gone.error)) == (again, RemoteError)
    step = until(events, StepCompleted, Failed)
    assert isinstance(step, StepCompleted)
    assert step.request == last


def test_every_part_of_a_prompt_is_waited_for_where_a_server_computes_it() -> None:
    here = PairParams(Path("big.gguf"), Path("small.gguf"), n_threads=1)
    there = replace(here, rpc=("127.0.0.1:1",))

    assert (there.target_context(8192).waits, there.draft_context(8192).waits) == (True, True)
    assert (here.target_context(8192).waits, here.draft_context(8192).waits) == (False, False)


def test_one_that_is_not_there_is_a_sentence(server: Server, begin: Begin) -> None:
    server.kill()
    events, _, _ = begin("--rpc", str(server.endpoint), "--no-draft")

    failed = until(events, Failed, Loaded)

    assert isinstance(failed, Failed)
    assert failed.error.message == f"{server.endpoint} cannot be reached: Connection refused."


def test_a_build_without_rpc_refuses_before_it_asks_anybody() -> None:
    if remote.can_use_rpc():
        pytest.skip("this build has RPC")
    with pytest.raises(ModelLoadError, match="built without RPC"):
        remote.add_servers(("127.0.0.1:1",))
    remote.add_servers(())


# A server that hangs

freezing = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")


def hurry(engine: Engine, limits: Limits) -> None:
    """Have it watched by somebody who waits for seconds where people are given minutes."""
    assert isinstance(engine, IsolatedEngine)
    assert engine._vigil is not None
    engine._vigil.tick_s, engine._vigil._patience._limits = 0.1, limits


@freezing
def test_a_server_that_hangs_in_an_answer_is_a_sentence_and_a_notice_before(
    server: Server, begin: Begin, started: list[Engine]
) -> None:
    events, request, answer = begin("--rpc", str(server.endpoint), "--no-draft")
    assert isinstance(until(events, Loaded, Failed), Loaded)
    number = answer(request)
    for _ in range(3):
        assert isinstance(until(events, StepCompleted, Failed), StepCompleted)
    server.freeze()
    hurry(started[0], Limits(least=2.0, noticed=0.5))
    notice = until(events, Notice, Failed)
    lost = until(events, Failed, Finished)
    again = answer(request)
    refused = until(events, Failed, StepCompleted)
    server.thaw()
    server.answers()
    last = answer(request)

    assert isinstance(notice, Notice)
    assert notice.text.startswith(f"{server.endpoint} has not answered for ")
    assert isinstance(lost, Failed)
    assert (lost.request, type(lost.error)) == (number, EngineLostError)
    assert "while writing the answer; the engine process was ended" in lost.error.message
    assert lost.error.hint.endswith("Without --rpc the models are loaded on this machine alone.")
    # The greeting in front of loading has a time limit of its own.
    assert isinstance(refused, Failed)
    assert (refused.request, type(refused.error)) == (again, RemoteError)
    step = until(events, StepCompleted, Failed)
    assert isinstance(step, StepCompleted)
    assert step.request == last


@freezing
def test_a_server_that_hangs_while_loading_is_a_sentence(server: Server, begin: Begin, started: list[Engine]) -> None:
    events, _, _ = begin("--rpc", str(server.endpoint), "--no-draft")
    # The greeting is over by then.
    until(events, LoadProgress)
    server.freeze()
    hurry(started[0], Limits(loading=2.0, noticed=5.0))

    lost = until(events, Failed, Loaded)

    assert isinstance(lost, Failed)
    assert lost.request is None
    assert "has not answered for " in lost.error.message
    assert "while loading the target model; the engine process was ended" in lost.error.message


@freezing
def test_a_stop_brings_the_chat_back_from_a_server_that_hangs(
    server: Server, begin: Begin, started: list[Engine]
) -> None:
    events, request, answer = begin("--rpc", str(server.endpoint), "--no-draft")
    assert isinstance(until(events, Loaded, Failed), Loaded)
    number = answer(request)
    for _ in range(3):
        assert isinstance(until(events, StepCompleted, Failed), StepCompleted)
    server.freeze()
    started[0].cancel()
    cut = until(events, Finished, Failed)
    server.thaw()
    # It was not the end of the pair: whoever goes on after a while is answered by it.
    later = answer(request)
    seen = until(events, LoadProgress, StepCompleted, Failed)

    assert isinstance(cut, Finished)
    assert (cut.request, cut.reason) == (number, FinishReason.CANCELLED)
    assert cut.text
    assert isinstance(seen, StepCompleted)
    assert seen.request == later
