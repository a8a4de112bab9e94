"""`tandem serve` as a command: its address, its view, and `tandem run` beside it."""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.cli.options import read_pair
from app.cli.running_server import RunningServer, announced
from app.cli.serve import LiveView
from app.core.errors import AppError, StoppedError
from app.core.paths import server_file
from app.engine.stats import GenerationStats
from app.models.source import DemoModel
from app.server.app import bound_socket
from app.server.engine_queue import Metrics
from app.worker.events import Failed, Notice
from tests.fake_engine import GAINING, PAIR
from tests.hanging import HANGS_S
from tests.tandem import run_process

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], int, dict[str, str]]]:
    """Serve the demo on a free port, with its own home folder."""
    home = str(tmp_path_factory.mktemp("serve"))
    folders = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    environment = {**os.environ, **dict.fromkeys(folders, home), "TANDEM_API_KEY": "secret"}
    command = [sys.executable, "-m", "app", "serve", "--port", "0", "--ctx", "512", "--no-draft"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("Serving"))
    port = int(line.rsplit(":", 1)[1].partition("/")[0])
    yield process, port, environment
    process.send_signal(signal.SIGINT)
    assert process.wait(HANGS_S) == 0
    assert not list(Path(home).rglob("server.json"))


def test_the_server_answers(server: tuple[subprocess.Popen[str], int, dict[str, str]]) -> None:
    connection = HTTPConnection("127.0.0.1", server[1], timeout=HANGS_S)
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": "Bearer secret"})
    answer = json.loads(connection.getresponse().read())
    assert answer["choices"][0]["message"]["content"]
    assert answer["timings"]["predicted_n"] == 8


@pytest.mark.parametrize("as_json", [False, True])
def test_run_lets_a_running_server_answer(
    server: tuple[subprocess.Popen[str], int, dict[str, str]], as_json: bool
) -> None:
    command = ["run", "--temp", "0", "--max-tokens", "8", "Say hello.", *(["--json"] if as_json else [])]
    file = next(Path(server[2]["XDG_CACHE_HOME"]).rglob("server.json"))
    stored = json.loads(file.read_text())
    # The demo without its draft is a different pair from the demo, which this command would load.
    file.write_text(json.dumps({**stored, "draft": str(DemoModel("draft"))}))
    folders: dict[str, Any] = server[2]
    own, served = run_process(*command, "--no-server", **folders), run_process(*command, **folders)
    file.write_text(json.dumps(stored))
    if as_json:
        asked, answered = own.json, served.json
        assert (answered.keys(), answered["text"]) == (asked.keys(), asked["text"])
        assert [bool(each["models"]["draft"]) for each in (asked, answered)] == [True, False]
    else:
        assert served.out == own.out
        assert served.err.startswith("8 tokens")
        assert served.err.endswith("; no draft; cut at --max-tokens\n")


def test_a_taken_port_is_an_error_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_a_server_that_is_gone_is_no_error(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with announced(RunningServer(f"http://127.0.0.1:{port}/v1", "", "")):
        file = server_file()
        options = read_pair({})
        raw = json.loads(file.read_text())
        file.write_text(json.dumps({**raw, "target": str(options.pair.target), "draft": str(options.pair.draft)}))
        assert main(["run", "--max-tokens", "1", "hello"]) == 0
    assert "1 token" in capsys.readouterr().err


def view_of(**counters: Any) -> LiveView:
    """Return the view of a server with these counters."""
    metrics = Metrics(**counters)
    metrics.pair = PAIR
    return LiveView(metrics, "http://127.0.0.1:1/v1")


def test_the_view_has_a_line_for_each_number(capsys: pytest.CaptureFixture[str]) -> None:
    total = GenerationStats(cache_n=500, prompt_n=1000, predicted_n=250, draft_n=100, draft_n_accepted=78)
    view = view_of(n_running=1, n_waiting=2, n_answered=3, total=total, tokens_per_second=42.0, current=GAINING)
    assert view.lines()[:6] == [
        "Serving http://127.0.0.1:1/v1",
        f"target    {PAIR.target.name}, context 32,768",
        "draft     Qwen2.5-Coder-0.5B-Instruct",
        "requests  1 running, 2 waiting, 3 answered",
        "speed     42 tok/s · 3.1× · acceptance 78%",
        "tokens    1,500 prompt (500 cached), 250 generated",
    ]
    view.on_end("POST", "/v1/chat/completions", 200)
    assert capsys.readouterr().err.endswith("POST /v1/chat/completions 200\n")


def test_events_of_the_models_are_logged(capsys: pytest.CaptureFixture[str]) -> None:
    view = view_of()
    capsys.readouterr()
    for event in (
        Failed(1, AppError("The engine process crashed: no memory.", "Use a shorter context (⟨model.ctx⟩).")),
        Failed(2, StoppedError("It was stopped.")),
        Notice("The models had to be loaded again."),
    ):
        view.receive(event)

    assert capsys.readouterr().err.splitlines() == [
        "The engine process crashed: no memory. Use a shorter context (--ctx).",
        "The models had to be loaded again.",
    ]


def test_the_server_outlives_the_reader_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", 0) as pipe:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(pipe, write_through=True))
        view = view_of()
        view.receive(Failed(1, AppError("The engine process crashed.")))
        view.on_end("POST", "/v1/chat/completions", 400)


def test_small_writes_do_not_wait_for_the_client() -> None:
    async def no_delay() -> int:
        found: asyncio.Queue[int] = asyncio.Queue()

        def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = bound_socket("127.0.0.1", 0)
        async with await asyncio.start_server(accept, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            writer.close()
            return await found.get()

    # Otherwise each may wait 40 ms for a delayed acknowledgment.
    assert asyncio.run(no_delay())
