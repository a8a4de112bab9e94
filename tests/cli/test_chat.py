"""The chat's engine behind the server: both answer in turn, and stopping one leaves the other running."""

import json
import queue
import socket
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from app.cli.chat import SharedServer
from app.cli.options import read_pair
from app.cli.running_server import server_for
from app.conversations.message import Message, Role
from app.engine.events import Step
from app.engine.types import FinishReason, SamplingParams
from app.server import app as server_app
from app.settings.layers import DEFAULTS
from app.worker.engine_worker import EngineWorker
from app.worker.events import Event, Finished, Loaded
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing
from tests.hanging import HANGS_S
from tests.pairs import FakePair

GREEDY = SamplingParams(temperature=0)
PROMPT = AnswerRequest((Message(Role.USER, "abc"),), GREEDY)


class Chat:
    """The chat's engine, and the server over it."""

    def __init__(self) -> None:
        self.pair = FakePair(FakeModel(mixing(1), n_ctx=100_000))
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.loader = read_pair({})
        self.opened = self.loader.pair
        self.server = SharedServer(lambda: self.engine, lambda: self.opened)
        self.engine = EngineWorker(self._receive)
        self.engine.load(lambda cancel, progress: self.pair)

    def _receive(self, event: Event) -> None:
        self.events.put(event)
        self.server(event)

    def toggle(self) -> tuple[str, str | None]:
        return self.server.toggle(self.pair.info, DEFAULTS.over({"sampling.temp": 0.0, "draft.mode": "off"}))

    def until(self, kind: type[Event], number: int) -> Event:
        while True:
            event = self.events.get(timeout=HANGS_S)
            if isinstance(event, kind) and getattr(event, "request", None) == number:
                return event


@pytest.fixture
def chat(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    monkeypatch.setattr(server_app, "DEFAULT_PORT", 0)
    chat = Chat()
    yield chat
    chat.server.close()
    chat.engine.close()


def test_requests_and_prompts_wait_for_each_other(chat: Chat) -> None:
    sentence, address = chat.toggle()
    assert address is not None
    assert address in sentence
    assert sentence.startswith("Serving at http://127.0.0.1:")
    port = int(sentence.split(":")[2].partition("/")[0])
    prompt = chat.engine.answer(PROMPT)
    chat.until(Step, prompt)
    connection = HTTPConnection("127.0.0.1", port, timeout=HANGS_S)
    body = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 3}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    # The request waits behind the prompt, which only the chat stops.
    chat.engine.cancel(prompt)
    finished = chat.until(Finished, prompt)
    assert isinstance(finished, Finished)
    assert finished.reason is FinishReason.CANCELLED
    assert json.loads(connection.getresponse().read())["usage"]["completion_tokens"] == 3
    connection.close()
    assert chat.toggle() == ("The server has stopped.", None)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 5)


def test_run_finds_the_server_by_the_open_pair(chat: Chat) -> None:
    chat.toggle()
    server = server_for(chat.loader, {})
    assert server is not None
    assert server_for(chat.loader, {"ctx": 512}) is None
    connection = HTTPConnection("127.0.0.1", urlsplit(server.url).port or 0, timeout=HANGS_S)
    body = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 3, "tandem": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    assert json.loads(connection.getresponse().read())["tandem"]["summary"].startswith("3 tokens")
    connection.close()
    # Another pair is opened in the chat.
    chat.opened = replace(chat.loader.pair, draft=None)
    chat.server(Loaded(chat.pair.info))
    assert server_for(chat.loader, {}) is None
    chat.opened = chat.loader.pair
    chat.server(Loaded(chat.pair.info))
    assert server_for(chat.loader, {}) == server
    chat.toggle()
    assert server_for(chat.loader, {}) is None
