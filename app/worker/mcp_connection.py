"""The connection to one MCP server: its transport, its limits, and why it cannot be used. Only this imports the SDK."""

from __future__ import annotations

import asyncio
import codecs
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from app.core.errors import AppError
from app.core.paths import log_file
from app.core.printable import one_line, printable
from app.settings.mcp_file import McpServer
from app.worker.tool_events import Tool

if TYPE_CHECKING:
    from mcp import Client

_MAX_BYTES, _MAX_MESSAGE = 100 << 20, 16 << 20
"""Bytes that a server may send for one command, and in one message."""
_MAX_CHARACTERS = 1_000_000
"""Characters of a result that are kept; no context holds as many."""
_MAX_PAGES = 50
"""Pages of a list of tools."""
_MAX_JUNK = 80
_CODEC = "tandem-metered-utf-8"


class LostServerError(Exception):
    """A server did not answer in time, so its connection is given up."""


class Meter:
    """Counts what a server sends, and remembers what it sent wrong.

    Attributes:
        total: Bytes since the command began.
        flood: The limit that was exceeded; 0 if none was.
        junk: The first text that was no message of the protocol, if any.
        status: The last HTTP failure, if any.
        stop: Ends what waits for the server.
    """

    def __init__(self) -> None:
        self.stop: Callable[[], object] = lambda: None
        self.total = self._line = self.flood = 0
        self.junk = self.status = ""

    def count(self, data: bytes) -> None:
        """Count new bytes. Raises ConnectionError for too many, which ends the connection."""
        self.total += len(data)
        end = data.rfind(b"\n")
        self._line = self._line + len(data) if end < 0 else len(data) - end - 1
        for size, limit in ((self._line, _MAX_MESSAGE), (self.total, _MAX_BYTES)):
            if size > limit:
                self.flood = limit
                # The SDK would read on until the server ends.
                self.stop()
                raise ConnectionError("too many bytes")

    async def watch(self, message: Any) -> None:
        """Take what the SDK could not read."""
        if isinstance(message, Exception):
            given = next((one.get("input") for one in getattr(message, "errors", list)()), "")
            self.junk = self.junk or one_line(str(given))[:_MAX_JUNK]


_METER: ContextVar[Meter] = ContextVar("meter")
"""Meter of the connection that the present task serves."""


class _MeteredDecoder(codecs.IncrementalDecoder):
    """UTF-8 that counts: the SDK's transport has no limit of its own, but takes the name of a codec."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._inner, self._meter = codecs.getincrementaldecoder("utf-8")(errors), _METER.get()

    def decode(self, data: Any, final: bool = False) -> str:
        self._meter.count(bytes(data))
        return self._inner.decode(data, final)


def find_codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec of the transport, for `codecs.register`."""
    utf_8 = codecs.lookup("utf-8")
    metered = codecs.CodecInfo(utf_8.encode, utf_8.decode, incrementaldecoder=_MeteredDecoder, name=_CODEC)
    return metered if name.replace("_", "-") == _CODEC else None


@asynccontextmanager
async def connected(server: McpServer, meter: Meter, start_s: float) -> AsyncIterator[Client]:
    """Start a server, or connect to one, and end it. Raises what `failure` explains."""
    from mcp import Client

    _METER.set(meter)
    async with AsyncExitStack() as stack:
        transport = _http(server, meter, start_s) if server.url else _stdio(server, stack)
        try:
            # Not a scope of anyio: the connection that is entered in it outlives it.
            async with asyncio.timeout(start_s) as limit:
                meter.stop = partial(limit.reschedule, 0.0)
                client = await stack.enter_async_context(Client(transport, message_handler=meter.watch))
        except TimeoutError:
            raise LostServerError(f"did not answer within {start_s:g} s") from None
        yield client


def _stdio(server: McpServer, stack: AsyncExitStack) -> Any:
    """Return the transport of a command, which inherits a few harmless variables, and whose errors go to the log."""
    from mcp import StdioServerParameters, stdio_client

    how: dict[str, Any] = {"encoding": _CODEC, "encoding_error_handler": "replace"}
    command = StdioServerParameters(
        command=server.command, args=list(server.args), env=server.env, cwd=server.cwd, **how
    )
    return stdio_client(command, stack.enter_context(_open_log()))


def _open_log() -> TextIO:
    with suppress(OSError):
        log_file().parent.mkdir(parents=True, exist_ok=True)
        return log_file().open("a", encoding="utf-8", errors="replace")
    return open(os.devnull, "w")  # noqa: PTH123 - a device


@asynccontextmanager
async def _http(server: McpServer, meter: Meter, start_s: float) -> AsyncIterator[Any]:
    """Connect to a URL: certificates are checked, and the SDK follows redirects to the same origin only."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    class Metered(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._inner:
                meter.count(chunk)
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def measure(response: httpx2.Response) -> None:
        response.stream = Metered(response.stream)
        if response.status_code >= 300:
            meter.status = f"answered {response.status_code} {response.reason_phrase}"

    hooks = {"response": [measure]}
    async with (
        httpx2.AsyncClient(
            headers=server.headers, timeout=httpx2.Timeout(start_s, read=None), event_hooks=hooks
        ) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=_MAX_MESSAGE) as streams,
    ):
        yield streams


async def list_tools(client: Client, server: str) -> tuple[Tool, ...]:
    """Return all tools of a server."""
    found: dict[str, Tool] = {}
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        for tool in page.tools:
            reads_only = tool.annotations is not None and tool.annotations.read_only_hint is True
            text = printable(tool.description or tool.title or "")
            found[tool.name] = Tool(server, tool.name, text, tool.input_schema, reads_only)
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(found.values())


async def call_tool(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Return the text of a result and whether it is an error; raises if the server is gone."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED:
            raise
        return f"The server refused the call: {one_line(error.message)}.", True
    except (RuntimeError, ValueError) as error:
        return f"The server gave an invalid result: {one_line(str(error))}.", True
    return _text_of(result), result.is_error is True


def _text_of(result: Any) -> str:
    """Return a result as text; pictures and files are named only."""
    parts = []
    for one in result.content:
        text = getattr(getattr(one, "resource", one), "text", None)
        parts.append(
            text
            if text is not None
            else f"[{one.type}, {getattr(one, 'mime_type', None) or 'unknown type'}: not shown]"
        )
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return printable("\n".join(parts)[:_MAX_CHARACTERS])


# Why a server cannot be used


def failure(server: McpServer, error: BaseException, meter: Meter, *, has_begun: bool) -> AppError:
    """Return why a server cannot be used; `has_begun` if it was connected."""
    name, reasons = f"The MCP server {server.name}", list(_flat(error))
    where = server.address or server.command
    look = "" if server.url else f"Its messages are in the log: {log_file()}"
    junk = f"; it wrote text that is no message of MCP: {meter.junk}" if meter.junk else ""
    start = next((one for one in reasons if isinstance(one, OSError) and one.errno is not None), None)
    lost = next((str(one) for one in reasons if isinstance(one, LostServerError)), "")
    if meter.flood:
        return AppError(f"{name} sent more than {meter.flood >> 20} MB at once and was ended.")
    if start is not None and not (server.url or has_begun):
        what = "does not exist" if isinstance(start, FileNotFoundError) else (start.strerror or "").lower()
        place = f"the folder {server.cwd}" if start.filename == server.cwd else f'the command "{where}"'
        hint = f"Install it, or correct {server.name} in mcp.json."
        return AppError(f"{name} cannot start: {printable(place)} {what}.", hint)
    if lost:
        return AppError(f"{name} {lost}{junk}.", look)
    if meter.status:
        return AppError(f"{name} at {where} {meter.status}.", "Check its url and headers in mcp.json.")
    if server.url:
        return AppError(f"{name} at {where} cannot be reached: {_reason(reasons)}.")
    return AppError(f"{name} ended {'during a call' if has_begun else 'before it answered'}{junk}.", look)


def is_final(error: BaseException) -> bool:
    """Return whether another attempt would fail in the same way."""
    return any(
        isinstance(one, LostServerError) or (isinstance(one, OSError) and one.errno is not None) for one in _flat(error)
    )


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _flat(one)
    else:
        yield error


def _reason(errors: Sequence[BaseException]) -> str:
    return next((one_line(str(error)) for error in errors if str(error)), type(errors[0]).__name__)
