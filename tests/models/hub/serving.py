"""Parts of answers: refusals, pages of a list, and content with ranges and conditions."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode

from tests.models.hub.content import HubFile
from tests.models.hub.wire import Answer, Body, Request

T = TypeVar("T")
RANGE = re.compile(r"bytes=(?P<first>\d*)-(?P<last>\d*)")
COMPRESSED_FROM_BYTES = 1000
QUOTA = {"api": 500, "resolvers": 3000}


class Refusal(Exception):  # noqa: N818
    """An answer that ends the search for another one: an error, or a redirect."""

    def __init__(self, status: int, message: str, code: str | None = None, *, plain: bool = False, **headers: str):
        super().__init__(message)
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if status >= 400:
            told |= {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        if status == 401:
            told["WWW-Authenticate"] = 'Bearer realm="Authentication required", charset="UTF-8"'
        self.answer = Answer.text(status, message, **told) if plain else Answer.json({"error": message}, told, status)


def rate_limit(bucket: str, left: int, seconds: int) -> dict[str, str]:
    """How many requests of a kind ("api" or "resolvers") are left to this client, and until when."""
    policy = f'"fixed window";"{bucket}";q={QUOTA[bucket]};w=300'
    return {"RateLimit": f'"{bucket}";r={left};t={seconds}', "RateLimit-Policy": policy}


def disposition(path: str) -> str:
    name = path.rpartition("/")[2]
    plain = re.sub(r'[^\x20-\x7e]|["\\]', "_", name)
    return f"inline; filename*=UTF-8''{quote(name, errors='replace')}; filename=\"{plain}\";"


def page(request: Request, base: str, items: Sequence[T], size: int) -> tuple[Sequence[T], dict[str, str]]:
    """The page this request asks for, and the headers that lead to the next one."""
    query = request.query
    try:
        start = int(base64.b64decode(query["cursor"][0])) if "cursor" in query else 0
        size = max(1, int(query["limit"][0])) if "limit" in query else size
    except (binascii.Error, ValueError):
        raise Refusal(400, "Invalid cursor or limit") from None
    end = start + size
    if end >= len(items):
        return items[start:end], {}
    cursor = {"limit": [str(size)], "cursor": [base64.b64encode(str(end).encode()).decode()]}
    return items[start:end], {"Link": f'<{base}{request.raw_path}?{urlencode(query | cursor, True)}>; rel="next"'}


def _span(request: Request, size: int) -> tuple[int, int] | None:
    """First byte and number of bytes asked for; None for all, a negative number where there are none."""
    match = RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    if not match["first"]:
        count = min(int(match["last"]), size)
        return (size - count, count or -1)
    first = int(match["first"])
    last = int(match["last"]) if match["last"] else size - 1
    if match["last"] and last < first:
        return None
    return first, min(last, size - 1) - first + 1 if first < size else -1


def served(request: Request, file: HubFile, etag: str, headers: dict[str, str]) -> Answer:
    """The content of a file: whole, in part, or not again."""
    quoted = f'"{etag}"'
    headers = {"ETag": quoted, "Accept-Ranges": "bytes", "Content-Disposition": disposition(file.path)} | headers
    if quoted in request.headers.get("if-none-match", ""):
        return Answer(304, headers)
    body = Body.of(file.content)
    span = _span(request, file.size) if request.headers.get("if-range", quoted) == quoted else None
    if span is None:
        return Answer(200, headers, body)
    first, count = span
    if count < 0:
        told = {"Content_Range": f"bytes */{file.size}"}
        return Answer.text(416, "<Error><Code>InvalidRange</Code></Error>", "application/xml", **told)
    headers["Content-Range"] = f"bytes {first}-{first + count - 1}/{file.size}"
    return Answer(206, headers, body.part(first, count))


def compressed(request: Request, answer: Answer) -> Answer:
    """Text as the hub's front sends it to clients that take gzip: in chunks, and without a length."""
    content = answer.body.content
    wanted = request.method == "GET" and "gzip" in request.headers.get("accept-encoding", "")
    if answer.status != 200 or not wanted or not isinstance(content, bytes) or len(content) < COMPRESSED_FROM_BYTES:
        return answer
    headers = answer.headers | {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    headers["ETag"] = f"W/{headers['ETag']}"
    return Answer(200, headers, Body.of(gzip.compress(content)), chunked=True)
