"""MCP servers over stdio: one with the official SDK, and a small one that misbehaves.

python mcp_server.py sdk          useful tools
python mcp_server.py FLAG         silent, wrong, junk or quits: misbehaves at the start
python mcp_server.py bad          each tool misbehaves in the way of its name
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server import MCPServer

N_MANY = 500
_FLOOD = 2 << 20


def sdk_server() -> MCPServer:
    """Return a server with the official SDK."""
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    server = MCPServer("files", log_level="ERROR")
    reads = ToolAnnotations(read_only_hint=True)

    @server.tool(annotations=reads)
    def read_file(path: str) -> str:
        """Return the text of a file."""
        return Path(path).read_text("utf-8")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
    def write_file(path: str, text: str) -> str:
        """Replace the text of a file."""
        Path(path).write_text(text, "utf-8")
        return "written"

    @server.tool(annotations=reads)
    def environment() -> str:
        """Return the names of all environment variables."""
        return " ".join(sorted(os.environ))

    return server


@contextmanager
def http_server(kind: str) -> Iterator[str]:
    """Serve the SDK's server over loopback HTTP in this process, as "mcp" or as "sse"; yield the URL."""
    from tests.http_recorder import served

    with served(sdk_server().streamable_http_app() if kind == "mcp" else sdk_server().sse_app()) as url:
        yield f"{url}/{kind}"


class BadServer:
    """Answers requests badly; a process without the SDK starts immediately."""

    def __init__(self) -> None:
        self.tools = ["hangs", "blocks", "dies", "dies_once", "floods", "wrong", "renames", "many", "echoes"]

    def run(self) -> None:
        # Many servers print a greeting on the wrong stream.
        sys.stdout.write("Server is starting.\n")
        for line in sys.stdin:
            message = json.loads(line)
            if "id" in message:
                self._answer(message["id"], message["method"], message.get("params", {}))

    def _answer(self, id_: Any, method: str, params: Any) -> None:
        match method:
            case "initialize":
                about = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}}
                self._send(id_, result={**about, "serverInfo": {"name": "bad", "version": "1"}})
            case "tools/list":
                schema, read_only = {"type": "object", "description": "a\u200bb\u2028c"}, {"readOnlyHint": True}
                notes = [read_only if name == "dies_once" else {} for name in self.tools]
                tools = [
                    {"name": n, "inputSchema": schema, "annotations": a} for n, a in zip(self.tools, notes, strict=True)
                ]
                self._send(id_, result={"tools": tools})
            case "tools/call":
                self._call(id_, params["name"], params.get("arguments") or {})
            case _:
                self._send(id_, error={"code": -32601, "message": "Method not found"})

    def _call(self, id_: Any, name: str, arguments: Any) -> None:
        text = "done"
        match name:
            case "hangs":
                return
            case "blocks":
                threading.Event().wait()
            case "dies":
                os._exit(3)
            case "dies_once" if not Path(arguments["mark"]).exists():
                Path(arguments["mark"]).touch()
                os._exit(3)
            case "floods":
                text = "x" * _FLOOD
            case "wrong":
                self._send(id_, result={"content": [{"type": "text", "text": 7}]})
                return
            case "echoes":
                text = f"{os.environ['API_KEY']} {os.environ['PLACE']}"
            case "renames":
                self.tools = ["reads"]
            case "many":
                self.tools = [f"tool_{n}" for n in range(N_MANY)]
        self._send(id_, result={"content": [{"type": "text", "text": text}]})

    @staticmethod
    def _send(id_: Any, **what: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id_, **what}) + "\n")
        sys.stdout.flush()


def main(flag: str) -> None:
    match flag:
        case "sdk":
            sdk_server().run()
        case "bad":
            BadServer().run()
        case "quits":
            # The key ends behind the longest line that is logged.
            key = os.environ["KEY"]
            sys.stderr.write(f"{'Loading' * 42} {key}\nLicenseError: no license for {key}\nNode.js v20\n")
            sys.exit(1)
        case "wrong":
            for line in sys.stdin:
                BadServer._send(json.loads(line).get("id"), result={})
        case "refuses":
            for line in sys.stdin:
                BadServer._send(json.loads(line).get("id"), error={"code": -1, "message": "Licenses are sold out."})
        case "junk":
            sys.stdout.write("Usage: server FOLDER\n")
            sys.exit(1)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
