"""MCP servers: one thread that owns their connections; commands in, frozen events out.

A server starts with the first command for it. If it ends, it is started again once for the same command, unless that
command may have changed something already.
"""

from __future__ import annotations

import asyncio
import codecs
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.core.errors import AppError
from app.settings.mcp_file import McpServer
from app.worker.mcp_connection import (
    LostServerError,
    Meter,
    call_tool,
    connected,
    failure,
    find_codec,
    is_final,
    list_tools,
)
from app.worker.tool_events import ToolReturned, ToolsListed

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client

log = logging.getLogger("tandem.tools")
_START_S, _CALL_S, _CLOSE_S = 60.0, 120.0, 3.0
"""Deadlines in seconds: the start of a server, which may download it first; a call; the end of all servers."""
_ATTEMPTS = 2

Emit = Callable[[ToolsListed | ToolReturned], object]


class ToolServers:
    """Start servers, list their tools and call them. Events come on the thread of the servers, or at once for none.

    Args:
        emit: Takes the events; it must be quick.
        start_s: Deadline of the start of a server, and of its list of tools, in seconds.
        call_s: Deadline of a call, in seconds.
    """

    def __init__(self, emit: Emit, *, start_s: float = _START_S, call_s: float = _CALL_S) -> None:
        self._emit, self._start_s, self._call_s = emit, start_s, call_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[str, _Connection] = {}
        self._calls: dict[int, _Call] = {}

    def connect(self, servers: Sequence[McpServer]) -> None:
        """Start servers that do not run, and list the tools of all; each is reported by `ToolsListed`."""
        for server in servers:
            self._submit(server, _List(server.name, self._emit, self._start_s))

    def call(
        self, number: int, server: McpServer, tool: str, arguments: Mapping[str, Any], *, repeats: bool = False
    ) -> None:
        """Call a tool, which is reported by `ToolReturned`; `repeats` if it may be called again after a crash."""
        self._calls = {number: _Call(server.name, self._emit, self._call_s, repeats, number, tool, dict(arguments))}
        self._submit(server, self._calls[number])

    def cancel(self, number: int) -> None:
        """Stop a call, which is not reported then."""
        if self._loop is not None and (command := self._calls.get(number)) is not None:
            self._loop.call_soon_threadsafe(command.cancel)

    def close(self, timeout: float = _CLOSE_S) -> None:
        """End all servers."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(timeout)

    def _submit(self, server: McpServer, command: _Command) -> None:
        if importlib.util.find_spec("mcp") is None:
            command.fail(_no_library())
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
        # Without a handler, warnings of the SDK would be written on the screen.
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
    """Something to do with a connected server."""

    server: str
    emit: Emit
    deadline_s: float
    repeats: bool = True

    async def run(self, client: Client) -> None:
        """Do it, and report the result."""
        raise NotImplementedError

    def fail(self, error: AppError) -> None:
        """Report why it was not done."""
        raise NotImplementedError


@dataclass(slots=True)
class _List(_Command):
    async def run(self, client: Client) -> None:
        self.emit(ToolsListed(self.server, await list_tools(client, self.server)))

    def fail(self, error: AppError) -> None:
        self.emit(ToolsListed(self.server, error=error))


@dataclass(slots=True)
class _Call(_Command):
    number: int = 0
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    began: float = 0.0
    is_cancelled: bool = False
    scope: CancelScope | None = None

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.scope is not None:
            self.scope.cancel()

    async def run(self, client: Client) -> None:
        import anyio

        if self.is_cancelled:
            return
        self.began = time.monotonic()
        with anyio.CancelScope() as self.scope:
            self._return(*await call_tool(client, self.tool, self.arguments))

    def _return(self, text: str, is_error: bool) -> None:
        if not self.is_cancelled:
            seconds = time.monotonic() - self.began if self.began else 0.0
            self.emit(ToolReturned(self.number, text, is_error, seconds))

    def fail(self, error: AppError) -> None:
        self._return(error.message, is_error=True)


class _Connection:
    """One server and its queue of commands; one task enters and leaves the connection, as the SDK requires."""

    def __init__(self, server: McpServer, start_s: float) -> None:
        self.server = server
        self.commands: asyncio.Queue[_Command] = asyncio.Queue()
        self._start_s = start_s
        self.task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        command, n_failed = await self.commands.get(), 0
        while True:
            meter, has_begun = Meter(), False
            try:
                async with connected(self.server, meter, self._start_s) as client:
                    while True:
                        has_begun = True
                        await self._do(command, client, meter)
                        n_failed = 0
                        command = await self.commands.get()
            except Exception as error:
                log.info("the connection to %s ended: %r", self.server.name, error)
                n_failed += 1
                can_repeat = (command.repeats or not has_begun) and not (is_final(error) or meter.flood)
                if not can_repeat or n_failed == _ATTEMPTS:
                    command.fail(failure(self.server, error, meter, has_begun=has_begun))
                    command, n_failed = await self.commands.get(), 0

    async def _do(self, command: _Command, client: Client, meter: Meter) -> None:
        import anyio

        with anyio.CancelScope(deadline=anyio.current_time() + command.deadline_s) as scope:
            meter.total, meter.junk, meter.stop = 0, "", scope.cancel
            await command.run(client)
        if scope.cancelled_caught:
            # A server that hangs would hold up the next command too.
            raise LostServerError(f"did not answer within {command.deadline_s:g} s")


def _no_library() -> AppError:
    from app.hardware.installation import install_command

    command = install_command("mcp>=2.3,<3")
    return AppError("MCP servers need the Python package mcp, which is not installed.", f"To install it: {command}")
