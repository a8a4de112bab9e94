"""`tandem tools`: list the MCP servers of mcp.json, and check that they start."""

import queue
from collections.abc import Sequence
from itertools import chain

from app.cli.output import HANG, print_result, status
from app.cli.setting_flags import in_flags
from app.core.errors import AppError, UsageError
from app.core.log import logged_to
from app.core.paths import allowed_tools_file, log_file, mcp_file
from app.core.printable import one_line, printable
from app.core.units import counted
from app.session.permissions import Permissions
from app.settings.mcp_file import McpServer, chosen_servers, read_servers
from app.settings.table import nearest
from app.worker.events import ToolReturned, ToolsListed
from app.worker.tool_servers import ToolServers

_EXAMPLE_FILE = (
    '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}}}'
)


def list_tools(*, as_json: bool = False) -> int:
    """Print the servers; hide their secrets, which arguments may hold too."""
    servers, always = _servers(), Permissions(allowed_tools_file()).always()
    width, lines = max(len(server.name) for server in servers), []
    for server in servers:
        how = server.fault or server.address or f"{server.command} ({counted(len(server.args), 'argument')})"
        more = [*(["disabled"] if server.is_disabled else []), *(f"ignores {key}" for key in server.ignored)]
        lines.append(f"{server.name:<{width}}  {', '.join([how, *more])}")
    lines += [f"{key} runs without a question" for key in sorted(always)]
    listed = [
        {
            "name": one.name,
            "disabled": one.is_disabled,
            "command": one.command,
            "url": one.address,
            "ignored": one.ignored,
            "error": one.fault,
        }
        for one in servers
    ]
    found = {"file": str(mcp_file()), "servers": listed, "always_allowed": sorted(always)}
    print_result(found, map(printable, lines), as_json=as_json)
    return 0


def revoke_tools(names: Sequence[str], *, as_json: bool = False) -> int:
    """Revoke permissions; a name is a tool, SERVER/TOOL, or a server with all its tools."""
    permissions = Permissions(allowed_tools_file())
    names_by_key = {key: _names_of(key) for key in permissions.always()}
    for name in names:
        if not any(name in known for known in names_by_key.values()):
            listed = ", ".join(map(printable, names_by_key)) or "none"
            near = nearest(name, chain.from_iterable(names_by_key.values()))
            raise UsageError(
                f'No tool of "{printable(name)}" runs without a question.{near}', f"Those that do: {listed}."
            )
    gone = [key for key, known in names_by_key.items() if not known.isdisjoint(names)]
    permissions.revoke(gone)
    lines = (printable(f"Tandem asks again before {key} runs.") for key in gone)
    print_result({"revoked": gone}, lines, as_json=as_json)
    return 0


def _names_of(key: str) -> set[str]:
    server, _, tool = key.partition("/")
    server = server.replace("%2F", "/")
    return {key, f"{server}/{tool}", server, tool}


def check_tools(names: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Start servers and print their tools or errors; return 1 if a server fails."""
    servers = chosen_servers(_servers(), names or None)
    results = _listed(servers)
    width, lines = max((len(server.name) for server in servers), default=0), []
    for one in results:
        tools = ", ".join(one_line(tool.name) for tool in one.tools)
        text = one.error.sentences if one.error else f"{counted(len(one.tools), 'tool')}: {tools}"
        lines.append(printable(f"{one.server:<{width}}  {text.rstrip(': ')}"))
    print_result({"servers": list(map(_as_json, results))}, lines, as_json=as_json, hang=HANG)
    return AppError.exit_code if any(one.error for one in results) else 0


def path_tools(*, as_json: bool = False) -> int:
    """Print the path of mcp.json."""
    print_result({"file": str(mcp_file())}, [str(mcp_file())], as_json=as_json)
    return 0


def _servers() -> tuple[McpServer, ...]:
    if not (servers := read_servers(mcp_file())):
        raise UsageError(f"There are no MCP servers in {mcp_file()}.", f"Add them there, for example: {_EXAMPLE_FILE}")
    return servers


def _listed(servers: Sequence[McpServer]) -> list[ToolsListed]:
    events: queue.SimpleQueue[ToolsListed | ToolReturned] = queue.SimpleQueue()
    host, found = ToolServers(events.put), dict[str, ToolsListed]()
    with logged_to(log_file()):
        try:
            host.connect(servers)
            while missing := [server.name for server in servers if server.name not in found]:
                status.show(f"Starting {', '.join(missing)}")
                if isinstance(event := events.get(), ToolsListed):
                    found[event.server] = event
        finally:
            status.clear()
            host.close()
    return [found[server.name] for server in servers]


def _as_json(listed: ToolsListed) -> dict[str, object]:
    tools = [
        {"name": tool.name, "description": tool.description, "schema": tool.schema, "read_only": tool.reads_only}
        for tool in listed.tools
    ]
    return {"name": listed.server, "tools": tools, "error": in_flags(listed.error.sentences) if listed.error else None}
