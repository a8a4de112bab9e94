"""The server inside a running chat: started and stopped in the command palette."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from app.models.catalog import Pair
from app.session.answering import Engine
from app.settings.layers import Resolved
from app.worker.events import Event, Loaded

if TYPE_CHECKING:
    from app.models.pair_info import PairInfo
    from app.server.app import HttpServer


class SharedServer:
    """Serves the pair of a running chat; HTTP requests and chat prompts share the engine's queue.

    Args:
        pair: Returns the open pair, so that `tandem run` finds the server.
    """

    def __init__(self, engine: Callable[[], Engine], pair: Callable[[], Pair | None]) -> None:
        self._engine = engine
        self._pair = pair
        self._url = ""
        self._announced = ExitStack()
        self._lock = threading.Lock()
        """Guards the announcement, which the engine's thread renews."""
        self._receive: Callable[[Event], None] | None = None
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Loaded):
            self._announce()
        if (receive := self._receive) is not None:
            receive(event)

    def toggle(self, pair: PairInfo, settings: Resolved) -> tuple[str, str | None]:
        """Start or stop the server; return a sentence about it, and its address if it serves.

        Raises:
            UsageError: Its port cannot be used.
        """
        if self._server is not None:
            self.close()
            return "The server has stopped.", None
        from app.cli.running_server import report_for_run
        from app.server.app import DEFAULT_HOST, DEFAULT_PORT, HttpServer, address_of, bound_socket
        from app.server.engine_queue import EngineQueue, Metrics
        from app.server.service import Access, Service

        listener = bound_socket(DEFAULT_HOST, DEFAULT_PORT)
        listener.listen()
        requests = EngineQueue(self._attach, Metrics(pair=pair))
        access = Access(DEFAULT_HOST, os.environ.get("TANDEM_API_KEY", ""))
        report = partial(report_for_run, requests.metrics)
        self._server = HttpServer(Service(requests, settings, pair.target.name, access, report=report), listener)
        self._thread = threading.Thread(target=asyncio.run, args=[self._server.answer()], name="server", daemon=True)
        self._thread.start()
        address = address_of(DEFAULT_HOST, listener)
        self._url = f"{address}/v1/chat/completions"
        self._announce()
        return f"Serving at {address}/v1; /serve stops it.", address

    def _attach(self, receive: Callable[[Event], None]) -> Engine:
        self._receive = receive
        return self._engine()

    def _announce(self) -> None:
        """Announce the server under the open pair, so that `tandem run` finds it."""
        from app.cli.running_server import RunningServer, announced, models_of

        with self._lock:
            self._announced.close()
            if self._server is not None and (pair := self._pair()) is not None:
                server = RunningServer(self._url, *models_of(pair), os.environ.get("TANDEM_API_KEY", ""))
                self._announced.enter_context(announced(server))

    def close(self) -> None:
        """Stop the server and its requests."""
        with self._lock:
            self._announced.close()
            server, thread, self._server = self._server, self._thread, None
        if server is not None and thread is not None:
            server.stop()
            thread.join()
