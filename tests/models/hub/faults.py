"""Faults: what can go wrong between a program and a hub, each on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from tests.models.hub.server import Exchange
from tests.models.hub.wire import Answer, Request

PORTAL = "<!DOCTYPE html><html><body><h1>Welcome to Hotel WiFi</h1><form>Room <input></form></body></html>"


class Fault:
    """The base: no fault at all.

    A fault may alter the answer, and may deliver it in its own way.
    """

    def alter(self, request: Request, answer: Answer) -> Answer:
        return answer

    def deliver(self, exchange: Exchange, answer: Answer) -> None:
        exchange.whole(answer)

    def release(self) -> None:
        """Lets go of every exchange it holds back."""


@dataclass
class Cut(Fault):
    """The connection ends after this many bytes of the body; with `reset` at once, losing what is on its way."""

    after: int
    reset: bool = False

    def deliver(self, exchange: Exchange, answer: Answer) -> None:
        exchange.start(answer)
        exchange.send(answer, 0, self.after)
        exchange.hang_up(reset=self.reset)


@dataclass
class Drop(Fault):
    """The connection ends before any answer."""

    reset: bool = False

    def deliver(self, exchange: Exchange, answer: Answer) -> None:
        exchange.hang_up(reset=self.reset)


@dataclass
class Stall(Fault):
    """Sends this many bytes of the body (None: not even the status line) and holds the rest until `go` is set."""

    after: int | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def deliver(self, exchange: Exchange, answer: Answer) -> None:
        if self.after is None:
            self._hold(exchange)
            exchange.whole(answer)
            return
        exchange.start(answer)
        exchange.send(answer, 0, self.after)
        self._hold(exchange)
        exchange.send(answer, self.after)

    def _hold(self, exchange: Exchange) -> None:
        with exchange.held():
            self.reached.set()
            self.go.wait()

    def release(self) -> None:
        self.go.set()


@dataclass
class Status(Fault):
    """Another answer: this status, with these headers and this text."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    def alter(self, request: Request, answer: Answer) -> Answer:
        kept = {"Content-Type": "text/plain; charset=utf-8"} | dict(self.headers)
        return Answer(self.status, kept, self.text.encode())


def rate_limited(seconds: int) -> Status:
    """Return the hub's answer to too many requests."""
    headers = {"RateLimit": f'"api";r=0;t={seconds}', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}
    return Status(429, headers, "Too Many Requests")


class RedirectLoop(Fault):
    """A redirect to the address that was asked; give it `times=None`."""

    def alter(self, request: Request, answer: Answer) -> Answer:
        return Answer.text(302, "Found", Location=request.target)


class CaptivePortal(Fault):
    """The login page of a network that answers every request with status 200."""

    def alter(self, request: Request, answer: Answer) -> Answer:
        return Answer.text(200, PORTAL, "text/html; charset=utf-8")


class IgnoreRange(Fault):
    """The whole file and status 200, whatever part was asked for."""

    def alter(self, request: Request, answer: Answer) -> Answer:
        if answer.status != 206:
            return answer
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Range"}
        return replace(answer, status=200, headers=headers, body=answer.content)


@dataclass
class WrongLength(Fault):
    """The Content-Length is off by this many bytes; the body is sent as it is, and the connection ends."""

    by: int

    def alter(self, request: Request, answer: Answer) -> Answer:
        return replace(answer, headers=answer.headers | {"Content-Length": str(len(answer.body) + self.by)})


@dataclass
class Corrupt(Fault):
    """The byte at this offset of the file has other bits."""

    at: int

    def alter(self, request: Request, answer: Answer) -> Answer:
        body, at = bytearray(answer.body), self.at - answer.start
        if 0 <= at < len(body):
            body[at] ^= 0xFF
        return replace(answer, body=bytes(body))


@dataclass
class BadJson(Fault):
    """Text in the place of JSON."""

    text: str

    def alter(self, request: Request, answer: Answer) -> Answer:
        return replace(answer, body=self.text.encode())


@dataclass
class EditJson(Fault):
    """Other JSON than the true one: `EditJson(lambda data: {"unexpected": data})`."""

    edit: Callable[[Any], Any]

    def alter(self, request: Request, answer: Answer) -> Answer:
        return replace(answer, body=json.dumps(self.edit(json.loads(answer.body))).encode())


F = TypeVar("F", bound=Fault)


@dataclass
class _Rule:
    fault: Fault
    path: str
    method: str
    origin: str
    when: Callable[[Request], bool] | None
    left: int | None

    def fits(self, request: Request) -> bool:
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
        when: Callable[[Request], bool] | None = None,
    ) -> F:
        """Adds a fault.

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

    def take(self, request: Request) -> Fault:
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
