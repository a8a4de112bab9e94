"""mcp.json: the shapes of other programs, and the line and the key of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.errors import SettingsError, UsageError
from app.settings.mcp_file import McpServer, chosen_servers, read_servers


def read(tmp_path: Path, text: str) -> tuple[McpServer, ...]:
    file = tmp_path / "mcp.json"
    file.write_text(text, encoding="utf-8")
    return read_servers(file)


def test_the_shape_of_claude_desktop(tmp_path: Path) -> None:
    text = """{"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"KEY": "secret"}, "cwd": "/srv"},
        "web": {"type": "http", "url": "https://host/mcp", "headers": {"Authorization": "secret"}, "disabled": true}
    }}"""
    files, web = read(tmp_path, text)

    assert files == McpServer("files", "npx", ("-y", "server"), {"KEY": "secret"}, "/srv")
    assert web == McpServer("web", url="https://host/mcp", headers={"Authorization": "secret"}, is_disabled=True)
    assert "secret" not in repr((files, web))


def test_the_shape_of_vs_code(tmp_path: Path) -> None:
    assert [
        one.name for one in read(tmp_path, '{"servers": {"a": {"type": "stdio", "command": "b"}}, "inputs": []}')
    ] == ["a"]


@pytest.mark.parametrize("text", ["", "{}", '{"mcpServers": {}}', '\ufeff{"mcpServers": {}}'])
def test_no_servers(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ()
    assert read_servers(tmp_path / "none.json") == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"mcpServers": {\n"a": {"command": "b",}\n}}', "line 2: it is not JSON"),
        ("[]", "line 1: the file must be an object"),
        ('{\n"mcpServers": []}', "line 2: mcpServers must be an object"),
        ('{"mcpServers": {\n"a": {\n"command": 7}}}', "line 3: mcpServers.a.command must be a text"),
        ('{"mcpServers": {\n"a": {"command": "b",\n"args": "c"}}}', "line 3: mcpServers.a.args must be a list"),
        ('{"mcpServers": {"a": {"command": "b",\n"env": {"K": 1}}}}', "line 2: mcpServers.a.env.K must be a text"),
        ('{"mcpServers": {\n\n"a": {}}}', "line 3: mcpServers.a needs either a command or a url"),
        ('{"mcpServers": {"a": {"command": "b", "url": "http://c"}}}', "mcpServers.a needs either a command or a url"),
        ('{"mcpServers": {"a": {"url": "file:///c"}}}', "mcpServers.a.url must begin with http:// or https://"),
        ('{"mcpServers": {"a": {"type": "sse", "url": "http://c"}}}', 'mcpServers.a.type must be "stdio" or "http"'),
        ('{"mcpServers": {"a b": {"command": "c"}}}', "mcpServers.a b has a name other than letters"),
        ('{"mcpServers": {"a": {"command": "c", "disabled": "no"}}}', "mcpServers.a.disabled must be true or false"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K": "s\u00e9same"}}}}', "line 2: mcpServers.a"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K": "s\\n"}}}}', "headers.K must be ASCII"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K e": "s"}}}}', "headers.K e must be ASCII"),
        ("[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_wrong_file(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(SettingsError) as failed:
        read(tmp_path, text)
    assert what in failed.value.message


def test_chosen_servers() -> None:
    one, other = McpServer("files", "a"), McpServer("web", "b", is_disabled=True)

    assert chosen_servers([one, other], None) == (one,)
    assert chosen_servers([one, other], ["web", "web"]) == (other,)
    with pytest.raises(UsageError, match='Did you mean "files"'):
        chosen_servers([one, other], ["file"])
