"""Routes, access checks and errors of the server."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from app.core.errors import AppError
from app.server.answer import PartReader, parts_of, whole_answer
from app.server.chat import ChatFormat, Report, read_chat
from app.server.completions import TextFormat, read_completion
from app.server.engine_queue import EngineQueue, Ticket
from app.server.errors import RequestError, as_request_error, error_body
from app.server.fields import Fields, read_body
from app.server.format import Format, Names, sse
from app.server.messages import AnthropicFormat, read_anthropic, read_count
from app.server.responses import ResponseFormat, read_response
from app.session.chat_settings import ChatSettings
from app.worker.events import Failed, JobEnded
from app.worker.jobs import TokenCount
from app.worker.request import AnswerRequest

Handler: TypeAlias = "Callable[[Request, Service], Awaitable[Response]]"
Reader: TypeAlias = Callable[[Fields, ChatSettings], tuple[AnswerRequest, tuple[str, ...]]]
"""Reads a request and the names of its tools."""

log = logging.getLogger("tandem.server")
log.addHandler(logging.NullHandler())

_LONGEST_BODY = 8 << 20
"""Bytes; more than any context holds as text."""
_LONGEST_PATH = 60
"""Characters of an unknown path in the log."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


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
        """Refuse a request without the key, or one that a web page sent to another host name.

        Raises:
            RequestError: It is refused.
        """
        # DNS rebinding: a web page can point its own host name at this address, but its requests still carry that name.
        if not self.key and _host_name(request) not in (*_LOCAL, self.host.lower()):
            raise RequestError(
                f'The Host header "{_host_name(request)}" is not this server.',
                "Start tandem serve with --api-key KEY to allow other names.",
                status=403,
            )
        if not self.key or request.url.path == "/health":
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        given = given.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        if not hmac.compare_digest(given.encode(), self.key.encode()):
            raise RequestError("The API key is missing or wrong.", status=401)


def _host_name(request: Request) -> str:
    host = request.headers.get("host", "").lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


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
    """

    queue: EngineQueue
    settings: ChatSettings
    model: str
    access: Access = field(default_factory=Access)
    on_end: Callable[[str, str, int], None] = lambda method, path, status: None
    report: Report | None = None


def make_app(service: Service) -> Starlette:
    """Return the server's application."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.queue.start()
        yield
        service.queue.cancel_all()

    def route(path: str, method: str, handler: Handler) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                service.access.check(request)
                response = await handler(request, service)
            except ClientDisconnect:
                response = Response(status_code=499)
            except Exception as error:
                response = _error_response(_failure(error, path), path)
            service.on_end(method, path, response.status_code)
            return response

        return Route(path, endpoint, methods=[method])

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = {
            404: f"{request.url.path} is not an endpoint of this server.",
            405: f"{request.url.path} does not accept {request.method}.",
        }
        text = message.get(error.status_code, "The request is refused.")
        # A client with a wrong base URL shows here.
        service.on_end(request.method, request.url.path[:_LONGEST_PATH], error.status_code)
        return _error_response(RequestError(text, status=error.status_code), request.url.path)

    cors = Middleware(
        CORSMiddleware, allow_origins=service.access.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
    )
    return Starlette(
        routes=[
            route("/health", "GET", _health),
            route("/v1/health", "GET", _health),
            route("/v1/models", "GET", _models),
            route("/models", "GET", _models),
            route("/props", "GET", _props),
            route("/metrics", "GET", _metrics),
            route("/v1/chat/completions", "POST", _CHAT),
            route("/chat/completions", "POST", _CHAT),
            route("/v1/completions", "POST", _COMPLETIONS),
            route("/v1/responses", "POST", _RESPONSES),
            route("/responses", "POST", _RESPONSES),
            route("/v1/messages", "POST", _MESSAGES),
            route("/v1/messages/count_tokens", "POST", _count_tokens),
        ],
        middleware=[cors] if service.access.origins else [],
        exception_handlers={HTTPException: refused},
        lifespan=lifespan,
    )


async def _health(request: Request, service: Service) -> Response:
    return JSONResponse({"status": "ok"})


async def _models(request: Request, service: Service) -> Response:
    pair = service.queue.metrics.pair
    meta: dict[str, Any] = {}
    if pair is not None:
        target = pair.target
        meta = {
            "context_length": pair.n_ctx,
            "max_model_len": pair.n_ctx,
            "meta": {
                "n_ctx": pair.n_ctx,
                "n_ctx_train": target.n_ctx_train,
                "n_vocab": target.n_vocab,
                "size": target.size_bytes,
                "target": target.name,
                "draft": pair.draft.name if pair.draft is not None else None,
            },
        }
    model = {"id": service.model, "object": "model", "created": 0, "owned_by": "tandem", **meta}
    return JSONResponse({"object": "list", "data": [model]})


async def _props(request: Request, service: Service) -> Response:
    pair = service.queue.metrics.pair
    sampling = service.settings.sampling
    params = {name: getattr(sampling, name) for name in sampling.__dataclass_fields__}
    n_ctx = pair.n_ctx if pair is not None else 0
    return JSONResponse(
        {
            "default_generation_settings": {"n_ctx": n_ctx, "params": params},
            "total_slots": 1,
            "model_alias": service.model,
            "modalities": {"vision": False, "audio": False},
        }
    )


async def _metrics(request: Request, service: Service) -> Response:
    return PlainTextResponse(service.queue.metrics.as_prometheus(), media_type="text/plain; version=0.0.4")


def _answering(prefix: str, read: Reader, make: Callable[[Names, Fields, Service], Format]) -> Handler:
    """Return the handler of an API whose requests ask for answers."""

    async def handler(request: Request, service: Service) -> Response:
        fields = await _body(request)
        asked, tools = read(fields, service.settings)
        format_ = make(Names(prefix, service.model), fields, service)
        return await _answered(request, service, fields, asked, tools, format_)

    return handler


def _chat_format(names: Names, fields: Fields, service: Service) -> Format:
    return ChatFormat(names, fields, service.report if fields.flag("tandem") else None)


_CHAT = _answering("chatcmpl-", read_chat, _chat_format)
_COMPLETIONS = _answering("cmpl-", read_completion, lambda names, fields, _: TextFormat(names, fields))
_RESPONSES = _answering("resp_", read_response, lambda names, fields, _: ResponseFormat(names, fields))
_MESSAGES = _answering("msg_", read_anthropic, lambda names, _, __: AnthropicFormat(names))


async def _count_tokens(request: Request, service: Service) -> Response:
    fields = await _body(request)
    ticket = service.queue.submit(TokenCount(read_count(fields, service.settings)))
    with _watched(request, service.queue, ticket):
        async for event in ticket.events():
            if isinstance(event, Failed):
                raise as_request_error(event.error)
            if isinstance(event, JobEnded) and isinstance(event.result, int):
                return JSONResponse({"input_tokens": event.result})
    raise RequestError("The tokens could not be counted.", status=500)


async def _body(request: Request) -> Fields:
    """Read a body of limited size."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _LONGEST_BODY:
            raise RequestError(f"The body is longer than {_LONGEST_BODY:,} bytes.", status=413)
    return read_body(bytes(data))


async def _answered(
    request: Request, service: Service, fields: Fields, asked: AnswerRequest, tools: tuple[str, ...], format_: Format
) -> Response:
    """Queue a request and return its answer, as a stream or whole."""
    streamed = fields.flag("stream")
    ticket, reader = service.queue.submit(asked), PartReader(tools)
    with ExitStack() as stack:
        stack.enter_context(_watched(request, service.queue, ticket))
        if not streamed:
            return JSONResponse(format_.whole(await whole_answer(ticket, reader)))
        parts = parts_of(ticket, reader)
        # A prompt that is refused gets a status; only later failures are events.
        first = await anext(parts)
        watched = stack.pop_all()

    async def events() -> AsyncIterator[str]:
        part = first
        with watched:
            try:
                yield "".join(format_.begin())
                while True:
                    yield "".join(format_.part(part)) if part is not None else format_.keep_alive()
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except Exception as error:
                path = request.url.path
                yield sse(error_body(_failure(error, path), path), "error" if "/messages" in path else "")

    return StreamingResponse(events(), media_type="text/event-stream", headers=_HEADERS)


@contextmanager
def _watched(request: Request, queue: EngineQueue, ticket: Ticket) -> Iterator[None]:
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


def _failure(error: Exception, path: str) -> RequestError:
    """Return the error for the client; log one that is unexpected."""
    if isinstance(error, AppError):
        return as_request_error(error)
    log.error("unexpected failure in %s", path, exc_info=error)
    return RequestError("The server failed unexpectedly.", status=500)


def _error_response(error: RequestError, path: str) -> Response:
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s is not None else None
    return JSONResponse(error_body(error, path), error.status, headers)
