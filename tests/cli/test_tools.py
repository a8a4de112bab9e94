"""`tandem tools`."""

import json
import sys
from pathlib import Path

import pytest

from tests import mcp_server
from tests.tandem import Tandem


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mcp.json"
    monkeypatch.setattr("app.cli.tools.mcp_file", lambda: path)
    monkeypatch.setattr("app.worker.mcp_failure.log_file", lambda: tmp_path / "tandem.log")
    servers = {
        "good": {"command": sys.executable, "args": [str(mcp_server.__file__), "bad", "--key=sesame"]},
        "typo": {"comand": "${env:sesame}"},
        "gone": {"command": "no-such-command", "env": {"KEY": "sesame"}, "timeout": 60},
        "web": {"url": "http://me:sesame@127.0.0.1:1/mcp?key=sesame", "headers": {"Key": "sesame"}, "disabled": True},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_list_shows_no_secrets(file: Path, tandem: Tandem) -> None:
    out = tandem("tools").out
    assert "gone  no-such-command (0 arguments), ignores timeout\nweb   http://127.0.0.1:1/mcp, disabled\n" in out
    listed = tandem("tools", "list", "--json").out
    assert [one["name"] for one in json.loads(listed)["servers"]] == ["good", "typo", "gone", "web"]
    assert "sesame" not in out + listed


def test_check_names_what_fails(file: Path, tandem: Tandem) -> None:
    good, typo, gone, *_ = tandem("tools", "check", code=1).out.splitlines()
    assert good == "good  9 tools: hangs, blocks, dies, dies_once, floods, wrong, renames, many, echoes"
    assert "mcpServers.typo.comand is no key of a server." in typo
    assert gone.startswith('gone  The MCP server gone cannot start: there is no command "no-such-command".')
    (checked,) = tandem("tools", "check", "good", "--json").json["servers"]
    assert (checked["name"], checked["error"], len(checked["tools"])) == ("good", None, 9)


def test_a_permanent_permission_can_be_revoked(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem
) -> None:
    allowed = tmp_path / "tools.json"
    monkeypatch.setattr("app.cli.tools.allowed_tools_file", lambda: allowed)
    keys = ("good/one", "good/two/more", "gone/three", "web/three", "web/four", "good%2Fother/one")
    allowed.write_text(json.dumps(dict.fromkeys(keys, "0")))

    assert "web/four runs without a question\n" in tandem("tools").out
    assert 'Did you mean "three"?' in tandem("tools", "revoke", "thre", code=2).err
    assert tandem("tools", "revoke", "web/four", "--json").json == {"revoked": ["web/four"]}
    allowed.write_text(json.dumps(dict.fromkeys(keys, "0")))
    assert tandem("tools", "revoke", "good", "three").out.splitlines() == [
        f"Tandem asks again before {key} runs." for key in ("good/one", "good/two/more", "gone/three", "web/three")
    ]
    assert 'No tool of "five" runs without a question.' in tandem("tools", "revoke", "web", "five", code=2).err
    assert list(json.loads(allowed.read_text())) == ["web/four", "good%2Fother/one"]
    assert tandem("tools", "revoke", "good/other", "--json").json == {"revoked": ["good%2Fother/one"]}


def test_no_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem) -> None:
    monkeypatch.setattr("app.cli.tools.mcp_file", lambda: tmp_path / "none.json")

    assert "mcpServers" in tandem("tools", code=2).err
