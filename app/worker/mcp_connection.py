"""The connection to an MCP server: its transport and its limits. Only this module imports the SDK."""

from __future__ import annotations

import asyncio
import codecs
import json
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from app.core.printable import one_line, printable
from app.settings.mcp_file import McpServer
from app.worker.events import Tool
from app.worker.mcp_failure import MAX_MESSAGE, Meter, UnusableServerError, missing_command, reason, refusal

if TYPE_CHECKING:
    from mcp import Client

log = logging.getLogger("tandem.tools")
_MAX_CHARACTERS = 1_000_000
"""Longest result in characters; no context holds as many."""
_MAX_PAGES = 50
"""Largest number of pages in a list of tools."""
_MAX_LOGGED_LINES, _MAX_LINE = 10_000, 4_096
"""Logged lines of a server, and characters per line."""
_LOG_S = 1.0
"""Wait for the last lines of a server that has ended."""
_EXIT_GRACE_S = 3.0
"""How long a server may take to end after Tandem has ended."""
_SSE_READ_S = 86_400.0
_CODEC_NAME = "tandem-metered-utf-8"
_GUARDED_PROGRAM = """
import os, select, signal, sys, time
if not os.fork():
    # The standard input hangs up when Tandem has ended, even by SIGKILL.
    for stream in 1, 2:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    if hasattr(select, "kqueue"):
        # On macOS, poll does not report it: https://github.com/NixOS/nix/pull/13901.
        queue = select.kqueue()
        change = [select.kevent(0, select.KQ_FILTER_READ, select.KQ_EV_ADD | select.KQ_EV_CLEAR)]
        while not any(event.flags & select.KQ_EV_EOF for event in queue.control(change, 1)):
            change = None
    else:
        poll = select.poll()
        poll.register(0, 0)
        poll.poll()
    time.sleep(float(sys.argv[1]))
    os.killpg(0, signal.SIGKILL)
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""Runs a server beside a process that ends its process group after Tandem; on Windows, the SDK's job object does."""
_CAUSE_PATTERN = re.compile(r"\s*(?:[\w.]*(?:Error|Exception)\b.*:|npm (?:error|ERR!) \w+ .* - )")
"""Lines with a cause in the messages of Python, Node.js and npm."""


_CURRENT_METER: ContextVar[Meter] = ContextVar("meter")
"""Meter of the present task's connection."""


class _MeteredDecoder(codecs.IncrementalDecoder):
    """A UTF-8 codec that counts: the SDK's transport has no limit of its own, but takes the name of a codec."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._inner, self._meter = codecs.getincrementaldecoder("utf-8")(errors), _CURRENT_METER.get()

    def decode(self, data: Any, final: bool = False) -> str:
        self._meter.count(bytes(data))
        return self._inner.decode(data, final)


def find_codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec of the transport, for `codecs.register`."""
    utf_8 = codecs.lookup("utf-8")
    metered = codecs.CodecInfo(utf_8.encode, utf_8.decode, incrementaldecoder=_MeteredDecoder, name=_CODEC_NAME)
    return metered if name.replace("_", "-") == _CODEC_NAME else None


@asynccontextmanager
async def connected(server: McpServer, meter: Meter, start_s: float) -> AsyncIterator[Client]:
    """Start a server, or connect to one, and end it. `failure` explains its errors."""
    from mcp import Client

    _CURRENT_METER.set(meter)
    async with AsyncExitStack() as stack:
        transport = _http(server, meter, start_s) if server.url else await _stdio(server, meter, stack)
        try:
            # Not a scope of anyio: the connection entered in it outlives it.
            async with asyncio.timeout(start_s) as limit:
                meter.stop = partial(limit.reschedule, 0.0)
                client = await stack.enter_async_context(Client(transport, message_handler=meter.watch))
        except TimeoutError:
            raise UnusableServerError(f"did not answer within {start_s:g} s") from None
        yield client


async def _stdio(server: McpServer, meter: Meter, stack: AsyncExitStack) -> Any:
    """Return the transport of a command, which inherits a few harmless variables."""
    from mcp import StdioServerParameters, stdio_client

    if server.cwd is not None and not Path(server.cwd).is_dir():
        raise UnusableServerError(f"cannot start: there is no folder {server.cwd}", "Correct its cwd in mcp.json.")
    has_folder = os.path.dirname(server.command)  # noqa: PTH120 - Path would drop a leading dot
    place = str(Path(server.cwd or "", server.command)) if has_folder else server.command
    if shutil.which(place, path=server.env.get("PATH")) is None:
        raise missing_command(server.command)
    words = [server.command, *server.args]
    if sys.platform != "win32":
        words = [sys.executable, "-I", "-S", "-c", _GUARDED_PROGRAM, str(_EXIT_GRACE_S), *words]
    how: dict[str, Any] = {"encoding": _CODEC_NAME, "encoding_error_handler": "replace"}
    command = StdioServerParameters(command=words[0], args=words[1:], env=server.env, cwd=server.cwd, **how)
    return stdio_client(command, await stack.enter_async_context(_logged(server, meter)))


@asynccontextmanager
async def _logged(server: McpServer, meter: Meter) -> AsyncIterator[TextIO]:
    reading, writing = os.pipe()

    def read() -> None:
        n_lines = 0
        with os.fdopen(reading, encoding="utf-8", errors="replace") as stream:
            while line := stream.readline(_MAX_LINE):
                if not (line := server.without_secrets(line)).strip():
                    continue
                if (n_lines := n_lines + 1) <= _MAX_LOGGED_LINES:
                    log.warning("%s: %s", server.name, one_line(line))
                meter.line = line if _CAUSE_PATTERN.match(line) or not _CAUSE_PATTERN.match(meter.line) else meter.line

    thread = threading.Thread(target=read, name=f"log of {server.name}", daemon=True)
    thread.start()
    try:
        with os.fdopen(writing, "w") as stream:
            yield stream
    finally:
        await asyncio.to_thread(thread.join, _LOG_S)


@asynccontextmanager
async def _http(server: McpServer, meter: Meter, start_s: float) -> AsyncIterator[Any]:
    """Connect to a URL: certificates are checked, and the SDK follows redirects only to the same origin."""
    import httpx2
    from mcp.client.sse import sse_client
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
        if response.request.method == ("GET" if server.is_sse else "POST"):
            meter.refusal = refusal(response)

    def client(headers: Any = None, timeout: httpx2.Timeout | None = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=server.headers, timeout=timeout, event_hooks={"response": [measure]})

    if server.is_sse:
        async with sse_client(
            server.url, timeout=start_s, sse_read_timeout=_SSE_READ_S, httpx_client_factory=client
        ) as streams:
            yield streams
        return
    async with (
        client(timeout=httpx2.Timeout(start_s, read=None)) as http,
        streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams


async def list_tools(client: Client, server: McpServer) -> tuple[Tool, ...]:
    """Return all tools of a server."""
    found: dict[str, Tool] = {}
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        for tool in filter(lambda tool: server.offers(tool.name), page.tools):
            hints = tool.annotations
            reads_only = hints is not None and hints.read_only_hint is True and hints.destructive_hint is not True
            text = printable(tool.description or tool.title or "")
            # The model must not read what the user cannot see.
            schema = json.loads(printable(json.dumps(tool.input_schema, ensure_ascii=False)), strict=False)
            found[tool.name] = Tool(server.name, tool.name, text, schema, reads_only)
        cursor = page.next_cursor
        if not cursor:
            break
    return tuple(found.values())


async def call_tool(client: Client, meter: Meter, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """Return the text of a result and whether it is an error; raises if the server is gone."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        if error.code == CONNECTION_CLOSED or meter.refusal is not None:
            raise
        return f"The server refused the call: {one_line(error.message)}.", True
    except (RuntimeError, ValueError) as error:
        return f"The server gave an invalid result: {reason(error)}.", True
    return _text_of(result), result.is_error is True


def _text_of(result: Any) -> str:
    """Return a result as text, with only the names of pictures and files."""
    parts = []
    for one in result.content:
        named = (one.type, *(getattr(one, key, None) for key in ("name", "uri", "mime_type")))
        text = getattr(getattr(one, "resource", one), "text", None)
        parts.append(f"[{', '.join(map(str, filter(None, named)))}: not shown]" if text is None else text)
    if not parts and result.structured_content is not None:
        parts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(parts)[:_MAX_CHARACTERS]
