"""Shared by all routes: engine, settings, access rules, reading bodies, running jobs, answers in any API's format.

Access is checked by API key, host name (against DNS rebinding) and origin of web pages.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.core.errors import AppError
from app.server.answer import Answer, End, Format, Names, PrefillProgress, Report, answered_parts, sse
from app.server.engine_queue import EngineQueue, Ticket
from app.server.errors import RequestError, as_request_error, error_body
from app.server.fields import Fields, read_body
from app.settings.checking import check
from app.settings.kinds import Value
from app.settings.layers import Resolved
from app.worker.events import Failed, JobEnded
from app.worker.jobs import AnswerJob, Job
from app.worker.request import AnswerRequest

log = logging.getLogger("tandem.server")
log.addHandler(logging.NullHandler())

Handler: TypeAlias = "Callable[[Request, Service], Awaitable[Response]]"
Reader: TypeAlias = Callable[[Fields, Resolved], Sequence[AnswerRequest]]
"""Reads the requested answers from the body of a request."""

_LONGEST_BODY = 64 << 20
"""Largest body in bytes: two large pictures in base64, or more text than any context holds."""
_LONG_BODY = 1 << 20
"""Larger bodies are read in a thread, so that other clients do not wait."""
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_PUBLIC_PATHS = ("/health", "/v1/health")
"""Paths that need no key."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules of the server.

    Attributes:
        key: Key required in every request, or "".
        origins: Web pages that may call the server.
    """

    host: str = "127.0.0.1"
    key: str = ""
    origins: tuple[str, ...] = ()

    def check(self, request: Request) -> None:
        """Refuse a request without the key, or from a web page that is not allowed.

        Raises:
            RequestError: It is refused.
        """
        if not self.key:
            self._check_page(request)
        elif request.url.path not in _PUBLIC_PATHS:
            self._check_key(request)

    def _check_page(self, request: Request) -> None:
        # DNS rebinding: a web page can point its own host name at this address, but its requests still have that name.
        host = request.headers.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in (*_LOCAL_HOSTS, self.host.lower()):
            raise RequestError(
                f'The Host header "{name}" is not this server.',
                "Start tandem serve with --api-key KEY to allow other names.",
                status=403,
            )
        # A page of any other site can send a form here and occupy the engine, although it cannot read the answer.
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
    """Return the error for a web page of another origin."""
    return RequestError(
        f'The web page "{origin}" may not call this server.',
        f"Start tandem serve with --cors {origin} to allow it.",
        status=403,
    )


@dataclass(slots=True)
class Service:
    """State shared by the routes.

    Attributes:
        on_end: Called with method, path and status when a request has its response, or its stream begins.
        report: Numbers for the field "tandem" of a chat completion that asks for it.
        started: Seconds since 1970.
    """

    queue: EngineQueue
    settings: Resolved
    model: str
    access: Access = field(default_factory=Access)
    on_end: Callable[[str, str, int], None] = lambda method, path, status: None
    report: Report | None = None
    started: float = field(default_factory=time.time)

    def reading(self, fields: Fields) -> Resolved:
        """Return the settings with which a request is read; `tandem run` sends its own settings."""
        if fields.flag("tandem"):
            sent = fields.raw("settings")
            values, _ = check(sent if isinstance(sent, dict) else {}, lambda setting: setting.in_conversation)
            # The engine refuses a picture in the words of the shell.
            return self.settings.over({**values, "model.mmproj": "auto"})
        # Other clients detect loops themselves.
        changed: dict[str, Value] = {"answer.stop_on_repeat": False}
        if self.queue.metrics.pair.projector is None:
            changed["model.mmproj"] = "none"
        return self.settings.over(changed)


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
        event = await ticket.last()
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


def answering(prefix: str, read: Reader, form: type[Format]) -> Handler:
    """Return the handler for answers of an API."""

    async def handler(request: Request, service: Service) -> Response:
        fields = await body_of(request)
        asked = await asyncio.to_thread(read, fields, service.reading(fields))
        names = Names(prefix, service.model, service.report)
        formats = [form(names, fields, number, one) for number, one in enumerate(asked)]
        if fields.flag("stream"):
            return await _streamed(request, service.queue, formats)
        values, ends = [], []
        # Answers are queued one at a time, so that other clients get their turns.
        for format_ in formats:
            ticket, answer = service.queue.submit(AnswerJob(format_.asked)), Answer()
            with watched(request, service.queue, ticket):
                async for part in answered_parts(ticket, format_.asked):
                    answer.add(part)
            values.append(format_.whole(answer))
            ends.append(answer.end)
        return JSONResponse(formats[0].joined(values, ends))

    return handler


async def _streamed(request: Request, queue: EngineQueue, formats: Sequence[Format]) -> Response:
    stream, path = _events(request, queue, formats), request.url.path
    # A refused prompt gets a status; only later failures are events.
    first = await anext(stream)

    async def explained() -> AsyncIterator[str]:
        yield first
        try:
            async for text in stream:
                yield text
        except Exception as error:
            yield sse(error_body(failure(error, path), path), "error" if "/messages" in path else "")

    return StreamingResponse(explained(), media_type="text/event-stream", headers=_STREAM_HEADERS)


async def _events(request: Request, queue: EngineQueue, formats: Sequence[Format]) -> AsyncIterator[str]:
    """Queue each answer in turn, and yield its events."""
    ends: list[End] = []
    for format_ in formats:
        ticket, has_begun = queue.submit(AnswerJob(format_.asked)), False
        with watched(request, queue, ticket):
            async for part in answered_parts(ticket, format_.asked):
                if not has_begun and not (format_.waits and part is None):
                    yield "".join(format_.begin(part if isinstance(part, PrefillProgress) else None))
                    has_begun = True
                if part is None:
                    yield format_.keep_alive()
                else:
                    yield "".join(format_.progress(part) if isinstance(part, PrefillProgress) else format_.part(part))
                if isinstance(part, End):
                    ends.append(part)
    yield "".join(formats[0].closing(ends))


def failure(error: Exception, path: str) -> RequestError:
    """Return the error for the client; log an unexpected error."""
    if isinstance(error, AppError):
        return as_request_error(error)
    log.error("unexpected failure in %s", path, exc_info=error)
    return RequestError("The server failed unexpectedly.", status=500)
