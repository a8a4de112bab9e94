"""Faults between a program and the hub, each on demand."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.models.hub.loopback import Exchange, LoopbackHub

PORTAL = "<!DOCTYPE html><html><body><h1>Welcome to Hotel WiFi</h1><form>Room <input></form></body></html>"
_POLL_S = 0.005


@dataclass
class Answer:
    """An answer.

    Attributes:
        body: The whole content, or the requested range.
        start: Offset of the body in the content.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    content: bytes = b""
    start: int = 0

    @classmethod
    def text(cls, status: int, text: str, kind: str = "text/plain; charset=utf-8", **headers: str) -> Answer:
        return cls(status, {"Content-Type": kind} | headers, text.encode())

    @classmethod
    def json(cls, data: Any) -> Answer:
        return cls.text(200, json.dumps(data), "application/json; charset=utf-8")

    @property
    def declared(self) -> int:
        """The length of the body according to the headers."""
        return int(self.headers.get("Content-Length", len(self.body)))


@dataclass
class Fault:
    """The base class: it may change the answer or its delivery."""

    alter: Callable[[Exchange, Answer], Answer] = field(default=lambda request, answer: answer, kw_only=True)

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
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

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
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

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
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
    kept = {"Content-Type": "text/plain; charset=utf-8"} | dict(headers or {})
    return Fault(alter=lambda *_: Answer(code, dict(kept), text.encode()))


def rate_limited(seconds: int) -> Fault:
    """Return the hub's answer to too many requests."""
    headers = {"RateLimit": f'"api";r=0;t={seconds}', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    return status(429, headers, "Too Many Requests")


def redirect_loop() -> Fault:
    """Return a redirect to the requested address; give it `times=None`."""
    return Fault(alter=lambda request, _: Answer.text(302, "Found", Location=request.raw_path))


def captive_portal() -> Fault:
    """Return the login page of a network that answers every request with status 200."""
    return Fault(alter=lambda *_: Answer.text(200, PORTAL, "text/html; charset=utf-8"))


def ignore_range() -> Fault:
    """Return the whole file with status 200 instead of a range."""

    def alter(_: Exchange, answer: Answer) -> Answer:
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Range"}
        return replace(answer, status=200, headers=headers, body=answer.content) if answer.status == 206 else answer

    return Fault(alter=alter)


def wrong_length(by: int) -> Fault:
    """Return a Content-Length that is wrong by this many bytes; the body is unchanged, and the connection ends."""

    def alter(_: Exchange, answer: Answer) -> Answer:
        return replace(answer, headers=answer.headers | {"Content-Length": str(len(answer.body) + by)})

    return Fault(alter=alter)


def corrupt(at: int) -> Fault:
    """Flip bits in the byte at this offset of the file."""

    def alter(_: Exchange, answer: Answer) -> Answer:
        body = bytearray(answer.body)
        if 0 <= at - answer.start < len(body):
            body[at - answer.start] ^= 0xFF
        return replace(answer, body=bytes(body))

    return Fault(alter=alter)


def bad_json(text: str) -> Fault:
    """Return text instead of JSON."""
    return Fault(alter=lambda _, answer: replace(answer, body=text.encode()))


def edit_json(edit: Callable[[Any], Any]) -> Fault:
    """Change the true JSON: `edit_json(lambda data: {"unexpected": data})`."""
    return Fault(alter=lambda _, answer: replace(answer, body=json.dumps(edit(json.loads(answer.body))).encode()))


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
        method: str = "*",
        origin: str = "*",
        times: int | None = 1,
        when: Callable[[Exchange], bool] = lambda _: True,
    ) -> F:
        """Add a fault.

        Args:
            path: See `Exchange.is_for`, which also has `method` and `origin`.
            times: For how many requests; None for all.
            when: An additional condition.
        """
        uses = repeat(None) if times is None else repeat(None, times)
        self._rules.append((fault, lambda one: one.is_for(path, method, origin) and when(one), uses))
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
