"""Servers of tools: their reports, with good servers of the official SDK and with bad servers."""

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.mcp_file import McpServer
from app.worker import mcp_connection
from app.worker.events import Tool, ToolReturned, ToolsListed
from app.worker.tool_servers import ToolServers
from tests import mcp_server
from tests.hanging import HANGS_S
from tests.http_recorder import Recorder, self_signed

SHORT_S = 0.2
"""Deadline of what never happens."""


def server(flag: str) -> McpServer:
    return McpServer(flag, sys.executable, (str(mcp_server.__file__), flag))


class Host:
    """Servers, and the events that they report."""

    def __init__(self, start_s: float, call_s: float) -> None:
        self.events: queue.SimpleQueue[ToolsListed | ToolReturned] = queue.SimpleQueue()
        self.servers = ToolServers(self.events.put, start_s=start_s, call_s=call_s)
        self._n_calls = 0

    def list(self, known: McpServer) -> ToolsListed:
        self.servers.connect([known])
        event = self.events.get(timeout=HANGS_S)
        assert isinstance(event, ToolsListed)
        return event

    def call(self, known: McpServer, tool: str, *, repeats: bool = False, **arguments: object) -> ToolReturned:
        self._n_calls += 1
        self.servers.call(self._n_calls, known, tool, arguments, repeats=repeats)
        event = self.events.get(timeout=HANGS_S)
        assert isinstance(event, ToolReturned)
        assert event.call == self._n_calls
        return event

    def why(self, known: McpServer) -> str:
        """Return why a server has no tools."""
        error = self.list(known).error
        assert error is not None
        return error.message


@contextmanager
def host(start_s: float = HANGS_S, call_s: float = HANGS_S) -> Iterator[Host]:
    found = Host(start_s, call_s)
    try:
        yield found
    finally:
        found.servers.close()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host() as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.worker.mcp_failure.log_file", lambda: tmp_path_factory.getbasetemp() / "tools.log")
        patch.setenv("HF_TOKEN", "secret")
        yield found


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "logs" / "tandem.log"
    monkeypatch.setattr("app.worker.mcp_failure.log_file", lambda: file)
    return file


@pytest.fixture
def bad(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr("app.worker.mcp_failure.MAX_MESSAGE", 1 << 20)
    with host() as found:
        yield found


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


SDK, BAD = server("sdk"), server("bad")


def test_tools_of_a_real_server(good: Host, tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in good.list(SDK).tools}
    file = tmp_path / "notes.md"
    file.write_text("Buy milk.")

    assert tools["read_file"].reads_only
    assert not tools["write_file"].reads_only
    assert tools["read_file"].schema["required"] == ["path"]
    result = good.call(SDK, "read_file", path=str(file))
    assert (result.text, result.is_error) == ("Buy milk.", False)
    assert result.seconds > 0
    assert good.call(SDK, "read_file", path=str(tmp_path / "gone")).is_error
    assert good.call(SDK, "no_such_tool").is_error


def test_a_server_inherits_no_secrets(good: Host) -> None:
    assert "PATH" in good.call(SDK, "environment").text.split()
    assert "HF_TOKEN" not in good.call(SDK, "environment").text


@pytest.mark.parametrize("kind", ["mcp", "sse"])
def test_a_server_over_http(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "notes.md"
    file.write_text("Buy milk.")
    with mcp_server.http_server(kind) as url, host() as http:
        known = McpServer("web", url=url, headers={"X-Key": "secret"}, is_sse=kind == "sse")

        assert "read_file" in {tool.name for tool in http.list(known).tools}
        assert http.call(known, "read_file", path=str(file)).text == "Buy milk."
        assert (
            http.why(replace(known, url=f"{url}/else")) == f"The MCP server web at {url}/else answered 404 Not Found."
        )


def test_a_redirect_to_another_host_is_not_followed(log: Path, recorder: Recorder) -> None:
    with recorder.server() as other, recorder.server(moved_to=f"{other}/mcp?key=secret") as url, host() as http:
        known = McpServer("web", url=f"{url}/mcp?key=secret", headers={"X-Key": "secret"})

        assert http.why(known) == f"The MCP server web at {url}/mcp redirects to {other}/mcp."
        assert {asked for asked, _ in recorder.requests} == {url}
        assert {headers["x-key"] for _, headers in recorder.requests} == {"secret"}


def test_a_certificate_that_nobody_has_signed_is_refused(log: Path, recorder: Recorder, tmp_path: Path) -> None:
    with recorder.server(certificate=self_signed(tmp_path)) as url, host() as http:
        sentence = http.why(McpServer("web", url=f"{url}/mcp", headers={"X-Key": "secret"}))

        assert sentence.startswith(f"The MCP server web at {url}/mcp has a certificate that is not trusted.")
        assert recorder.requests == []


@pytest.mark.parametrize(
    ("status", "kind", "n_tries", "why"),
    [
        (
            401,
            None,
            1,
            'answered 401 Unauthorized. Put its key into headers in mcp.json: "Authorization": "Bearer KEY".',
        ),
        (403, None, 1, "answered 403 Forbidden. Check the key in headers in mcp.json, and what it permits."),
        (404, None, 1, "answered 404 Not Found. Check the path of its url in mcp.json, and its type: http or sse."),
        (500, None, 2, "answered 500 Internal Server Error. Its own log says why; start it again, or ask who runs it."),
        (200, "application/json", 1, "answered with wrong JSON."),
        (200, None, 1, "answered with nothing, which is not MCP. Check the path of its url in mcp.json, and its"),
        (200, "text/html", 1, "answered with text/html, which is not MCP. Check the path of its url in mcp.json"),
    ],
)
def test_an_answer_that_is_not_mcp(
    log: Path, recorder: Recorder, status: int, kind: str | None, n_tries: int, why: str
) -> None:
    with recorder.server(status=status, kind=kind) as url, host() as http:
        error = http.list(McpServer("web", url=url)).error

        assert error is not None
        assert error.sentences.startswith(f"The MCP server web at {url} {why}")
        # The SDK requests the newest protocol, then an older one.
        assert len(recorder.requests) == 2 * n_tries


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (server("quits"), "quits ended before it answered: LicenseError: no license for ***."),
        (server("junk"), "ended before it answered; it wrote text that is no message of MCP: Usage: server FOLDER."),
        (server("refuses"), "refuses answered with an error: Licenses are sold out."),
        pytest.param(
            McpServer("a", sys.executable, ("x" * (3 << 20),)),
            "cannot start: Argument list too long.",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has another limit."),
        ),
        (server("wrong"), "wrong does not follow MCP: capabilities: Field required."),
        (McpServer("a", "no-such-command"), 'cannot start: there is no command "no-such-command".'),
        (McpServer("a", sys.executable, cwd="/no/such"), "cannot start: there is no folder /no/such."),
        (
            McpServer("a", url="http://me:secret@127.0.0.1:1/?key=secret", headers={"Key": "secret"}),
            "The MCP server a at http://127.0.0.1:1/ refuses connections.",
        ),
        (McpServer("a", url="http://me:secret@host.invalid/"), "a at http://host.invalid/ has an unknown host name."),
        (McpServer("a", url="http://me:secret@[::1/secret"), "has a url that is not valid."),
    ],
    ids=["quits", "junk", "refuses", "arguments", "wrong", "command", "folder", "url", "host", "wrong url"],
)
def test_a_server_that_cannot_start(bad: Host, log: Path, known: McpServer, why: str) -> None:
    sentence = bad.why(replace(known, env={"KEY": "secret"}))

    assert sentence.endswith(why)
    assert "secret" not in sentence


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        (McpServer("a", "npx", env={"PATH": ""}), "Install Node.js, which includes it: https://nodejs.org"),
        (McpServer("a", "npx -y server"), "Put the arguments of its command into args in mcp.json."),
    ],
)
def test_a_missing_command_is_reported_with_its_package(bad: Host, known: McpServer, hint: str) -> None:
    error = bad.list(known).error

    assert error is not None
    assert error.hint == hint


def test_output_of_a_server_is_logged_with_its_name(bad: Host, caplog: pytest.LogCaptureFixture) -> None:
    bad.why(replace(server("quits"), env={"KEY": "secret"}))

    assert caplog.messages[1:3] == ["quits: LicenseError: no license for ***", "quits: Node.js v20"]
    assert "sec" not in caplog.messages[0]


def test_a_server_that_never_answers(log: Path) -> None:
    with host(start_s=SHORT_S) as found:
        assert found.why(server("silent")) == "The MCP server silent did not answer within 0.2 s."


def test_a_call_that_hangs_ends_the_connection_alone(log: Path) -> None:
    with host(call_s=SHORT_S) as found:
        result = found.call(BAD, "hangs")

        assert result.is_error
        assert result.text.startswith("The MCP server bad did not answer within 0.2 s.")


@pytest.mark.parametrize(
    ("tool", "why"),
    [("dies", "ended before it answered."), ("floods", "sent more than 1 MB at once and was ended.")],
)
def test_a_call_that_ends_the_server_is_not_repeated(bad: Host, tool: str, why: str) -> None:
    assert bad.call(BAD, tool).text.startswith(f"The MCP server bad {why}")
    # The next command starts it again.
    assert bad.list(BAD).tools


def test_a_call_that_changes_nothing_is_repeated_once(bad: Host, tmp_path: Path) -> None:
    assert bad.call(BAD, "dies_once", repeats=True, mark=str(tmp_path / "mark")).text == "done"
    assert bad.call(BAD, "dies", repeats=True).text.startswith("The MCP server bad ended before it answered.")


def test_a_wrong_result_is_an_error_of_the_call(bad: Host) -> None:
    assert bad.call(BAD, "wrong").text.startswith("The server gave an invalid result: ")


def test_a_result_has_no_keys_of_the_configuration(bad: Host) -> None:
    known = replace(BAD, env={"API_KEY": "secret-1", "PLACE": "/srv/notes"})
    assert bad.call(known, "echoes").text == "*** /srv/notes"


def test_a_schema_has_no_invisible_characters(bad: Host) -> None:
    assert bad.list(BAD).tools[0].schema == {"type": "object", "description": "ab\nc"}


def test_a_list_is_read_again_each_time(bad: Host) -> None:
    assert len(bad.list(BAD).tools) < mcp_server.N_MANY
    bad.call(BAD, "many")
    assert len(bad.list(BAD).tools) == mcp_server.N_MANY
    bad.call(BAD, "renames")
    assert [tool.name for tool in bad.list(BAD).tools] == ["reads"]


@pytest.mark.skipif(sys.platform == "win32", reason="A job object of the SDK ends servers on Windows.")
def test_a_server_that_blocks_ends_with_the_processes_that_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    os.mkfifo(mark)
    blocks = f"exec 3>{mark}; echo ready >&3; sleep 1000 & wait"
    guarded = [sys.executable, "-I", "-S", "-c", mcp_connection._GUARDED_PROGRAM, "0", "sh", "-c", blocks]
    with subprocess.Popen(guarded, stdin=subprocess.PIPE, start_new_session=True) as process, mark.open() as alive:
        assert alive.readline() == "ready\n"
        assert process.stdin is not None
        # As when Tandem is killed
        process.stdin.close()

        # Both processes have the other end open while they run.
        assert alive.read() == ""


def test_a_cancelled_call_is_not_reported(bad: Host) -> None:
    bad.list(BAD)
    bad.servers.call(1, BAD, "hangs", {})
    bad.servers.cancel(1)

    assert bad.list(BAD).tools


def test_without_the_library(bad: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.worker.tool_servers.importlib.util.find_spec", lambda name: None)
    error = bad.list(SDK).error

    assert error is not None
    assert "mcp" in error.hint


def test_a_digest_changes_with_all_that_the_user_saw() -> None:
    tool = Tool("files", "read", "Reads.", {"type": "object"}, reads_only=True)
    others = [
        replace(tool, description="Deletes."),
        replace(tool, schema={}),
        replace(tool, reads_only=False),
        replace(tool, server="web"),
    ]

    assert len({one.digest for one in (tool, *others)}) == 5
    assert replace(tool).digest == tool.digest
