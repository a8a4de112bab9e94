"""The routes of the server, and the errors of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.server import about
from app.server.access import page_error
from app.server.answering import answering, failure
from app.server.chat import ChatFormat, read_choices
from app.server.completions import TextFormat, read_completions
from app.server.errors import RequestError, error_body
from app.server.messages import AnthropicFormat, read_anthropic
from app.server.native import NativeFormat, read_infill, read_native
from app.server.responses import ResponseFormat, read_response
from app.server.service import Handler, Service

_LONGEST_PATH = 60
"""Characters of an unknown path in the log."""


_CHAT = answering("chatcmpl-", read_choices, ChatFormat)
_COMPLETIONS = answering("cmpl-", read_completions, TextFormat)
_RESPONSES = answering("resp_", lambda *asked: [read_response(*asked)], ResponseFormat)
_MESSAGES = answering("msg_", lambda *asked: [read_anthropic(*asked)], AnthropicFormat)
_NATIVE, _INFILL = (answering("", read, NativeFormat) for read in (read_native, read_infill))
_ROUTES: tuple[tuple[str, tuple[str, ...], Handler], ...] = (
    ("GET", ("/",), about.home),
    ("GET", ("/health", "/v1/health"), about.health),
    ("GET", ("/models", "/v1/models"), about.models),
    ("GET", ("/models/{name:path}", "/v1/models/{name:path}"), about.model),
    ("GET", ("/props",), about.props),
    ("GET", ("/slots",), about.slots),
    ("GET", ("/metrics",), about.counters),
    ("POST", ("/chat/completions", "/v1/chat/completions"), _CHAT),
    ("POST", ("/v1/completions",), _COMPLETIONS),
    ("POST", ("/responses", "/v1/responses"), _RESPONSES),
    ("POST", ("/v1/messages",), _MESSAGES),
    ("POST", ("/v1/messages/count_tokens",), about.count_tokens),
    ("POST", ("/completion", "/completions"), _NATIVE),
    ("POST", ("/infill",), _INFILL),
    ("POST", ("/tokenize",), about.tokenize),
    ("POST", ("/detokenize",), about.detokenize),
    ("POST", ("/apply-template",), about.apply_template),
)
"""Method, paths and handler of every route."""


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
                response = _error_response(failure(error, path), path)
            service.on_end(method, request.url.path[:_LONGEST_PATH], response.status_code)
            return response

        return Route(path, endpoint, methods=[method])

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = {
            404: f"{request.url.path} is not an endpoint of this server.",
            405: f"{request.url.path} does not accept {request.method}.",
        }
        text = message.get(error.status_code, "The request is refused.")
        origin = request.headers.get("origin")
        if request.method == "OPTIONS" and origin:
            text = page_error(origin).sentences
        # A client with a wrong base URL shows here.
        service.on_end(request.method, request.url.path[:_LONGEST_PATH], error.status_code)
        response = _error_response(RequestError(text, status=error.status_code), request.url.path)
        response.headers.update(error.headers or {})
        return response

    cors = Middleware(
        CORSMiddleware,
        allow_origins=service.access.origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        allow_private_network=True,
    )
    return Starlette(
        routes=[route(path, method, handler) for method, paths, handler in _ROUTES for path in paths],
        middleware=[cors] if service.access.origins else [],
        exception_handlers={HTTPException: refused},
        lifespan=lifespan,
    )


def _error_response(error: RequestError, path: str) -> Response:
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s is not None else None
    return JSONResponse(error_body(error, path), error.status, headers)
