"""`tandem run` with tools: allowed calls run, and other calls are errors."""

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any
from unittest.mock import Mock

import pytest

from app.cli.run import Interrupt, Listener
from app.cli.run import run as run_command
from app.cli.run_tools import RunTools
from app.conversations.message import Message, Role
from app.core.errors import INTERRUPTED, AppError, UsageError
from app.engine.events import Step
from app.engine.text.segments import Segment
from app.engine.text.tool_calls import ToolCall
from app.engine.types import FinishReason
from app.settings.layers import DEFAULTS, Origin, Resolved
from app.settings.mcp_file import McpServer
from app.worker.engine_worker import Loader
from app.worker.events import Event, Loaded, ToolReturned, ToolsListed
from app.worker.request import AnswerRequest
from tests.conftest import ENDS
from tests.fake_engine import PAIR, STATS, FakeEngine
from tests.fake_tools import FILES, READ, WRITE, FakeToolHost, call
from tests.session.scripted import finished

FAILED = ToolsListed("files", error=AppError("It does not start."))
READS = call("read_file", '{"path": "notes.md"}')
OTHER = call("read_file", '{"path": "other.md"}')
LISTED = ToolsListed("files", (READ, WRITE))
CALLS = replace(finished(1, ""), calls=(READS,))
RETURNED = ToolReturned(1, "Buy milk.")


class Run:
    """A prompt with the file server."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *allowed: str,
        limit: int = 5,
        servers: tuple[McpServer, ...] = (FILES,),
    ) -> None:
        self.host = FakeToolHost()
        monkeypatch.setattr("app.cli.run_tools.ToolServers", lambda emit: self.host)
        monkeypatch.setattr("app.cli.run_tools.read_servers", lambda path: servers)
        self.requests: list[AnswerRequest] = []
        self.n_cancelled = 0
        self.events = SimpleQueue[Event | Interrupt]()
        self.said: list[str] = []
        asked = AnswerRequest((Message(Role.USER, "What is in notes.md?"),))
        self.tools = RunTools(asked, self.requests.append, self.events.put, allowed, limit, self.said.append)
        self.tools.start(None)
        self.tools.take(Loaded(PAIR))

    def lists(self) -> None:
        assert self.tools.take(ToolsListed("files", (READ, WRITE)))

    def calls(self, *calls: ToolCall) -> bool:
        return self.tools.take(replace(finished(1, "I look."), calls=calls))

    def returns(self, text: str) -> None:
        assert self.tools.take(ToolReturned(len(self.host.calls), text, seconds=0.25))


def listen(run: Run, *events: Event | Interrupt, as_json: bool = False) -> int:
    """Let `tandem run` print an answer with these events; return the exit code."""
    return follow(run, LISTED, CALLS, *events, as_json=as_json)


def follow(run: Run, *events: Event | Interrupt, as_json: bool = False) -> int:
    def cancel() -> None:
        run.n_cancelled += 1

    listener = Listener(DEFAULTS, cancel, as_json=as_json)
    listener.tools = run.tools
    for event in (Loaded(PAIR), *events):
        run.events.put(event)
    return listener.listen(run.events)


def test_an_allowed_call_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, "read_file")
    run.lists()
    assert len(run.requests[0].tools) == 2
    assert run.calls(READS)
    run.returns("Buy milk.")

    roles = [message.role for message in run.requests[1].messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert run.said == ['read_file(path="notes.md"), 0.2 s']
    read = {"name": "read_file", "arguments": {"path": "notes.md"}, "result_characters": 9, "error": None}
    assert run.tools.calls == [read]
    run.calls(READS)
    assert not run.requests[2].tools
    assert not run.calls()


def test_another_call_is_an_error_and_in_the_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch)
    what = r'The model calls read_file\(path="notes.md"\), which is not allowed'
    with pytest.raises(AppError, match=what) as failed:
        listen(run, as_json=True)

    assert failed.value.hint == "To allow it: --allow read_file"
    assert run.host.calls == []
    found = json.loads(capsys.readouterr().out)
    assert found["error"] == found["calls"][0]["error"] == failed.value.message
    assert found["calls"][0]["arguments"] == {"path": "notes.md"}


@pytest.mark.parametrize("reason", [FinishReason.CANCELLED, FinishReason.LENGTH])
def test_calls_of_an_answer_that_did_not_end_do_not_run(monkeypatch: pytest.MonkeyPatch, reason: FinishReason) -> None:
    run = Run(monkeypatch, "read_file")
    run.lists()
    assert not run.tools.take(replace(finished(1, "", reason), calls=(READS,)))
    assert run.host.calls == []


def test_an_unknown_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r'There is no tool "read_fil". Did you mean "read_file"'):
        Run(monkeypatch, "read_fil").lists()


def test_servers_that_all_fail_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AppError, match="It does not start"):
        Run(monkeypatch).tools.take(FAILED)


def test_a_server_that_fails_beside_another_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, servers=(FILES, McpServer("web", "serve-web")))
    run.tools.take(replace(FAILED, server="web"))
    run.lists()

    assert run.said == ["It does not start."]
    assert len(run.requests[0].tools) == 2


def test_calls_in_a_row_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(monkeypatch, "read_file", limit=1)
    run.lists()
    run.calls(READS)
    run.returns("one")
    run.calls(OTHER)
    with pytest.raises(AppError, match="1 times in a row"):
        run.returns("two")


def test_each_answer_begins_its_own_line_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listen(
        Run(monkeypatch, "read_file"),
        ToolReturned(1, "Buy milk."),
        Step(2, (Segment("<tools></tools>"),), STATS),
        finished(2, "<tools></tools>"),
        Step(3, (Segment("Milk."),), STATS),
        finished(3, "Milk."),
    )

    assert capsys.readouterr().out == "<tools></tools>\nMilk.\n"


def test_an_interrupt_stops_the_running_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(monkeypatch, "read_file")
    assert listen(run, Interrupt(), RETURNED, as_json=True) == INTERRUPTED

    assert run.host.cancelled == [1]
    assert run.said == ['read_file(path="notes.md"): stopped']
    assert len(run.requests) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["finish_reason"] == "cancelled"
    assert [one["error"] for one in found["calls"]] == ["The user stopped this call."]


@pytest.mark.parametrize(
    ("events", "n_calls", "n_requests"),
    [
        ([Interrupt(), LISTED], 0, 0),
        ([LISTED, Interrupt(), CALLS], 0, 1),
        ([LISTED, replace(CALLS, calls=(READS, OTHER)), Interrupt(), RETURNED], 1, 1),
        ([LISTED, replace(CALLS, calls=(READS, OTHER)), RETURNED, Interrupt()], 2, 1),
        ([LISTED, CALLS, RETURNED, Interrupt(), finished(2, "Mi", FinishReason.CANCELLED)], 1, 2),
        ([LISTED, CALLS, RETURNED, Interrupt(), replace(CALLS, request=2, calls=(OTHER,))], 1, 2),
        ([LISTED, CALLS, RETURNED, Interrupt(), finished(2, "<tools></tools>")], 1, 2),
    ],
    ids=["start", "answer", "first call", "second call", "next answer", "next call", "empty answer"],
)
def test_nothing_begins_after_an_interrupt(
    events: list[Event | Interrupt], n_calls: int, n_requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(monkeypatch, "read_file")
    assert follow(run, *events) == INTERRUPTED
    assert (len(run.host.calls), len(run.requests), run.n_cancelled) == (n_calls, n_requests, 1)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, *ENDS])
def test_a_signal_during_a_call_ends_the_command(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [CALLS, finished(2, "Milk.")]
    settings = Resolved({Origin.FLAG: {"answer.tools": ("files",)}})

    class Engine(FakeEngine):
        def load(self, loader: Loader) -> None:
            self.emit(Loaded(PAIR))

        def answer(self, request: AnswerRequest) -> int:
            self.emit(answers.pop(0))
            return super().answer(request)

    class Host(FakeToolHost):
        def __init__(self, emit: Callable[[Event], object]) -> None:
            super().__init__()
            self.emit = emit

        def connect(self, servers: Sequence[McpServer]) -> None:
            self.emit(LISTED)

        def call(self, *_: Any, **__: Any) -> None:
            signal.raise_signal(number)
            self.emit(RETURNED)

    monkeypatch.setattr("app.cli.run.read_pair", lambda given: Mock(settings=settings))
    monkeypatch.setattr("app.cli.run.make_engine", lambda process, emit: Engine(emit))
    monkeypatch.setattr("app.cli.run_tools.ToolServers", Host)
    monkeypatch.setattr("app.cli.run_tools.read_servers", lambda path: (FILES,))

    assert run_command("What is in notes.md?", allow=["read_file"]) == INTERRUPTED
    assert len(answers) == 1
