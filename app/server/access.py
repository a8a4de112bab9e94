"""Check who may call the server: API key, host name (against DNS rebinding) and origin of web pages."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from starlette.requests import Request

from app.server.errors import RequestError

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_PUBLIC_PATHS = ("/health", "/v1/health")
"""Paths that need no key."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules of the server.

    Attributes:
        host: Address that it listens on.
        key: Required of every request; "" for none.
        origins: Web pages that may call it; () for none.
    """

    host: str = "127.0.0.1"
    key: str = ""
    origins: tuple[str, ...] = ()

    def check(self, request: Request) -> None:
        """Refuse a request without the key, or one from a web page that is not allowed.

        Raises:
            RequestError: It is refused.
        """
        if not self.key:
            self._check_page(request)
        elif request.url.path not in _PUBLIC_PATHS:
            self._check_key(request)

    def _check_page(self, request: Request) -> None:
        # DNS rebinding: a web page can point its own host name at this address, but its requests still carry that name.
        host = request.headers.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in (*_LOCAL_HOSTS, self.host.lower()):
            raise RequestError(
                f'The Host header "{name}" is not this server.',
                "Start tandem serve with --api-key KEY to allow other names.",
                status=403,
            )
        # A page of any other site can send a form here and occupy the engine, though it cannot read the answer.
        origin = request.headers.get("origin")
        if origin is None or origin in self.origins or "*" in self.origins:
            return
        if origin.partition("://")[2].lower() != host:
            raise page_error(origin)

    def _check_key(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        scheme, _, rest = given.partition(" ")
        given = rest.strip() if scheme.lower() == "bearer" else given.strip()
        keys = (given, request.headers.get("x-api-key", ""))
        if not any(hmac.compare_digest(key.encode(), self.key.encode()) for key in keys):
            raise RequestError("The API key is missing or wrong.", status=401)


def page_error(origin: str) -> RequestError:
    """Return the refusal of a web page of another origin."""
    return RequestError(
        f'The web page "{origin}" may not call this server.',
        f"Start tandem serve with --cors {origin} to allow it.",
        status=403,
    )
