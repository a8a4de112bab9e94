"""Kill a process during a call: nothing is lost, no server stays, and the call can be repeated."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil

from app.conversations.message import Role
from app.conversations.tree import NOT_RUN, State
from app.session.permissions import Permission
from app.worker.events import ToolReturned, ToolsListed
from tests import mcp_server
from tests.fake_tools import READ, call, tool_use
from tests.hanging import HANGS_S
from tests.session.scripted import ScriptedSession, finished

_CALLING_PROGRAM = """
import queue
import sys
from dataclasses import replace
from pathlib import Path
from app.session.permissions import Permission, Permissions
from app.session.tool_use import ToolUse
from app.settings.mcp_file import McpServer
from app.worker import mcp_connection
from app.worker.tool_servers import ToolServers
from tests.fake_tools import call
from tests.session.scripted import ScriptedSession, finished

file, server = sys.argv[1:]
events = queue.SimpleQueue()
mcp_connection._EXIT_GRACE_S = 0.0
bad = McpServer("bad", sys.executable, (server, "bad"))
tools = ToolUse(ToolServers(events.put), lambda: (bad,), Permissions())
chat = ScriptedSession(Path(file), tools=tools)
chat.session.send("a")
chat.session.handle(events.get(timeout=600))
chat.session.handle(replace(finished(1, ""), calls=(call("blocks"),)))
chat.session.permit(Permission.ONCE)
print("calls", flush=True)
chat.session.handle(events.get())
"""
_ROOT = Path(__file__).parents[2]


def kill_a_caller(file: Path) -> None:
    """Kill a chat that waits for the result of a call, and wait for the end of its server."""
    command = [sys.executable, "-c", _CALLING_PROGRAM, str(file), str(mcp_server.__file__)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "calls\n"
        servers = psutil.Process(caller.pid).children(recursive=True)
        caller.kill()
    assert servers
    assert psutil.wait_procs(servers, HANGS_S)[1] == []


def test_a_kill_during_a_call(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    kill_a_caller(file)
    tools, host = tool_use()
    chat = ScriptedSession(file, tools=tools)
    chat.session.open_conversation(1)

    asked, answer = chat.conversation.tree.path
    assert (asked.text, answer.role, answer.state) == ("a", Role.ASSISTANT, State.COMPLETE)
    assert [one.name for one in answer.calls] == ["blocks"]

    chat.session.send("b")
    chat.session.handle(ToolsListed("files", (replace(READ, name="blocks"),)))
    assert chat.read == ["a", "", NOT_RUN, "b"]
    chat.finishes("one")

    chat.session.regenerate(asked.id)
    chat.session.handle(ToolsListed("files", (replace(READ, name="blocks"),)))
    chat.session.handle(replace(finished(2, ""), calls=(call("blocks"),)))
    chat.session.permit(Permission.ONCE)
    assert host.calls == [(1, "blocks", {})]
    chat.session.handle(ToolReturned(1, "done"))
    assert chat.read == ["a", "", "done"]


def test_a_turn_interrupted_at_a_call_continues_with_the_call(tmp_path: Path) -> None:
    def opened() -> ScriptedSession:
        chat = ScriptedSession(tmp_path / "conversations.db", tools=tool_use()[0])
        chat.session.open_conversation(1)
        return chat

    def goes_on(chat: ScriptedSession) -> None:
        chat.session.resume(chat.conversation.tree.path[-1].id)
        chat.session.handle(ToolsListed("files", (READ,)))

    chat = opened()
    chat.session.send("a")
    chat.session.handle(ToolsListed("files", (READ,)))
    chat.session.handle(replace(finished(1, ""), calls=(call(READ.name), call(READ.name, '{"path": "b"}'))))
    chat.session.permit(Permission.ONCE)
    chat.session.handle(ToolReturned(1, "one"))
    chat.session.close()

    # The first call has its result; the second call asks again.
    chat = opened()
    assert chat.conversation.tree.open_calls == chat.conversation.tree.path[1].calls[1:]
    goes_on(chat)
    assert chat.session.question is not None
    chat.session.close()

    # A stopped call has a result, which the model answers.
    chat = opened()
    goes_on(chat)
    chat.session.stop()
    goes_on(chat)
    assert chat.read == ["a", "", "one", "The user stopped this call."]
    assert chat.session.question is None
