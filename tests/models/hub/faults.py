"""Faults between a program and the hub, each on demand."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from tests.models.hub.loopback import Exchange, LoopbackHub

PORTAL = "<!DOCTYPE html><html><body><h1>Welcome to Hotel WiFi</h1><form>Room <input></form></body></html>"
_POLL_S = 0.005


def as_json(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON in ASCII, which can hold half a surrogate pair."""
    return Response(json.dumps(data), status, headers, "application/json")


@dataclass
class Fault:
    """The base class: it may change the answer or its delivery."""

    alter: Callable[[Exchange, Response], Response] = field(default=lambda request, answer: answer, kw_only=True)

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Response) -> None:
        await exchange.start(answer)
        await exchange.send(answer)
        await exchange.finish(answer)

    def release(self) -> None:
        """Continue every exchange that this fault holds back."""


@dataclass
class Cut(Fault):
    """Closes the connection after this many bytes of the body; with `reset` immediately, losing bytes in transit.

    With None there is no answer at all.
    """

    after: int | None = None
    reset: bool = False

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Response) -> None:
        if self.after is not None:
            await exchange.start(answer)
            await exchange.send(answer, 0, self.after)
        await exchange.hang_up(reset=self.reset)


@dataclass
class Stall(Fault):
    """Sends this many bytes of the body (None: not even the status line) and holds the rest until `release`."""

    after: int | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Response) -> None:
        if self.after is not None:
            await exchange.start(answer)
            await exchange.send(answer, 0, self.after)
        hub.mark_done(exchange)
        self.reached.set()
        while not self.go.is_set():
            await asyncio.sleep(_POLL_S)
        exchange.done = False
        if self.after is None:
            await exchange.start(answer)
        await exchange.send(answer, self.after or 0)
        await exchange.finish(answer)

    def release(self) -> None:
        self.go.set()


def status(code: int, headers: Mapping[str, str] | None = None, text: str = "") -> Fault:
    """Return another answer: this status, with these headers and this text."""
    return Fault(alter=lambda *_: PlainTextResponse(text, code, headers))


def rate_limited(seconds: int) -> Fault:
    """Return the hub's answer to too many requests."""
    headers = {"RateLimit": f'"api";r=0;t={seconds}', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    return status(429, headers, "Too Many Requests")


def redirect_loop() -> Fault:
    """Return a redirect to the requested address; give it `times=None`."""
    return Fault(alter=lambda request, _: RedirectResponse(request.raw_path, 302))


def captive_portal() -> Fault:
    """Return the login page of a network that answers every request with status 200."""
    return Fault(alter=lambda *_: HTMLResponse(PORTAL))


def ignore_range() -> Fault:
    """Return the whole file with status 200 instead of a range."""
    return Fault(alter=lambda request, answer: Response(request.content) if answer.status_code == 206 else answer)


def wrong_length(by: int) -> Fault:
    """Return a Content-Length that is wrong by this many bytes; the body is unchanged, and the connection ends."""

    def alter(_: Exchange, answer: Response) -> Response:
        answer.headers["Content-Length"] = str(len(answer.body) + by)
        return answer

    return Fault(alter=alter)


def corrupt(at: int) -> Fault:
    """Flip bits in the byte at this offset of the file."""

    def alter(_: Exchange, answer: Response) -> Response:
        body, start = bytearray(answer.body), range_start(answer.headers.get("Content-Range", ""))
        if 0 <= at - start < len(body):
            body[at - start] ^= 0xFF
        answer.body = bytes(body)
        return answer

    return Fault(alter=alter)


def bad_json(text: str) -> Fault:
    """Return text instead of JSON."""
    return Fault(alter=lambda *_: Response(text, media_type="application/json"))


def edit_json(edit: Callable[[Any], Any]) -> Fault:
    """Change the true JSON: `edit_json(lambda data: {"unexpected": data})`."""
    return Fault(alter=lambda _, answer: as_json(edit(json.loads(bytes(answer.body)))))


def range_start(text: str) -> int:
    """Return the first byte of a range in a header; 0 without one."""
    found = re.search("[0-9]+", text)
    return int(found[0]) if found is not None else 0


F = TypeVar("F", bound=Fault)


class Faults:
    """The script: the first matching fault is applied, a limited number of times."""

    def __init__(self) -> None:
        self._rules: list[tuple[Fault, Callable[[Exchange], bool], Iterator[object]]] = []

    def add(
        self,
        fault: F,
        path: str = "*",
        *,
        origin: str = "*",
        times: int | None = 1,
        when: Callable[[Exchange], bool] = lambda _: True,
    ) -> F:
        """Add a fault.

        Args:
            path: See `Exchange.is_for`, which also has `origin`.
            times: For how many requests; None for all.
            when: An additional condition.
        """
        uses = repeat(None) if times is None else repeat(None, times)
        self._rules.append((fault, lambda one: one.is_for(path, origin) and when(one), uses))
        return fault

    def take(self, request: Exchange) -> Fault:
        for fault, fits, uses in self._rules:
            if fits(request) and next(uses, self) is None:
                return fault
        return Fault()

    def clear(self) -> None:
        """Remove all faults and release delayed answers."""
        self.release()
        self._rules.clear()

    def release(self) -> None:
        for fault, *_ in self._rules:
            fault.release()
