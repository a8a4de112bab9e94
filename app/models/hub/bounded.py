"""Answers that are read whole are read to a certain length and for a certain time only.

The client reads what it takes for JSON, and every page of an error or a redirect, to its end; whoever sends one without
an end, or in drops, would fill the memory or keep a command waiting for ever. What is read bit by bit is not concerned.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import httpx2
from huggingface_hub import get_session

from app.core.errors import HubError
from app.models.hub.address_family import leave_out_silent
from app.models.hub.errors import host, login_page

_MOST = 32 << 20
"""Bytes; a listing of ten thousand files has a few million."""
_MOST_S = 120.0
_PLAIN = "identity"

_whole: ContextVar[bool] = ContextVar("_whole", default=False)


def session() -> httpx2.Client:
    """The client's connection; the pages of its errors and redirects are bounded."""
    leave_out_silent()
    found = get_session()
    hooks = found.event_hooks
    if _bound not in hooks["response"]:
        found.event_hooks = {
            "request": [*hooks["request"], _ask_plainly],
            "response": [*hooks["response"], _bound],
        }
    return found


@contextmanager
def read_whole() -> Iterator[None]:
    """What the client asks for in here it reads whole.

    Raises:
        HubError: An answer is longer than any that is meant, or packed, so that its length cannot be told.
    """
    session()
    before = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(before)


def _ask_plainly(request: httpx2.Request) -> None:
    if _whole.get():
        request.headers["Accept-Encoding"] = _PLAIN


def _bound(response: httpx2.Response) -> None:
    if not (_whole.get() or response.is_error or response.has_redirect_location):
        return
    if response.headers.get("Content-Encoding", "").strip().lower() not in ("", _PLAIN):
        # A few bytes may stand for any number of them. What is wrong is told by the status alone.
        if response.is_error or response.has_redirect_location:
            del response.headers["Content-Encoding"]
            response.stream = httpx2.ByteStream(b"")
            return
        raise HubError(f"{host()} answered with something that was not asked for.", login_page())
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.SyncByteStream):
    """A body that ends with an error where no answer is so long."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        n, until = 0, time.monotonic() + _MOST_S
        for part in self._stream:
            n += len(part)
            if n > _MOST:
                raise HubError(f"{host()} answers without an end.", login_page())
            if time.monotonic() > until:
                raise httpx2.ReadTimeout("an answer in drops")
            yield part

    def close(self) -> None:
        self._stream.close()
