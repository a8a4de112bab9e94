"""State and functions that all routes share: engine, settings, access rules, reading bodies, running jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from app.server.access import Access
from app.server.engine_queue import EngineQueue, Ticket
from app.server.errors import RequestError, as_request_error
from app.server.fields import Fields, read_body
from app.server.format import Report
from app.session.chat_settings import ChatSettings
from app.worker.engine_worker import Job
from app.worker.events import Failed, JobEnded

Handler: TypeAlias = "Callable[[Request, Service], Awaitable[Response]]"

_LONGEST_BODY = 64 << 20
"""Largest body in bytes: two large pictures in base64, or more text than any context holds."""
_LONG_BODY = 1 << 20
"""Bytes from which a body is read in a thread, so that other clients do not wait."""


@dataclass(slots=True)
class Service:
    """State shared by the routes.

    Attributes:
        queue: The engine.
        settings: Settings of answers, which requests override.
        model: Name of the pair.
        access: Access rules.
        on_end: Called with method, path and status when a request has its response, or its stream begins.
        report: Numbers for the field "tandem" of a chat completion that asks for it.
        started: Seconds since 1970.
    """

    queue: EngineQueue
    settings: ChatSettings
    model: str
    access: Access = field(default_factory=Access)
    on_end: Callable[[str, str, int], None] = lambda method, path, status: None
    report: Report | None = None
    started: float = field(default_factory=time.time)

    @property
    def reading(self) -> ChatSettings:
        """The settings with which requests are read: without pictures if the loaded pair reads none."""
        pair = self.queue.metrics.pair
        return replace(self.settings, pictures=None) if pair is not None and pair.projector is None else self.settings


async def body_of(request: Request) -> Fields:
    """Read a body of limited size."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise RequestError(f"The body is compressed ({encoding}).", "Send it without compression.", status=415)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _LONGEST_BODY:
            raise RequestError(f"The body is longer than {_LONGEST_BODY:,} bytes.", status=413)
    return await asyncio.to_thread(read_body, bytes(data)) if len(data) > _LONG_BODY else read_body(bytes(data))


async def result_of(request: Request, queue: EngineQueue, job: Job) -> Any:
    """Queue a job and return its result."""
    ticket = queue.submit(job)
    with watched(request, queue, ticket):
        async for event in ticket.events():
            if isinstance(event, Failed):
                raise as_request_error(event.error)
            if isinstance(event, JobEnded) and event.result is not None:
                return event.result
    raise RequestError("The engine did not finish this request.", status=500)


@contextmanager
def watched(request: Request, queue: EngineQueue, ticket: Ticket) -> Iterator[None]:
    """Cancel a request when its client disconnects, and at the end of the block."""

    async def wait() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        queue.cancel(ticket)

    task = asyncio.create_task(wait())
    try:
        yield
    finally:
        task.cancel()
        queue.cancel(ticket)
