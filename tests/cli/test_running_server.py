"""`tandem run` with a running server: signals and notices."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from app.cli.output import AnswerPrinter, TerminalLine
from app.cli.running_server import RunningServer, ServerAnswer
from app.core.errors import INTERRUPTED
from app.server.fields import Fields
from app.server.service import Service
from app.settings.layers import DEFAULTS, Layer, Resolved
from app.worker.request import AnswerRequest

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
TEXT = b'data: {"choices": [{"delta": {"content": "Hi"}}], "timings": {"predicted_n": 1}}\n\n'


@contextmanager
def sending(data: bytes, *, ends: bool = True, settings: Resolved = DEFAULTS) -> Iterator[ServerAnswer]:
    """Serve a response that ends by itself or when the client closes the connection."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(data)
            while not ends and connection.recv(1 << 16):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        yield ServerAnswer(RunningServer(f"http://127.0.0.1:{port}/v1", "t", ""), settings, as_json=False)
        thread.join()


def test_a_server_answers_with_the_settings_of_run_and_detects_loops_for_no_other_client() -> None:
    asked: Layer = {"sampling.seed": 7, "answer.max_tokens": 12, "answer.thinking": "off", "answer.stop": ("a", "\n")}
    settings = DEFAULTS.over({**asked, "answer.stop_on_repeat": True})
    service = Service(Mock(), DEFAULTS.over({"sampling.temp": 1.0, "answer.system": "Be brief."}), "fake")
    sent = ServerAnswer(RunningServer("http://x/v1", "t", ""), settings, as_json=False)._body(AnswerRequest(()))
    read = service.reading(Fields(json.loads(json.dumps(sent))))
    assert AnswerRequest.of(read) == AnswerRequest.of(settings)
    assert service.reading(Fields({}))["answer.stop_on_repeat"] is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("data", "owner", "name", "expected"),
    [
        (b"", TerminalLine, "show", "0 tokens; stopped\n"),
        (HEAD + TEXT + b"data: ", AnswerPrinter, "print", "1 token; stopped\n"),
        (
            HEAD + b": keep-alive\n\n",
            TerminalLine,
            "say",
            "Waiting for the server's current answer.\n0 tokens; stopped\n",
        ),
    ],
)
def test_a_signal_stops_an_answer_of_a_server(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    data: bytes,
    owner: type,
    name: str,
    expected: str,
) -> None:
    signals, show = iter([number]), getattr(owner, name)

    def interrupted(*what: object) -> None:
        show(*what)
        for one in signals:
            signal.raise_signal(one)

    monkeypatch.setattr(owner, name, interrupted)
    with sending(data, ends=False) as answer:
        assert answer.print(AnswerRequest(())) == INTERRUPTED
    assert capsys.readouterr().err == expected


def test_waiting_for_another_answer_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    with sending(HEAD + b": keep-alive\n\n" * 2 + TEXT + b"data: [DONE]\n\n") as answer:
        assert answer.print(AnswerRequest(())) == 0
    assert capsys.readouterr() == ("Hi", "Waiting for the server's current answer.\n")
    progress = b'data: {"choices": [], "prompt_progress": {}}\n\n'
    with sending(HEAD + progress + b": keep-alive\n\n" + TEXT + b"data: [DONE]\n\n") as answer:
        answer.print(AnswerRequest(()))
    assert capsys.readouterr().err == "", "a long prompt is no wait"


def test_a_flag_that_the_model_of_the_server_ignores_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    support = {"switchable": False, "effort": False, "effort_on": False}
    report = {"choices": [], "tandem": {"answer": {}, "summary": "1 token", "thinking_support": support}}
    data = HEAD + TEXT + f"data: {json.dumps(report)}\n\ndata: [DONE]\n\n".encode()
    with sending(data, settings=DEFAULTS.over({"answer.thinking": "on"})) as answer:
        answer.print(AnswerRequest(()))
    assert capsys.readouterr().err == (
        "1 token\nThis model cannot turn reasoning on or off: --thinking changes nothing.\n"
    )
