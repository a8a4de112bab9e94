"""A running server over a scripted pair, and a client that speaks plain HTTP to it."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest

from app.server.app import HttpServer, bound_socket
from app.server.engine_queue import EngineQueue, Ticket
from app.server.service import Access, Service
from app.settings.layers import DEFAULTS, Resolved
from app.worker.engine_worker import EngineWorker
from app.worker.events import Loaded
from tests.fakes import FakeModel, mixing
from tests.hanging import HANGS_S
from tests.pairs import FakePair

UNDRAFTED = DEFAULTS.over({"sampling.temp": 0.0, "draft.mode": "off"})
"""Greedy answers without drafts."""


@dataclass
class Server:
    """A server in a thread of this process."""

    pair: FakePair
    port: int
    queue: EngineQueue
    ended: list[tuple[str, str, int]] = field(default_factory=list)

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> HTTPResponse:
        """Send a request and return its unread response."""
        connection = self.connect()
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        connection.request(method, path, data, dict(headers or {}))
        return connection.getresponse()

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        response = self.send("GET", path, headers=headers)
        return response.status, json.loads(response.read())

    def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        response = self.send("POST", path, body, headers)
        return response.status, json.loads(response.read())

    def stream(self, path: str, body: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the events of a stream with their names."""
        response = self.send("POST", path, {**body, "stream": True})
        assert response.status == 200, response.read()
        events = []
        for block in response.read().decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in lines:
                data = lines["data"]
                events.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
        return events


Serve = Callable[..., Server]


def n_tickets() -> int:
    """Return how many requests are still in memory."""
    gc.collect()
    return sum(isinstance(one, Ticket) for one in gc.get_objects())


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a server; all are stopped after the test."""
    running: list[tuple[HttpServer, threading.Thread, EngineQueue]] = []

    def start(pair: FakePair | None = None, *, access: Access | None = None, settings: Resolved = UNDRAFTED) -> Server:
        pair = pair or FakePair(FakeModel(mixing(5), n_ctx=256), FakeModel(mixing(5), n_ctx=256))
        queue = EngineQueue(lambda emit: EngineWorker(emit))
        loaded = threading.Event()
        queue.listen(lambda event: loaded.set() if isinstance(event, Loaded) else None)
        queue.engine.load(lambda cancel, progress: pair)
        assert loaded.wait(HANGS_S)
        listener = bound_socket("127.0.0.1", 0)
        listener.listen(128)
        server = Server(pair, listener.getsockname()[1], queue)
        service = Service(
            queue,
            settings,
            "fake",
            access or Access(),
            lambda *ended: server.ended.append(ended),
        )
        http = HttpServer(service, listener)
        thread = threading.Thread(target=asyncio.run, args=[http.answer()], daemon=True)
        thread.start()
        running.append((http, thread, queue))
        return server

    yield start
    for http, thread, queue in running:
        http.stop()
        thread.join(HANGS_S)
        queue.engine.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a server with a draft model."""
    return serve()
