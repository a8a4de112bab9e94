"""Faults between a program and the hub, each on demand."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.models.hub.loopback import Exchange, LoopbackHub

PORTAL = "<!DOCTYPE html><html><body><h1>Welcome to Hotel WiFi</h1><form>Room <input></form></body></html>"
_POLL_S = 0.005


@dataclass
class Answer:
    """An answer.

    Attributes:
        body: The whole content, or the range of it that was asked for.
        content: The whole content.
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


class Fault:
    """The base: no fault at all.

    A fault may alter the answer, and may deliver it in its own way.
    """

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return answer

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
        await exchange.start(answer)
        await exchange.send(answer)
        await exchange.finish(answer)

    def release(self) -> None:
        """Let every exchange go on that this fault holds back."""


@dataclass
class Cut(Fault):
    """Close the connection after this many bytes of the body; with `reset` at once, losing what is on its way."""

    after: int
    reset: bool = False

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
        await exchange.start(answer)
        await exchange.send(answer, 0, self.after)
        await exchange.hang_up(reset=self.reset)


class Drop(Fault):
    """Close the connection before any answer."""

    async def deliver(self, hub: LoopbackHub, exchange: Exchange, answer: Answer) -> None:
        await exchange.hang_up()


@dataclass
class Stall(Fault):
    """Send this many bytes of the body (None: not even the status line) and hold the rest until `release`."""

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


@dataclass
class Status(Fault):
    """Another answer: this status, with these headers and this text."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        kept = {"Content-Type": "text/plain; charset=utf-8"} | dict(self.headers)
        return Answer(self.status, kept, self.text.encode())


def rate_limited(seconds: int) -> Status:
    """Return the hub's answer to too many requests."""
    headers = {"RateLimit": f'"api";r=0;t={seconds}', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    return Status(429, headers, "Too Many Requests")


class RedirectLoop(Fault):
    """A redirect to the address that was asked; give it `times=None`."""

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return Answer.text(302, "Found", Location=request.raw_path)


class CaptivePortal(Fault):
    """The login page of a network that answers every request with status 200."""

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return Answer.text(200, PORTAL, "text/html; charset=utf-8")


class IgnoreRange(Fault):
    """Send the whole file with status 200 in place of a range."""

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        if answer.status != 206:
            return answer
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Range"}
        return replace(answer, status=200, headers=headers, body=answer.content)


@dataclass
class WrongLength(Fault):
    """The Content-Length is off by this many bytes; the body is sent as it is, and the connection ends."""

    by: int

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return replace(answer, headers=answer.headers | {"Content-Length": str(len(answer.body) + self.by)})


@dataclass
class Corrupt(Fault):
    """The byte at this offset of the file has other bits."""

    at: int

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        body, at = bytearray(answer.body), self.at - answer.start
        if 0 <= at < len(body):
            body[at] ^= 0xFF
        return replace(answer, body=bytes(body))


@dataclass
class BadJson(Fault):
    """Text in the place of JSON."""

    text: str

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return replace(answer, body=self.text.encode())


@dataclass
class EditJson(Fault):
    """Other JSON than the true one: `EditJson(lambda data: {"unexpected": data})`."""

    edit: Callable[[Any], Any]

    def alter(self, request: Exchange, answer: Answer) -> Answer:
        return replace(answer, body=json.dumps(self.edit(json.loads(answer.body))).encode())


F = TypeVar("F", bound=Fault)


@dataclass
class _Rule:
    fault: Fault
    path: str
    method: str
    origin: str
    when: Callable[[Exchange], bool] | None
    left: int | None

    def fits(self, request: Exchange) -> bool:
        return (
            self.left != 0
            and self.method in ("*", request.method)
            and self.origin in ("*", request.origin)
            and any(fnmatchcase(name, self.path) for name in (request.path, request.file or ""))
            and (self.when is None or self.when(request))
        )


class Faults:
    """The script: the first fault that fits a request is applied, and used up after its times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []

    def add(
        self,
        fault: F,
        path: str = "*",
        *,
        method: str = "*",
        origin: str = "*",
        times: int | None = 1,
        when: Callable[[Exchange], bool] | None = None,
    ) -> F:
        """Add a fault.

        Args:
            path: A glob on the decoded path of the request, or on the name of the repository file it is about (which
                also finds requests to the CDN).
            method: "GET", "HEAD" and so on.
            origin: "hub" or "cdn".
            times: For how many requests; None for all.
            when: A condition on top.
        """
        with self._lock:
            self._rules.append(_Rule(fault, path, method, origin, when, times))
        return fault

    def take(self, request: Exchange) -> Fault:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.fits(request)), None)
            if rule is None:
                return Fault()
            if rule.left is not None:
                rule.left -= 1
            return rule.fault

    def clear(self) -> None:
        """Remove all faults and release delayed answers."""
        self.release()
        with self._lock:
            self._rules.clear()

    def release(self) -> None:
        with self._lock:
            faults = [rule.fault for rule in self._rules]
        for fault in faults:
            fault.release()
