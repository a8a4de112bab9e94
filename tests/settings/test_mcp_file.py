"""mcp.json: the formats of other programs, and the line and key of an error."""

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


@pytest.mark.parametrize(
    ("text", "server"),
    [
        (  # LM Studio, with comments and commas as VS Code allows them
            """{ // My servers
            "mcpServers": {"a": {"url": "https://host/mcp", /* "url": "old", */ "headers": {"K": "v",},},},}""",
            McpServer("a", url="https://host/mcp", headers={"K": "v"}),
        ),
        (  # VS Code
            """{"inputs": [], "servers": {"a": {"type": "stdio", "command": "b", "envFile": "${workspaceFolder}/.env",
            "env": {"PORT": 80, "OFF": false}, "dev": {}}}}""",
            McpServer("a", "b", env={"PORT": "80", "OFF": "false", "TOKEN": "s=1"}, ignored=("dev",)),
        ),
        (  # VS Code's settings.json
            '{"mcp": {"servers": {"a": {"type": "http", "url": "https://host"}}}}',
            McpServer("a", url="https://host"),
        ),
        (  # Cursor
            """{"mcpServers": {"a": {"command": "${userHome}/b",
            "args": ["${env:KEY}", "${NONE:-c}", "~/d", 8080]}}}""",
            McpServer("a", "/home/me/b", ("secret", "c", "/home/me/d", "8080")),
        ),
        (  # Windsurf
            '{"mcpServers": {"a": {"serverUrl": "https://host/sse", "headers": {"K": "Bearer ${KEY}"}}}}',
            McpServer("a", url="https://host/sse", headers={"K": "Bearer secret"}, is_sse=True),
        ),
        (  # Cline
            """{"mcpServers": {"github.com/owner/b": {"command": "b", "disabled": false, "autoApprove": ["c"],
            "timeout": 60, "transportType": "stdio"}}}""",
            McpServer("github.com/owner/b", "b", ignored=("autoApprove", "timeout")),
        ),
        (  # Gemini CLI
            """{"theme": "dark", "mcpServers": {"a": {"httpUrl": "https://host", "headers": {"K": "$KEY", "P": "$NONE"},
            "trust": true, "includeTools": ["c"], "excludeTools": ["d"]}}}""",
            McpServer("a", url="https://host", headers={"K": "secret", "P": "$NONE"},
                      only=("c",), without=("d",), ignored=("trust",)),
        ),
        (  # GitHub Copilot in JetBrains' editors
            '{"servers": {"a": {"url": "https://host", "requestInit": {"headers": {"K": "v"}}}}}',
            McpServer("a", url="https://host", headers={"K": "v"}),
        ),
        (  # GitHub Copilot on the command line
            '{"mcpServers": {"my server": {"type": "local", "command": "b", "args": [], "tools": ["*"], "cwd": null}}}',
            McpServer("my server", "b"),
        ),
        (  # OpenCode
            """{"mcp": {"a": {"type": "local", "command": ["b", "c"], "environment": {"K": "{env:KEY}"},
            "enabled": false}}}""",
            McpServer("a", "b", ("c",), {"K": "secret"}, is_disabled=True),
        ),
        (  # Excerpts in the documentation of servers
            '{"a": {"command": "b", "env": {"K": null}}}',
            McpServer("a", "b"),
        ),
        (  # Zed
            """{"context_servers": {"a": {"source": "custom",
            "command": {"path": "b", "args": ["c"], "env": {"K": "v"}}}}}""",
            McpServer("a", "b", ("c",), {"K": "v"}, ignored=("source",)),
        ),
    ],
    ids=["lm studio", "vs code", "vs code settings", "cursor", "windsurf", "cline", "gemini", "jetbrains", "copilot",
         "opencode", "excerpt", "zed"],
)  # fmt: skip
def test_configurations_of_other_programs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, server: McpServer
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    monkeypatch.setenv("KEY", "secret")
    (tmp_path / ".env").write_text("# Secrets\nexport TOKEN='s=1'\nPORT=1\n")

    assert read(tmp_path, text) == (server,)


@pytest.mark.parametrize("text", ["", "{}", '{"mcpServers": {}}', '\ufeff{"mcpServers": {}}'])
def test_no_servers(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ()
    assert read_servers(tmp_path / "none.json") == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"mcpServers": {\n"a": {"command": "b"\n"args": []}}}', "line 3: the file is not JSON"),
        (r'{"mcpServers": {"a": {"command": "C:\Users"}}}', 'Write each backslash twice, as in "C:\\\\Users".'),
        ('{"mcpServer": {"a": {"command": "b"}}}', 'mcpServer is no table of servers. Did you mean "mcpServers"?'),
        ('{"inputs": [],\n"server": {"a": {"command": "b"}}}', 'line 2: server is no table of servers. Did you mean'),
        ('{"inputs": [],\n"tolls": {"a": {"command": "b"}}}', "line 2: tolls is no table of servers."),
        ('{"mcpServers": {\n"a": {"command": "b"},\n"a": {"command": "c"}}}', 'line 3: the file has "a" twice.'),
        ('{"mcpServers": {"a": {"command": "b",\n"arg": []}}}', 'line 2: mcpServers.a.arg is no key of a server. Did'),
        ('{"mcpServers": {"a": {"Command": "b"}}}', 'mcpServers.a.Command is no key of a server. Did you'),
        ('{"mcpServers": {"a": {"exec": "b"}}}', "mcpServers.a needs either a command or a url beside exec."),
        ('{"mcpServers": {"a": {"type": "http",\n"command": "b"}}}', "mcpServers.a needs a url."),
        ('{"mcpServers": {"a": {"command": []}}}', "mcpServers.a.command is empty."),
        ('{"mcpServers": {"a": {"command": "b", "env": {"K": "${input:key}"}}}}', "place of ${input:key}; Tandem does"),
        ('{"mcpServers": {"a": {"command": "b",\n"args": ["${NO_SUCH}"]}}}', "line 2: mcpServers.a.args names the"),
        ('{"mcpServers": {"a": {"command": "b", "envFile": "/no/.env"}}}', "a file that cannot be read: There is no"),
        ('{"mcpServers": {"a": {"command": "b", "envFile": "~unknown/.env"}}}', "There is no file ~unknown/.env"),
        ('{"mcpServers": {"a": {"command": "b\\u0000"}}}', "mcpServers.a.command has a NUL or half"),
        ("[]", "line 1: the file must be an object"),
        ('{\n"mcpServers": []}', "line 2: mcpServers must be an object"),
        ('{"mcpServers": {\n"a": {\n"command": {}}}}', "line 2: mcpServers.a needs either a command or a url"),
        ('{"mcpServers": {\n"a": {"command": "b",\n"args": "c"}}}', "line 3: mcpServers.a.args must be a list"),
        ('{"mcpServers": {"a": {"command": "b",\n"env": {"K": []}}}}', "line 2: mcpServers.a.env.K must be a text"),
        ('{"mcpServers": {\n\n"a": {}}}', "line 3: mcpServers.a needs either a command or a url"),
        ('{"mcpServers": {"a": {"command": "b", "url": "http://c"}}}', "mcpServers.a needs either a command or a url"),
        ('{"mcpServers": {"a": {"url": ""}}}', "mcpServers.a.url must begin with http:// or https://"),
        ('{"mcpServers": {"a": {"url": "file:///c"}}}', "mcpServers.a.url must begin with http:// or https://"),
        ('{"mcpServers": {"a": {"type": "ws", "url": "http://c"}}}', 'mcpServers.a.type must be "stdio", "http" or'),
        ('{"mcpServers": {"a,b": {"command": "c"}}}', "mcpServers.a,b needs a name without commas"),
        ('{"mcpServers": {"a": {"command": "c", "disabled": "no"}}}', "a.disabled must be true or false, without"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K": "s\u00e9same"}}}}', "line 2: mcpServers.a"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K": "s\\n"}}}}', "headers.K must be ASCII"),
        ('{"mcpServers": {"a": {"url": "http://c",\n"headers": {"K e": "s"}}}}', "headers.K e must be ASCII"),
        ("[" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_a_wrong_file(tmp_path: Path, text: str, what: str) -> None:
    try:
        problem = read(tmp_path, text)[0].fault
    except SettingsError as error:
        problem = error.sentences
    assert what in (problem or "")


def test_a_wrong_entry_fails_its_server_only(tmp_path: Path) -> None:
    text = '{"a": {"command": "${env:NO_SUCH}"}, "b": {"url": 1, "disabled": true}, "c": [], "d": {"command": "d"}}'
    *wrong, good = read(tmp_path, f'{{"mcpServers": {text}}}')

    assert [(server.name, server.is_disabled) for server in wrong if server.fault] == [
        ("a", False), ("b", True), ("c", False)
    ]  # fmt: skip
    assert good == McpServer("d", "d")


@pytest.mark.parametrize("key", ["evn", "ebv", "nev", "en", "envv", "agrs", "ulr", "cdw", "comand", "tpye", "haeders"])
def test_a_misspelled_key_gets_a_suggestion(tmp_path: Path, key: str) -> None:
    (server,) = read(tmp_path, f'{{"mcpServers": {{"a": {{"command": "b", "{key}": []}}}}}}')
    assert f"a.{key} is no key of a server. Did you mean" in (server.fault or "")


def test_secrets_are_replaced_in_texts() -> None:
    env = {"API_KEY": "key-one\nline-two", "LONG_KEY": "key-one-and-more", "PLACE": "/srv/notes", "PORT": "80"}
    headers = {"Authorization": "Bearer token-3", "Cookie": "id=four-five; theme=light"}
    server = McpServer("a", env=env, headers=headers)
    text = "key-one, line-two, key-one-and-more, /srv/notes, 80, token-3, id=four-five; theme=light"

    assert server.without_secrets(text) == "***, ***, ***, ***, 80, ***, ***"
    assert server.without_secrets(text, is_result=True) == "***, ***, ***, /srv/notes, 80, ***, ***"


def test_chosen_servers() -> None:
    one, other = McpServer("files", "a"), McpServer("web", "b", is_disabled=True)

    assert chosen_servers([one, other], None) == (one,)
    assert chosen_servers([one, other], ["web", "web"]) == (other,)
    with pytest.raises(UsageError, match='Did you mean "files"'):
        chosen_servers([one, other], ["file"])
