"""Proxies on the loopback interface, for programs that are told of one by their environment."""

from __future__ import annotations

import base64
import http.client
import socketserver
import threading
from types import TracebackType
from urllib.parse import urlsplit

from tests.models.hub.server import Exchange, Origin
from tests.models.hub.wire import PIECE_BYTES, Answer, Journal, Request

HOP_BY_HOP = {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "transfer-encoding"}


class LoopbackProxy:
    """A running proxy for http:// addresses; a context manager.

    Attributes:
        endpoint: For HTTP_PROXY.
        requests: What went through it, with the whole address as the target.
    """

    def __init__(self, credentials: str | None = None, tunnels: int = 501) -> None:
        """Starts it.

        Args:
            credentials: "user:password" that it asks for; without them it answers 407.
            tunnels: The status that it answers where a tunnel is asked for; it makes none.
        """
        self._tunnels = tunnels
        self._wanted = None if credentials is None else "Basic " + base64.b64encode(credentials.encode()).decode()
        self._journal = Journal()
        self._origin = Origin("proxy", self._journal, self._serve)
        self.endpoint = self._origin.endpoint

    def __enter__(self) -> LoopbackProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._origin.close()

    @property
    def requests(self) -> list[Request]:
        self._journal.settle()
        return self._journal.snapshot()

    @property
    def errors(self) -> list[BaseException]:
        return self._origin.errors

    def _serve(self, exchange: Exchange, request: Request) -> None:
        if self._wanted is not None and request.headers.get("proxy-authorization") != self._wanted:
            asks = {"Proxy_Authenticate": 'Basic realm="loopback"'}
            exchange.whole(Answer.text(407, "Proxy Authentication Required", **asks))
        elif not request.target.startswith("http://"):
            exchange.whole(Answer.text(self._tunnels, "This proxy forwards http:// addresses and makes no tunnels."))
        else:
            try:
                self._forward(exchange, request)
            except (OSError, http.client.HTTPException):
                if request.status:
                    exchange.hang_up()
                else:
                    exchange.whole(Answer.text(502, "Bad Gateway"))

    def _forward(self, exchange: Exchange, request: Request) -> None:
        address = urlsplit(request.target)
        assert address.hostname is not None
        upstream = http.client.HTTPConnection(address.hostname, address.port or 80)
        try:
            headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
            place = address.path + (f"?{address.query}" if address.query else "")
            upstream.request(request.method, place or "/", request.body or None, headers)
            answer = upstream.getresponse()
            self._relay(exchange, request, answer)
        finally:
            upstream.close()

    def _relay(self, exchange: Exchange, request: Request, answer: http.client.HTTPResponse) -> None:
        request.status = answer.status
        exchange.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                exchange.send_header(name, value)
        length = answer.headers.get("Content-Length")
        if length is None:
            exchange.send_header("Connection", "close")
        exchange.end_headers()
        while piece := answer.read(PIECE_BYTES):
            exchange.connection.sendall(piece)
            request.sent += len(piece)
        if length is None or (request.method != "HEAD" and request.sent != int(length)):
            exchange.hang_up()


class SocksProxy:
    """A running SOCKS5 proxy that reaches no one, and says so in one way; a context manager.

    Attributes:
        endpoint: For ALL_PROXY.
    """

    def __init__(self, reply: int) -> None:
        """Starts it.

        Args:
            reply: What it answers to every request for a connection (RFC 1928, section 6).
        """

        class Refusing(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.request.recv(4096)
                self.request.sendall(b"\x05\x00")
                self.request.recv(4096)
                self.request.sendall(bytes((5, reply, 0, 1, 0, 0, 0, 0, 0, 0)))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing)
        self._server.daemon_threads = True
        self.endpoint = f"socks5h://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> SocksProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
