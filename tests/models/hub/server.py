"""HTTP/1.1 on loopback: ports, connections, and scripted bytes."""

from __future__ import annotations

import re
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.models.hub.wire import Answer, Journal, Request

PIECE_BYTES = 1 << 20


class Exchange(BaseHTTPRequestHandler):
    """A connection: request after request, each given to the server's `serve`."""

    server: Origin
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    now: Request
    _started: Answer | None

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing is printed; the journal has it all."""

    def _exchange(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.now = Request(self.server.name, self.command, self.path, headers, body)
        self._started = None
        self.server.journal.open(self.now)
        try:
            self.server.serve(self, self.now)
            self._finish()
        except ConnectionError:
            self.close_connection = True
        finally:
            self.server.journal.mark(self.now, done=True)

    do_GET = do_HEAD = do_POST = _exchange  # noqa: N815

    def start(self, answer: Answer) -> None:
        """The status line and the headers."""
        headers = {"Date": self.date_time_string()} | answer.headers
        headers["Content-Length"] = str(answer.declared)
        if answer.declared != len(answer.body):
            headers["Connection"] = "close"
        self._started = answer
        self.now.status = answer.status
        self.send_response_only(answer.status)
        for name, value in headers.items():
            self.send_header(name, re.sub(r"[^\x20-\xff]", "?", value))
        self.end_headers()

    def send(self, answer: Answer, skip: int = 0, count: int | None = None) -> None:
        """Send `count` bytes of the body (the rest where None) after the first `skip`."""
        if self.command == "HEAD":
            return
        part = memoryview(answer.body)[skip : None if count is None else skip + count]
        for at in range(0, len(part), PIECE_BYTES):
            self.connection.sendall(part[at : at + PIECE_BYTES])
            self.now.sent += len(part[at : at + PIECE_BYTES])

    def _finish(self) -> None:
        """After less or more than was announced, the connection is of no more use."""
        answer = self._started
        if answer is not None and self.command != "HEAD" and self.now.sent != answer.declared:
            self.close_connection = True

    def whole(self, answer: Answer) -> None:
        self.start(answer)
        self.send(answer)

    def hang_up(self, *, reset: bool = False) -> None:
        """Close the connection: after the sent bytes (FIN), or at once (RST)."""
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.server.resets.add(self.connection)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.server.journal.mark(self.now, held=True)
        yield
        self.server.journal.mark(self.now)


class Origin(ThreadingHTTPServer):
    """A server of its own port, with a thread for every connection and none left at the end."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, name: str, journal: Journal, serve: Callable[[Exchange, Request], None]) -> None:
        self.name = name
        self.journal = journal
        self.serve = serve
        self.errors: list[BaseException] = []
        self.resets: set[socket.socket] = set()
        self._connections: dict[Any, threading.Thread] = {}
        self._closing = False
        super().__init__(("127.0.0.1", 0), Exchange)
        self._port = int(self.server_address[1])
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._acceptor = threading.Thread(target=self._accept, name=f"{name} acceptor", daemon=True)
        self._acceptor.start()

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service who 127.0.0.1 is
        socketserver.TCPServer.server_bind(self)

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self._closing

    def process_request(self, request: Any, client_address: Any) -> None:
        target, name = self.process_request_thread, f"{self.name} connection"
        thread = threading.Thread(target=target, args=(request, client_address), name=name, daemon=True)
        self._connections[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        if request in self.resets:
            # an orderly shutdown first would send the FIN that a reset is there to leave out
            self.resets.discard(request)
            request.close()
        else:
            super().shutdown_request(request)
        self._connections.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.errors.append(error)

    def close(self) -> None:
        self._closing = True
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self._port), 5).close()
        self._acceptor.join(5)
        self.server_close()
        deadline = time.monotonic() + 5
        for connection, thread in list(self._connections.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(max(0.0, deadline - time.monotonic()))
