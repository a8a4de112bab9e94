"""Use devices of ggml's RPC on loopback; needs a llama.cpp built with RPC."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from app.core.errors import EngineLostError, ModelLoadError, RemoteError
from app.core.program import python_command, python_environment
from app.engine.types import FinishReason
from app.hardware.rpc import query_server
from app.llama import devices
from app.worker.events import Failed, Finished, Loaded
from tests.llama.conftest import Begin
from tests.tandem import run_process

pytestmark = pytest.mark.native
LIBRARY = Path(os.environ.get("TANDEM_TEST_RPC_LIBRARY", Path.home() / ".cache" / "tandem-test-rpc"))
_TRIES = 600


class Server:
    """A server on this machine with its own port."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        self.start()

    def answers(self) -> None:
        """Wait until the server answers."""
        for _ in range(_TRIES):
            try:
                query_server(self.endpoint)
            except RemoteError:
                assert self._process.poll() is None
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the server does not answer")

    def start(self) -> None:
        self._process = subprocess.Popen(
            python_command("-m", "tests.llama.rpc_server", self.endpoint.partition(":")[2]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=python_environment(),
        )
        self.answers()

    def freeze(self) -> None:
        """Stop the server; its system still accepts connections."""
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
    # Child processes use this library; this process has loaded its own.
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(LIBRARY))
    made = Server()
    yield made
    made.kill()


def text(*flags: str) -> str:
    """Return an answer of the program."""
    return run_process("run", "--temp", "0", "--threads", "1", "--max-tokens", "16", *flags, "Name three rivers.").out


@pytest.fixture
def remote_chat(server: Server, begin: Begin) -> Begin:
    """Return a function that starts a chat whose models go to the server."""
    return partial(begin, "--rpc", server.endpoint)


def test_the_target_is_placed_remotely_and_the_draft_locally(remote_chat: Begin) -> None:
    loaded = remote_chat().until(Loaded, Failed)[-1]

    assert isinstance(loaded, Loaded)
    assert loaded.pair.device == "RPC0, draft on CPU"


def test_the_answer_is_the_same_there(server: Server) -> None:
    far = text("--rpc", server.endpoint, "--draft-n-max", "3")

    assert far == text("--draft-n-max", "3") != ""


posix = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")
"""Marks tests that freeze the server."""


@pytest.mark.parametrize(
    ("freezes", "message"),
    [(False, "Remote RPC server crashed"), pytest.param(True, "did not answer for ", marks=posix)],
)
def test_a_server_that_ends_or_hangs_in_an_answer_is_an_error_and_can_return(
    server: Server, remote_chat: Begin, freezes: bool, message: str
) -> None:
    chat = remote_chat("--no-draft")
    number, usual = chat.answer_under_way(), chat.isolated.silence_s
    if freezes:
        server.freeze()
        chat.isolated.silence_s = 2.0
    else:
        server.kill()
    lost = chat.failed()
    chat.isolated.silence_s = usual
    again = chat.answer()
    refused = chat.failed(again)
    if freezes:
        server.thaw()
        server.answers()
    else:
        server.start()
    last = chat.answer()

    assert (lost.request, type(lost.error)) == (number, EngineLostError)
    assert message in lost.error.message
    assert lost.error.hint.endswith("Without ⟨rpc⟩ the models are loaded on this machine alone.")
    # The greeting before loading has its own time limit.
    assert (refused.request, type(refused.error)) == (again, RemoteError)
    chat.goes_on(last)


def test_a_missing_server_is_an_error(server: Server, remote_chat: Begin) -> None:
    server.kill()

    failed = remote_chat("--no-draft").failed()

    assert failed.error.message == f"{server.endpoint} cannot be reached: Connection refused."


def test_a_build_without_rpc_refuses_without_connecting() -> None:
    if "RPC" in devices.build().backends:
        pytest.skip("this build has RPC")
    with pytest.raises(ModelLoadError, match="built without RPC"):
        devices.add_servers(("127.0.0.1:1",))
    devices.add_servers(())


@posix
def test_a_stop_ends_the_wait_for_a_frozen_server(server: Server, remote_chat: Begin) -> None:
    chat = remote_chat("--no-draft")
    number = chat.answer_under_way()
    server.freeze()
    chat.isolated.stop_s = 0.5
    chat.engine.cancel()
    cut = chat.until(Finished, Failed)[-1]
    server.thaw()
    server.answers()

    assert isinstance(cut, Finished)
    assert (cut.request, cut.reason) == (number, FinishReason.CANCELLED)
    assert cut.text
    chat.goes_on(chat.answer())
