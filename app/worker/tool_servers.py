"""MCP servers: one thread that owns their connections; commands in, frozen events out.

A server starts with the first command for it. If it ends, it is started again once for the same command, unless that
command may have already changed something.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib.util
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.core.errors import AppError
from app.core.fixes import fix
from app.settings.mcp_file import McpServer
from app.worker.events import ToolReturned, ToolsListed
from app.worker.mcp_connection import call_tool, connected, find_codec, list_tools
from app.worker.mcp_failure import Meter, UnusableServerError, failure

if TYPE_CHECKING:
    from mcp import Client

log = logging.getLogger("tandem.tools")
_START_S, _CALL_S, _CLOSE_S = 60.0, 120.0, 3.0
"""Deadlines in seconds: the start of a server, which may download it first; a call; the end of all servers."""
_MAX_ATTEMPTS = 2

_ToolEvent = ToolsListed | ToolReturned


class ToolServers:
    """Starts servers, lists their tools and calls them. Events come on its thread, or immediately for unusable servers.

    Args:
        emit: Receives the events; it must be quick.
        start_s: Deadline in seconds for the start of a server, and for its list of tools.
    """

    def __init__(
        self, emit: Callable[[_ToolEvent], object], *, start_s: float = _START_S, call_s: float = _CALL_S
    ) -> None:
        self._emit, self._start_s, self._call_s = emit, start_s, call_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[str, _Connection] = {}
        self._last_call: tuple[int, _Command] | None = None

    def connect(self, servers: Sequence[McpServer]) -> None:
        """Start servers that do not run, and list the tools of all; `ToolsListed` reports each server."""
        for server in servers:
            self._submit(server, self._list_command(server))

    def _list_command(self, server: McpServer) -> _Command:
        async def run(client: Client, meter: Meter) -> None:
            self._emit(ToolsListed(server.name, await list_tools(client, server)))

        return _Command(run, lambda error: self._emit(ToolsListed(server.name, error=error)), self._start_s)

    def call(
        self, number: int, server: McpServer, tool: str, arguments: Mapping[str, Any], *, repeats: bool = False
    ) -> None:
        """Call a tool; `ToolReturned` reports the result. With `repeats` it may be called again after a crash."""
        began: float | None = None

        async def run(client: Client, meter: Meter) -> None:
            nonlocal began
            began = time.monotonic()
            returned(*await call_tool(client, meter, tool, dict(arguments)))

        def returned(text: str, is_error: bool) -> None:
            seconds = time.monotonic() - began if began is not None else 0.0
            self._emit(ToolReturned(number, server.without_secrets(text, is_result=not is_error), is_error, seconds))

        command = _Command(run, lambda error: returned(error.sentences, True), self._call_s, repeats)
        self._last_call = number, command
        self._submit(server, command)

    def cancel(self, number: int) -> None:
        """Stop a call, which is then not reported."""
        if self._loop is not None and self._last_call is not None and self._last_call[0] == number:
            self._loop.call_soon_threadsafe(self._last_call[1].cancel)

    def close(self, timeout: float = _CLOSE_S) -> None:
        """End all servers."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(timeout)

    def _submit(self, server: McpServer, command: _Command) -> None:
        if server.fault is not None:
            command.fail(AppError(server.fault))
            return
        if importlib.util.find_spec("mcp") is None:
            what = "MCP servers need the Python package mcp, which is not installed."
            command.fail(AppError(what, f"To install it: {fix('install', 'mcp>=2.3,<3')}"))
            return
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="tools", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._pass, server, command)

    # On the thread of the servers

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        # Without a handler, warnings of the SDK would appear on the screen.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        codecs.register(find_codec)
        loop.run_forever()
        loop.close()

    def _pass(self, server: McpServer, command: _Command) -> None:
        known = self._connections.get(server.name)
        if known is None or known.server != server:
            if known is not None:
                known.task.cancel()
            known = self._connections[server.name] = _Connection(server, self._start_s)
        known.commands.put_nowait(command)

    def _end(self) -> None:
        tasks = [one.task for one in self._connections.values()]
        for task in tasks:
            task.cancel()
        loop = asyncio.get_running_loop()
        asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: loop.stop())


@dataclass(slots=True)
class _Command:
    """A command for a connected server.

    Attributes:
        run: Does it, and reports the result.
        fail: Reports why it was not done.
        repeats: Whether it may be repeated after the server has ended.
    """

    run: Callable[[Client, Meter], Awaitable[None]]
    fail: Callable[[AppError], object]
    deadline_s: float
    repeats: bool = True
    is_cancelled: bool = False
    limit: asyncio.Timeout | None = None

    def cancel(self) -> None:
        self.is_cancelled = True
        self.stop()

    def stop(self) -> None:
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(0.0)

    async def do(self, client: Client, meter: Meter) -> None:
        """Run it, unless it is canceled. Raises UnusableServerError after the deadline."""
        meter.total, meter.junk, meter.stop = 0, "", self.stop
        try:
            async with asyncio.timeout(self.deadline_s) as self.limit:
                if not self.is_cancelled:
                    await self.run(client, meter)
        except TimeoutError:
            if not self.is_cancelled:
                # A server that hangs would delay the next command too.
                raise UnusableServerError(f"did not answer within {self.deadline_s:g} s") from None
        finally:
            self.limit = None


class _Connection:
    """A server and its queue of commands; one task enters and leaves the connection, as the SDK requires."""

    def __init__(self, server: McpServer, start_s: float) -> None:
        self.server = server
        self.commands: asyncio.Queue[_Command] = asyncio.Queue()
        self._start_s = start_s
        self.task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        command, n_failed = await self.commands.get(), 0
        while True:
            meter, has_begun = Meter(self.server), False
            try:
                async with connected(self.server, meter, self._start_s) as client:
                    has_begun = True
                    while True:
                        await command.do(client, meter)
                        n_failed = 0
                        command = await self.commands.get()
            except Exception as error:
                n_failed += 1
                reason, may_pass = failure(self.server, error, meter, has_begun=has_begun)
                log.warning("%s", reason.message)
                if n_failed == _MAX_ATTEMPTS or not (may_pass and (command.repeats or not has_begun)):
                    if not command.is_cancelled:
                        command.fail(reason)
                    command, n_failed = await self.commands.get(), 0
