"""The routes of the server, the errors of requests, and the application behind a socket, served by uvicorn.

Routes without answers describe the server, its model, its slot, its counters, tokens and prompts.
"""

import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.core.errors import UsageError
from app.server.chat import ChatFormat, read_chat, read_choices
from app.server.completions import NativeFormat, TextFormat, read_completions, read_infill, read_native
from app.server.errors import RequestError, error_body
from app.server.fields import is_token, refuse
from app.server.messages import AnthropicFormat, read_anthropic, read_count
from app.server.responses import ResponseFormat, read_response
from app.server.service import Handler, Service, answering, body_of, failure, page_error, result_of
from app.settings.layers import sampling
from app.worker.jobs import Query, prompt_text, text_of, token_count, tokens_of

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8087
_SHUTDOWN_S = 2
_KEEP_ALIVE_S = 60
_ALL_ADDRESSES = ("0.0.0.0", "::")
_LONGEST_PATH = 60
"""Characters of an unknown path in the log."""


async def health(request: Request, service: Service) -> Response:
    """Report that the server runs."""
    return JSONResponse({"status": "ok"})


async def home(request: Request, service: Service) -> Response:
    """Describe the server in a browser; clients such as Claude Code test whether the address answers."""
    return PlainTextResponse(f"Tandem serves {service.model}. The API's base URL ends in /v1.\n")


async def models(request: Request, service: Service) -> Response:
    """List the pair as a model, with the fields of OpenAI, Anthropic and llama-server."""
    name = service.model
    return JSONResponse(
        {"object": "list", "data": [_model(service)], "has_more": False, "first_id": name, "last_id": name}
    )


async def model(request: Request, service: Service) -> Response:
    """Return the pair as a model, if it has this name."""
    name = request.path_params["name"]
    if name != service.model:
        raise RequestError(f'There is no model "{name}".', f'The model is "{service.model}".', status=404)
    return JSONResponse(_model(service))


def _model(service: Service) -> dict[str, Any]:
    pair, name = service.queue.metrics.pair, service.model
    started = datetime.fromtimestamp(service.started, UTC)
    head = {"id": name, "object": "model", "created": int(service.started), "owned_by": "tandem"}
    head |= {"type": "model", "display_name": name, "created_at": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
    meta = {
        "n_ctx": pair.n_ctx,
        "n_ctx_train": pair.target.n_ctx_train,
        "n_vocab": pair.target.n_vocab,
        "size": pair.target.size_bytes,
        "target": pair.target.name,
        "draft": pair.draft.name if pair.draft is not None else None,
    }
    inputs = ["text", "image"] if pair.projector is not None else ["text"]
    modalities = {"input_modalities": inputs, "output_modalities": ["text"]}
    return {**head, "context_length": pair.n_ctx, "max_model_len": pair.n_ctx, "architecture": modalities, "meta": meta}


async def props(request: Request, service: Service) -> Response:
    """Return the properties that llama-server reports, if they exist here."""
    pair, params = service.queue.metrics.pair, asdict(sampling(service.settings))
    return JSONResponse(
        {
            "default_generation_settings": {"n_ctx": pair.n_ctx, "params": params},
            "total_slots": 1,
            "model_alias": service.model,
            "model_path": pair.target.file,
            "chat_template": pair.target.chat_template,
            "bos_token": pair.target.bos,
            "eos_token": pair.target.eos,
            "modalities": {"vision": pair.projector is not None, "audio": False},
        }
    )


async def slots(request: Request, service: Service) -> Response:
    """Return the state of the engine as llama-server's only slot."""
    metrics = service.queue.metrics
    if "fail_on_no_slot" in request.query_params and metrics.n_running:
        raise RequestError("The only slot is in use.", "Try again later.", status=503)
    pair, stats = metrics.pair, metrics.current
    slot: dict[str, Any] = {
        "id": 0,
        "n_ctx": pair.n_ctx,
        "speculative": pair.draft is not None,
        "is_processing": metrics.n_running > 0,
    }
    if stats is not None:
        slot |= {
            "n_prompt_tokens": stats.cache_n + stats.prompt_n,
            "n_prompt_tokens_processed": stats.prompt_n,
            "n_prompt_tokens_cache": stats.cache_n,
            "next_token": [{"has_next_token": metrics.n_running > 0, "n_decoded": stats.predicted_n}],
        }
    return JSONResponse([slot])


async def counters(request: Request, service: Service) -> Response:
    """Return the counters for Prometheus."""
    headers = {"Process-Start-Time-Unix": str(int(service.started))}
    text = service.queue.metrics.as_prometheus()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4", headers=headers)


async def count_tokens(request: Request, service: Service) -> Response:
    """Count the tokens of a request of Anthropic's API."""
    fields = await body_of(request)
    asked = read_count(fields, service.reading(fields))
    return JSONResponse({"input_tokens": await result_of(request, service.queue, Query(partial(token_count, asked)))})


async def tokenize(request: Request, service: Service) -> Response:
    """Return the tokens of a text, as llama-server does."""
    fields = await body_of(request)
    content = fields.raw("content")
    parts = content if isinstance(content, list) else [content or ""]
    if not all(isinstance(part, str) or is_token(part) for part in parts):
        refuse("content", content, "a string, or an array of strings and token ids")
    parse_special = "parse_special" not in fields or fields.flag("parse_special")
    job = partial(tokens_of, parts, add_special=fields.flag("add_special"), parse_special=parse_special)
    tokens = await result_of(request, service.queue, Query(job))
    if fields.flag("with_pieces"):
        return JSONResponse({"tokens": [{"id": token, "piece": _piece(piece)} for token, piece in tokens]})
    return JSONResponse({"tokens": [token for token, _ in tokens]})


def _piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


async def detokenize(request: Request, service: Service) -> Response:
    """Return the text of tokens, as llama-server does."""
    fields = await body_of(request)
    tokens: list[Any] = fields.array("tokens")
    if not all(map(is_token, tokens)):
        refuse("tokens", tokens, "an array of token ids")
    return JSONResponse({"content": await result_of(request, service.queue, Query(partial(text_of, tokens)))})


async def apply_template(request: Request, service: Service) -> Response:
    """Return the prompt of a chat request as text, as llama-server does."""
    fields = await body_of(request)
    asked = read_chat(fields, service.reading(fields))
    return JSONResponse({"prompt": await result_of(request, service.queue, Query(partial(prompt_text, asked)))})


_CHAT_HANDLER = answering("chatcmpl-", read_choices, ChatFormat)
_COMPLETIONS_HANDLER = answering("cmpl-", read_completions, TextFormat)
_RESPONSES_HANDLER = answering("resp_", lambda *asked: [read_response(*asked)], ResponseFormat)
_MESSAGES_HANDLER = answering("msg_", lambda *asked: [read_anthropic(*asked)], AnthropicFormat)
_NATIVE_HANDLER, _INFILL_HANDLER = (answering("", read, NativeFormat) for read in (read_native, read_infill))
_ROUTES: tuple[tuple[str, tuple[str, ...], Handler], ...] = (
    ("GET", ("/",), home),
    ("GET", ("/health", "/v1/health"), health),
    ("GET", ("/models", "/v1/models"), models),
    ("GET", ("/models/{name:path}", "/v1/models/{name:path}"), model),
    ("GET", ("/props",), props),
    ("GET", ("/slots",), slots),
    ("GET", ("/metrics",), counters),
    ("POST", ("/chat/completions", "/v1/chat/completions"), _CHAT_HANDLER),
    ("POST", ("/v1/completions",), _COMPLETIONS_HANDLER),
    ("POST", ("/responses", "/v1/responses"), _RESPONSES_HANDLER),
    ("POST", ("/v1/messages",), _MESSAGES_HANDLER),
    ("POST", ("/v1/messages/count_tokens",), count_tokens),
    ("POST", ("/completion", "/completions"), _NATIVE_HANDLER),
    ("POST", ("/infill",), _INFILL_HANDLER),
    ("POST", ("/tokenize",), tokenize),
    ("POST", ("/detokenize",), detokenize),
    ("POST", ("/apply-template",), apply_template),
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
        # The log reveals a client with a wrong base URL.
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


# The socket


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address, before the models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol, asyncio leaves Nagle's algorithm on, and small writes wait for acknowledgments.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise UsageError(f"{host}:{port} cannot be used: {reason}.", "Choose another --port or --host.") from error
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    shown, port = "127.0.0.1" if host in _ALL_ADDRESSES else host, listener.getsockname()[1]
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


class HttpServer(uvicorn.Server):
    """uvicorn with the server's application; clients connect to `listener`.

    It has no signal handlers: the command frees the models after it.
    """

    def __init__(self, service: Service, listener: socket.socket) -> None:
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        super().__init__(config)
        self._listener = listener

    async def answer(self) -> None:
        """Answer requests until `stop`."""
        with self._listener:
            await self.serve([self._listener])

    def stop(self) -> None:
        """Stop the server soon; safe on any thread."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
