"""Tools without servers, for sessions and screens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.engine.text.tool_calls import ToolCall
from app.session.permissions import Permissions
from app.session.tool_use import ToolUse
from app.settings.mcp_file import McpServer
from app.worker.events import Tool
from app.worker.tool_servers import ToolServers

FILES = McpServer("files", "serve-files")
_PATH = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = Tool("files", "read_file", "Return the text of a file.", _PATH, reads_only=True)
WRITE = Tool("files", "write_file", "Replace the text of a file.", _PATH)


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(name, arguments)


@dataclass
class FakeToolHost(ToolServers):
    """Records the commands of `app.worker.tool_servers.ToolServers`."""

    connected: list[str] = field(default_factory=list)
    calls: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)

    def connect(self, servers: Sequence[McpServer]) -> None:
        self.connected += [server.name for server in servers]

    def call(
        self, number: int, server: McpServer, tool: str, arguments: Mapping[str, Any], *, repeats: bool = False
    ) -> None:
        self.calls.append((number, tool, dict(arguments)))

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)

    def close(self, timeout: float = 0.0) -> None:
        """End nothing."""


def no_tools() -> ToolUse:
    """Return the tools of a chat without servers."""
    return ToolUse(FakeToolHost(), tuple, Permissions())


def tool_use(file: Path | None = None, *servers: McpServer) -> tuple[ToolUse, FakeToolHost]:
    """Return tools with the file server, or with other servers."""
    host = FakeToolHost()
    return ToolUse(host, lambda: servers or (FILES,), Permissions(file)), host
