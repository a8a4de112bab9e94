"""Read mcp.json, which names MCP servers as Claude Desktop, LM Studio and VS Code do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core.errors import SettingsError, UsageError
from app.core.printable import printable
from app.core.regular_file import MissingFile, read_user_text
from app.settings.table import nearest

_TABLES = ("mcpServers", "servers")
"""Names of the table of servers; VS Code uses the second one."""
_NAME = re.compile(r"[\w.-]{1,64}")
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII), re.compile(r"([!-~]([\t -~]*[!-~])?)?")
"""What HTTP allows; an error of the library about another value would show it."""
_KINDS = {None: "", "stdio": "command", "http": "url", "streamable-http": "url", "streamableHttp": "url"}
"""The key that each `type` of server needs."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server: a command that Tandem starts, or a URL; secrets may stand in `env` and `headers`.

    Attributes:
        is_disabled: Whether the file turns it off.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    is_disabled: bool = False

    @property
    def address(self) -> str:
        """Return the URL without its user name, password and query, which may be secrets."""
        scheme, _, rest = self.url.partition("?")[0].partition("#")[0].partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if self.url else ""


def read_servers(path: Path) -> tuple[McpServer, ...]:
    """Return the servers of a file, none if it does not exist. Raises SettingsError with the line and the key."""
    try:
        text = read_user_text(path, str(path))
    except MissingFile:
        return ()
    try:
        document = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise _damaged(path, error.lineno, f"is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        raise _damaged(path, 1, "is nested too deeply, or has a number that is too long") from None
    reader = _Reader(path, text)
    root = reader.typed(document, dict, [], "an object")
    table = next((name for name in _TABLES if name in root), _TABLES[0])
    listed = reader.typed(root.get(table, {}), dict, [table], "an object")
    return tuple(reader.server([table, name], name, raw) for name, raw in listed.items())


def chosen_servers(servers: Sequence[McpServer], names: Iterable[str] | None) -> tuple[McpServer, ...]:
    """Return the servers with these names, or for None all that are not disabled. Raises UsageError for other names."""
    if names is None:
        return tuple(server for server in servers if not server.is_disabled)
    known = {server.name: server for server in servers}
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none; add them to mcp.json"
            raise UsageError(f'There is no MCP server "{printable(name)}".{nearest(name, known)}', f"Known: {listed}.")
    return tuple(known[name] for name in dict.fromkeys(names))


def _damaged(path: Path, line: int, what: str) -> SettingsError:
    return SettingsError(f"{path}, line {line}: it {what}.", "Fix it there, or move the file away.")


class _Reader:
    """Checks values, and finds their lines."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def server(self, keys: list[str], name: str, raw: Any) -> McpServer:
        """Return one server."""
        if not _NAME.fullmatch(name):
            raise self._wrong(keys, "has a name other than letters, digits, dots, dashes and underscores")
        given = self.typed(raw, dict, keys, "an object")
        kind = given.get("type")
        if not isinstance(kind, str | None) or kind not in _KINDS:
            raise self._wrong([*keys, "type"], 'must be "stdio" or "http"')
        text = {key: self.typed(given.get(key) or "", str, [*keys, key], "a text") for key in ("command", "url", "cwd")}
        needed = _KINDS[kind]
        if bool(text["command"]) is bool(text["url"]) or (needed and not text[needed]):
            raise self._wrong(keys, f"needs a {needed}" if needed else "needs either a command or a url")
        if text["url"] and not re.match(r"https?://[^/\s]", text["url"]):
            raise self._wrong([*keys, "url"], "must begin with http:// or https://")
        return McpServer(
            name,
            text["command"],
            tuple(self.typed(one, str, [*keys, "args"], "a list of texts") for one in self._list(given, keys, "args")),
            self._texts(given, keys, "env"),
            str(Path(text["cwd"]).expanduser()) if text["cwd"] else None,
            text["url"],
            self._headers(given, keys),
            self.typed(given.get("disabled", False), bool, [*keys, "disabled"], "true or false"),
        )

    def _list(self, given: dict[str, Any], keys: list[str], key: str) -> list[Any]:
        found: list[Any] = self.typed(given.get(key, []), list, [*keys, key], "a list of texts")
        return found

    def _texts(self, given: dict[str, Any], keys: list[str], key: str) -> dict[str, str]:
        found = self.typed(given.get(key, {}), dict, [*keys, key], "an object of texts")
        return {name: self.typed(value, str, [*keys, key, name], "a text") for name, value in found.items()}

    def _headers(self, given: dict[str, Any], keys: list[str]) -> dict[str, str]:
        found = self._texts(given, keys, "headers")
        for name, value in found.items():
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
                raise self._wrong([*keys, "headers", name], "must be ASCII text without line ends or spaces around it")
        return found

    def typed(self, value: Any, kind: type, keys: Sequence[str], what: str) -> Any:
        """Return a value of this type; refuse another one."""
        if isinstance(value, kind):
            return value
        raise self._wrong(keys, f"must be {what}")

    def _wrong(self, keys: Sequence[str], what: str) -> SettingsError:
        at = 0
        for key in keys:
            # A name may be written with escapes; the line of its parent is near enough then.
            at = max(at, self._text.find(f'"{key}"', at))
        line = self._text.count("\n", 0, at) + 1
        name = printable(".".join(keys)) or "the file"
        return SettingsError(f"{self._path}, line {line}: {name} {what}.", "Fix it there.")
