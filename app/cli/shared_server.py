"""The chat's engine as a server too: started and stopped in its palette, beside the conversation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.session.answering import Engine
from app.session.chat_settings import ChatSettings
from app.worker.events import Event

if TYPE_CHECKING:
    from app.models.pair_info import PairInfo
    from app.server.http_server import HttpServer


class SharedServer:
    """Serve the pair of a running chat; requests and prompts wait for each other in the engine's queue."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self._receive: Callable[[Event], None] | None = None
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, event: Event) -> None:
        """Pass an event of the engine on; runs on its thread."""
        if (receive := self._receive) is not None:
            receive(event)

    def toggle(self, pair: PairInfo, settings: ChatSettings) -> tuple[str, str | None]:
        """Start or stop the server; return a sentence about it, and its address while it serves.

        Raises:
            UsageError: Its port cannot be used.
        """
        if self._server is not None:
            self.close()
            return "The server has stopped.", None
        from app.server.access import Access
        from app.server.engine_queue import EngineQueue
        from app.server.http_server import DEFAULT_HOST, DEFAULT_PORT, HttpServer, address_of, bound_socket
        from app.server.metrics import Metrics
        from app.server.service import Service

        listener = bound_socket(DEFAULT_HOST, DEFAULT_PORT)
        listener.listen()
        requests = EngineQueue(self._attach, Metrics(pair=pair))
        access = Access(DEFAULT_HOST, os.environ.get("TANDEM_API_KEY", ""))
        self._server = HttpServer(Service(requests, settings, pair.target.name, access), listener)
        self._thread = threading.Thread(target=asyncio.run, args=[self._server.run()], name="server", daemon=True)
        self._thread.start()
        address = address_of(DEFAULT_HOST, listener)
        return f"Serving at {address}/v1; /serve stops it.", address

    def _attach(self, receive: Callable[[Event], None]) -> Engine:
        self._receive = receive
        return self._engine()

    def close(self) -> None:
        """Stop the server and its requests."""
        server, thread, self._server = self._server, self._thread, None
        if server is not None and thread is not None:
            server.stop()
            thread.join()
