"""Answer requests, as streams of events or whole, in the format of any API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from app.core.errors import AppError
from app.server.answer import End, Part, PartReader, PrefillProgress, parts_of, whole_answer
from app.server.engine_queue import EngineQueue
from app.server.errors import RequestError, as_request_error, error_body
from app.server.fields import Fields
from app.server.format import Format, Names, sse
from app.server.service import Handler, Service, body_of, watched
from app.session.chat_settings import ChatSettings
from app.worker.request import AnswerRequest

Reader: TypeAlias = Callable[[Fields, ChatSettings], Sequence[AnswerRequest]]
"""Reads the requested answers from the body of a request."""

log = logging.getLogger("tandem.server")
log.addHandler(logging.NullHandler())

_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def answering(prefix: str, read: Reader, form: type[Format]) -> Handler:
    """Return the handler of an API whose requests ask for answers."""

    async def handler(request: Request, service: Service) -> Response:
        fields = await body_of(request)
        asked = await asyncio.to_thread(read, fields, service.reading)
        names = Names(prefix, service.model, service.report)
        formats = [form(names, fields, number, one) for number, one in enumerate(asked)]
        if fields.flag("stream"):
            return await _streamed(request, service.queue, asked, formats)
        answers = []
        # Answers are queued one at a time, so that other clients get their turns in between.
        for one in asked:
            ticket = service.queue.submit(one)
            with watched(request, service.queue, ticket):
                answers.append(await whole_answer(ticket, PartReader(one)))
        values = [format_.whole(answer) for format_, answer in zip(formats, answers, strict=True)]
        return JSONResponse(formats[0].joined(values, [answer.end for answer in answers]))

    return handler


async def _streamed(
    request: Request, queue: EngineQueue, asked: Sequence[AnswerRequest], formats: Sequence[Format]
) -> Response:
    has_begun = False

    async def events() -> AsyncIterator[str]:
        ends: list[End] = []
        try:
            for one, format_ in zip(asked, formats, strict=True):
                ticket = queue.submit(one)
                with watched(request, queue, ticket):
                    async for text in _events(format_, parts_of(ticket, PartReader(one)), ends):
                        yield text
            yield "".join(formats[0].closing(ends))
        except Exception as error:
            # A prompt that is refused gets a status; only later failures are events.
            if not has_begun:
                raise
            path = request.url.path
            yield sse(error_body(failure(error, path), path), "error" if "/messages" in path else "")

    async def after(first: str, stream: AsyncIterator[str]) -> AsyncIterator[str]:
        yield first
        async for text in stream:
            yield text

    stream = events()
    first = await anext(stream)
    has_begun = True
    return StreamingResponse(after(first, stream), media_type="text/event-stream", headers=_STREAM_HEADERS)


async def _events(
    format_: Format, parts: AsyncIterator[Part | PrefillProgress | None], ends: list[End]
) -> AsyncIterator[str]:
    """Yield the events of one answer; add its end to `ends`."""
    has_begun = False
    async for part in parts:
        if not has_begun and not (format_.waits and part is None):
            yield "".join(format_.begin(part if isinstance(part, PrefillProgress) else None))
            has_begun = True
        if part is None:
            yield format_.keep_alive()
        else:
            yield "".join(format_.progress(part) if isinstance(part, PrefillProgress) else format_.part(part))
        if isinstance(part, End):
            ends.append(part)


def failure(error: Exception, path: str) -> RequestError:
    """Return the error for the client; log an unexpected error."""
    if isinstance(error, AppError):
        return as_request_error(error)
    log.error("unexpected failure in %s", path, exc_info=error)
    return RequestError("The server failed unexpectedly.", status=500)
