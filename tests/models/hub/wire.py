"""Requests and answers as sent over the wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WAIT_S = 30.0
"""How long a test may wait for an event; only a broken test waits that long."""


@dataclass(eq=False)
class Request:
    """One request as it came in, and what became of it.

    Attributes:
        origin: Which server was asked: "hub" or "cdn".
        target: The second word of the request line.
        headers: With names in lower case.
        file: The repository file it is about, where it is about one; the CDN's own addresses do not tell.
        status: What was answered; 0 where nothing was.
        sent: Bytes of the answer's body that went out.
        held: A fault holds the answer back right now.
    """

    origin: str
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""
    file: str | None = None
    status: int = 0
    sent: int = 0
    held: bool = False
    done: bool = False

    @property
    def raw_path(self) -> str:
        return urlsplit(self.target).path

    @property
    def path(self) -> str:
        return unquote(self.raw_path)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def token(self) -> str | None:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" else None


class Journal:
    """Every request, in the order they came."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[Request] = []

    def open(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def mark(self, request: Request, *, held: bool = False, done: bool = False) -> None:
        with self._changed:
            request.held, request.done = held, done
            self._changed.notify_all()

    def snapshot(self) -> list[Request]:
        with self._changed:
            return list(self._requests)

    def wait(self, true_of: Callable[[list[Request]], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: true_of(self._requests), WAIT_S):
                raise AssertionError(f"Waited in vain; the requests so far: {self._requests}")

    def settle(self) -> None:
        """Waits until every request is answered or held back by a fault."""
        self.wait(lambda requests: all(request.done or request.held for request in requests))


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
    def json(cls, data: Any, headers: Mapping[str, str] | None = None, status: int = 200) -> Answer:
        return cls.text(status, json.dumps(data), "application/json; charset=utf-8", **(headers or {}))

    @property
    def declared(self) -> int:
        """Return the length of the body from its headers."""
        return int(self.headers.get("Content-Length", len(self.body)))
