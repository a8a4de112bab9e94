"""Answer requests, as streams of events or whole, in the format of any API."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.core.errors import AppError
from app.server.answer import End, Part, PartReader, PrefillProgress, parts_of, whole_answer
from app.server.conversation import custom_names
from app.server.engine_queue import EngineQueue
from app.server.errors import RequestError, as_request_error, error_body
from app.server.fields import Fields
from app.server.format import Format, Names, sse
from app.server.service import Handler, Service, body_of, watched
from app.session.chat_settings import ChatSettings
from app.worker.request import AnswerRequest

Reader: TypeAlias = Callable[[Fields, ChatSettings], Sequence[AnswerRequest]]
"""Reads the requested answers from the body of a request."""
Make: TypeAlias = Callable[[Names, Fields, Service, int, AnswerRequest], Format]
"""Makes the format of an answer, given its number in the request and the request of the engine."""

log = logging.getLogger("tandem.server")
log.addHandler(logging.NullHandler())

_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def answering(prefix: str, read: Reader, make: Make) -> Handler:
    """Return the handler of an API whose requests ask for answers."""

    async def handler(request: Request, service: Service) -> Response:
        fields = await body_of(request)
        asked, custom = read(fields, service.settings), custom_names(fields)
        names = Names(prefix, service.model)
        formats = [make(names, fields, service, number, one) for number, one in enumerate(asked)]
        if fields.flag("stream"):
            return await _streamed(request, service.queue, asked, custom, formats)
        values = []
        # Answers are queued one at a time, so that other clients get their turns in between.
        for one, format_ in zip(asked, formats, strict=True):
            ticket = service.queue.submit(one)
            with watched(request, service.queue, ticket):
                values.append(format_.whole(await whole_answer(ticket, PartReader(one.tools, custom, one.stops))))
        return JSONResponse(formats[0].joined(values))

    return handler


async def _streamed(
    request: Request,
    queue: EngineQueue,
    asked: Sequence[AnswerRequest],
    custom: frozenset[str],
    formats: Sequence[Format],
) -> Response:
    ticket = queue.submit(asked[0])
    with ExitStack() as stack:
        stack.enter_context(watched(request, queue, ticket))
        # A prompt that is refused gets a status; only later failures are events.
        parts = parts_of(ticket, PartReader(asked[0].tools, custom, asked[0].stops))
        first = await anext(parts)
        first_watch = stack.pop_all()

    async def events() -> AsyncIterator[str]:
        ends: list[End] = []
        try:
            with first_watch:
                async for text in _events(formats[0], first, parts, ends):
                    yield text
            for one, format_ in zip(asked[1:], formats[1:], strict=True):
                later = queue.submit(one)
                with watched(request, queue, later):
                    more = parts_of(later, PartReader(one.tools, custom, one.stops))
                    async for text in _events(format_, await anext(more), more, ends):
                        yield text
            yield "".join(formats[0].closing(ends))
        except Exception as error:
            path = request.url.path
            yield sse(error_body(failure(error, path), path), "error" if "/messages" in path else "")

    return StreamingResponse(events(), media_type="text/event-stream", headers=_STREAM_HEADERS)


async def _events(
    format_: Format,
    first: Part | PrefillProgress | None,
    parts: AsyncIterator[Part | PrefillProgress | None],
    ends: list[End],
) -> AsyncIterator[str]:
    """Yield the events of one answer; add its end to `ends`."""
    part: Part | PrefillProgress | None = first
    has_begun = False
    while True:
        if not has_begun and not (format_.waits and part is None):
            yield "".join(format_.begin(part if isinstance(part, PrefillProgress) else None))
            has_begun = True
        if part is None:
            yield format_.keep_alive()
        else:
            yield "".join(format_.progress(part) if isinstance(part, PrefillProgress) else format_.part(part))
        if isinstance(part, End):
            ends.append(part)
            return
        part = await anext(parts)


def failure(error: Exception, path: str) -> RequestError:
    """Return the error for the client; log an unexpected error."""
    if isinstance(error, AppError):
        return as_request_error(error)
    log.error("unexpected failure in %s", path, exc_info=error)
    return RequestError("The server failed unexpectedly.", status=500)
