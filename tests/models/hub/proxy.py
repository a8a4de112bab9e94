"""A proxy for http:// addresses on the loopback interface."""

from __future__ import annotations

import base64
import http.client
from types import TracebackType
from urllib.parse import urlsplit

from tests.models.hub.server import Exchange, Origin
from tests.models.hub.wire import Answer, Body, Journal, Request

HOP_BY_HOP = {"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "transfer-encoding"}


class LoopbackProxy:
    """A running proxy; a context manager.

    Args:
        credentials: "user:password" that it asks for; without them it answers 407.
        tunnels: Status that it answers where a tunnel is asked for; it makes none.

    Attributes:
        endpoint: For HTTP_PROXY.
    """

    def __init__(self, credentials: str | None = None, tunnels: int = 501) -> None:
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

    def _serve(self, exchange: Exchange, request: Request) -> None:
        if self._wanted is not None and request.headers.get("proxy-authorization") != self._wanted:
            exchange.whole(Answer.text(407, "Proxy Authentication Required"))
        elif not request.target.startswith("http://"):
            exchange.whole(Answer.text(self._tunnels, "This proxy makes no tunnels."))
        else:
            exchange.whole(self._forwarded(request))

    def _forwarded(self, request: Request) -> Answer:
        address = urlsplit(request.target)
        assert address.hostname is not None
        upstream = http.client.HTTPConnection(address.hostname, address.port or 80)
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        try:
            upstream.request(request.method, f"{address.path}?{address.query}", request.body or None, headers)
            answer = upstream.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
            return Answer(answer.status, kept, Body.of(answer.read()))
        finally:
            upstream.close()
