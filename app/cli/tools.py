"""`tandem tools`: list the MCP servers of mcp.json, and check that they start."""

from __future__ import annotations

import queue
from collections.abc import Sequence

from app.cli.output import HANG, print_result
from app.core.errors import AppError, UsageError
from app.core.paths import mcp_file
from app.core.printable import one_line, printable
from app.core.units import counted
from app.settings.mcp_file import McpServer, chosen_servers, read_servers
from app.worker.tool_events import ToolReturned, ToolsListed
from app.worker.tool_servers import ToolServers

_EXAMPLE = (
    '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}}}'
)


def list_servers(*, as_json: bool = False) -> int:
    """Print the servers; secrets of a server, which its arguments may hold too, are not shown."""
    servers = _servers()
    width, lines = max(len(server.name) for server in servers), []
    for server in servers:
        how = server.address or f"{server.command} ({counted(len(server.args), 'argument')})"
        lines.append(printable(f"{server.name:<{width}}  {how}{'  disabled' if server.is_disabled else ''}"))
    listed = [{"name": s.name, "disabled": s.is_disabled, "command": s.command, "url": s.address} for s in servers]
    print_result({"file": str(mcp_file()), "servers": listed}, lines, as_json=as_json)
    return 0


def check_servers(names: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Start servers and print their tools, or why they fail; the exit code is 1 if one does."""
    servers = chosen_servers(_servers(), names or None)
    results = _listed(servers)
    width, lines = max((len(server.name) for server in servers), default=0), []
    for one in results:
        tools = ", ".join(one_line(tool.name) for tool in one.tools)
        text = one.error.sentences if one.error else f"{counted(len(one.tools), 'tool')}: {tools}"
        lines.append(printable(f"{one.server:<{width}}  {text.rstrip(': ')}"))
    print_result({"servers": list(map(_as_json, results))}, lines, as_json=as_json, hang=HANG)
    return AppError.exit_code if any(one.error for one in results) else 0


def print_path() -> int:
    """Print the path of mcp.json."""
    print(str(mcp_file()))
    return 0


def _servers() -> tuple[McpServer, ...]:
    if not (servers := read_servers(mcp_file())):
        raise UsageError(f"There are no MCP servers in {mcp_file()}.", f"Add them there, for example: {_EXAMPLE}")
    return servers


def _listed(servers: Sequence[McpServer]) -> list[ToolsListed]:
    """Start servers; return what they report, in their order."""
    events: queue.SimpleQueue[ToolsListed | ToolReturned] = queue.SimpleQueue()
    host = ToolServers(events.put)
    try:
        host.connect(servers)
        found = {event.server: event for _ in servers if isinstance(event := events.get(), ToolsListed)}
    finally:
        host.close()
    return [found[server.name] for server in servers]


def _as_json(listed: ToolsListed) -> dict[str, object]:
    tools = [
        {"name": tool.name, "description": tool.description, "schema": tool.schema, "read_only": tool.reads_only}
        for tool in listed.tools
    ]
    return {"name": listed.server, "tools": tools, "error": listed.error.sentences if listed.error else None}
