"""Read mcp.json, which names MCP servers, in the formats of programs from which users copy it."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from app.core.errors import AppError, SettingsError, UsageError
from app.core.printable import printable
from app.core.regular_file import MissingFile, home_expanded, read_user_text
from app.settings.table import nearest

_TABLE_KEYS = ("mcpServers", "servers", "context_servers", "mcp")
"""Keys of the server table: in Claude Desktop and most programs, VS Code, Zed, and OpenCode."""
_KNOWN_KEYS = (
    *("type", "command", "args", "env", "envFile", "cwd", "url", "headers"),
    *("disabled", "enabled", "active", "tools", "disabledTools"),
)
_OFF_VALUES = {"disabled": True, "enabled": False, "active": False}
_OTHER_KEYS = {
    other: key
    for key, others in {
        "command": "cmd path",
        "args": "arguments",
        "env": "environment",
        "cwd": "workingDirectory working_directory workdir",
        "url": "serverUrl httpUrl uri endpoint",
        "type": "transport transportType",
        "tools": "includeTools enabledTools",
        "disabledTools": "excludeTools",
    }.items()
    for other in others.split()
}
"""Names that some programs, or users, give to a key of `_KNOWN_KEYS`."""
_TYPES = {"stdio": "command", "local": "command", "sse": "url", "http": "url", "streamablehttp": "url", "remote": "url"}
"""The required key by type of server."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^{}]+)\}|\{env:(\w+)\}|\A\$([A-Za-z_]\w*)\Z")
"""${NAME}, ${env:NAME} and ${NAME:-default} in most programs; OpenCode's and Gemini CLI's forms."""
_HEADER_NAME, _HEADER_VALUE = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII), re.compile(r"([!-~]([\t -~]*[!-~])?)?")
"""What HTTP allows; the library's error would show other values."""
_SHORTEST_SECRET = 6
"""Shortest secret in characters; shorter values are ports and switches."""
_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|cred|cookie|dsn", re.IGNORECASE)
_DEFAULT_FIX = "Fix it there."


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server: a command that Tandem starts, or a URL; `env` and `headers` may contain secrets.

    Attributes:
        is_sse: Whether the URL uses the older HTTP with SSE.
        only: Names of the tools to offer; None for all.
        ignored: Its keys in the file that Tandem does not know.
        fault: Why its entry cannot be used, with the fix, if so.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    is_sse: bool = False
    is_disabled: bool = False
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    fault: str | None = None

    @property
    def address(self) -> str:
        """Return the URL without its user name, password and query, which may be secrets."""
        scheme, _, rest = self.url.partition("?")[0].partition("#")[0].partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if self.url else ""

    def without_secrets(self, text: str, *, is_result: bool = False) -> str:
        """Replace the values of `env` and `headers` in a text; a result keeps values of `env` with harmless names."""
        values = [value for name, value in self.env.items() if not is_result or _SECRET_NAME.search(name)]
        # The log has one line of a value at a time, and a server shows a key without "Bearer" before it.
        secrets = {line for value in values for line in value.splitlines()}
        secrets |= {part for value in self.headers.values() for part in (value, value.rpartition(" ")[2])}
        # A value may begin with a shorter value, whose replacement would leave the rest of it.
        for value in sorted(secrets, key=len, reverse=True):
            text = text.replace(value, "***") if len(value) >= _SHORTEST_SECRET else text
        return text

    def offers(self, tool: str) -> bool:
        """Return whether the file lets the model use a tool."""
        return tool not in self.without and (self.only is None or tool in self.only)


def read_servers(path: Path) -> tuple[McpServer, ...]:
    """Return the servers of a file, none if it does not exist; `McpServer.fault` explains a wrong entry.

    Raises SettingsError with the line and the key for a file without a table of servers.
    """
    try:
        text = read_user_text(path, str(path))
    except MissingFile:
        text = ""
    if not text.strip():
        return ()
    file = _Entry(path, text)
    root = replace(file, raw=_parsed(file)).table()
    name = next((name for name in _TABLE_KEYS if name in root), None)
    servers = root[name].table() if name is not None else root
    if name == "mcp" and "servers" in servers:
        # VS Code's settings.json
        servers = servers["servers"].table()
    has_servers = any(isinstance(one.raw, dict) and one.raw.keys() & {"command", "url"} for one in root.values())
    if name is None and root and not has_servers:
        key = max(root, key=lambda key: (bool(nearest(key, _TABLE_KEYS)), isinstance(root[key].raw, dict)))
        raise root[key].wrong(f"is no table of servers.{nearest(key, _TABLE_KEYS)}", "Name the table mcpServers.")
    return tuple(_server_or_fault(name, entry) for name, entry in servers.items())


def chosen_servers(servers: Sequence[McpServer], names: Iterable[str] | None) -> tuple[McpServer, ...]:
    """Return the servers with these names, or for None all enabled servers. Raises UsageError for unknown names."""
    if names is None:
        return tuple(server for server in servers if not server.is_disabled)
    known = {server.name: server for server in servers}
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none; add them to mcp.json"
            raise UsageError(f'There is no MCP server "{printable(name)}".{nearest(name, known)}', f"Known: {listed}.")
    return tuple(known[name] for name in dict.fromkeys(names))


def _parsed(file: _Entry) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = json.dumps(max(names, key=names.count), ensure_ascii=False)
            places = [one.start() for one in re.finditer(rf"{re.escape(twice)}\s*:", file.text_of_file)]
            raise file.wrong(f"has {twice} twice.", "Rename or remove one.", (places or [0])[:2][-1])
        return found

    def blank(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"\S", " ", found[0])

    try:
        text = _LAST_COMMA.sub(blank, _COMMENT.sub(blank, file.text_of_file))
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        fix = r'Write each backslash twice, as in "C:\\Users".' if "escape" in error.msg else _DEFAULT_FIX
        raise file.wrong(f"is not JSON: {error.msg}.", fix, error.pos) from None
    except (RecursionError, ValueError):
        raise file.wrong("is nested too deeply, or has a number that is too long.") from None


def _server_or_fault(name: str, entry: _Entry) -> McpServer:
    try:
        server = _server(name, entry)
    except SettingsError as error:
        server = McpServer(name, fault=error.sentences)
    raw = entry.raw if isinstance(entry.raw, dict) else {}
    return replace(server, is_disabled=any(raw.get(key) is value for key, value in _OFF_VALUES.items()))


def _server(name: str, entry: _Entry) -> McpServer:
    if not name.isprintable() or "," in name or name.strip() != name or not name:
        raise entry.wrong("needs a name without commas, control characters and spaces around it.", "Rename it there.")
    given, ignored = _known_keys(entry)
    kind = re.sub("[^a-z]", "", given["type"].typed(str, "a text").lower()) if "type" in given else None
    if kind is not None and kind not in _TYPES:
        raise given["type"].wrong('must be "stdio", "http" or "sse".')
    has = given.keys() & ({"command", "url"} if kind is None else {_TYPES[kind]})
    if len(has) != 1:
        what = "either a command or a url" if kind is None else f"a {_TYPES[kind]}"
        raise entry.wrong(f"needs {what}{' beside ' * bool(ignored)}{printable(', '.join(ignored))}.")
    command = given["command"].words() if "command" in has else [""]
    url = given["url"].text() if "url" in has else ""
    if "url" in has and not re.match(r"https?://[^/\s]", url):
        raise given["url"].wrong("must begin with http:// or https://.")

    def texts(key: str) -> list[str]:
        return given[key].texts() if key in given else []

    def named(key: str) -> dict[str, str]:
        values = given[key].table().items() if key in given else ()
        return {name: value.text() for name, value in values if value.raw is not None}

    headers = named("headers")
    for header, value in headers.items():
        if not (_HEADER_NAME.fullmatch(header) and _HEADER_VALUE.fullmatch(value)):
            raise given["headers"].at(header).wrong("must be ASCII text without line ends or spaces around it.")
    for key in _OFF_VALUES.keys() & given.keys():
        given[key].typed(bool, "true or false, without quotes")
    only = texts("tools")
    return McpServer(
        name,
        command[0],
        tuple(map(_with_home, [*command[1:], *texts("args")])),
        (given["envFile"].variables() if "envFile" in given else {}) | named("env"),
        _with_home(given["cwd"].text()) if "cwd" in given else None,
        url,
        headers,
        is_sse=kind == "sse" or (kind is None and url.rstrip("/").endswith("/sse")),
        only=tuple(only) if only and "*" not in only else None,
        without=tuple(texts("disabledTools")),
        ignored=tuple(ignored),
    )


def _with_home(text: str) -> str:
    return os.path.expanduser(text)  # noqa: PTH111 - Path would change text that is no path


def _known_keys(entry: _Entry) -> tuple[dict[str, _Entry], list[str]]:
    found: dict[str, _Entry] = {}
    ignored = []
    spellings = {key.lower(): key for key in (*_KNOWN_KEYS, *_OTHER_KEYS)}
    for key, value in entry.table().items():
        name = _OTHER_KEYS.get(key, key)
        if key == "requestInit" or (key == "command" and isinstance(value.raw, dict)):
            # GitHub Copilot in JetBrains' editors groups the headers, and Zed the command.
            found |= _known_keys(value)[0]
        elif name in _KNOWN_KEYS:
            found |= {name: value} if value.raw is not None else {}
        elif near := _misspelled(key.lower(), spellings):
            raise value.wrong(f'is no key of a server. Did you mean "{spellings[near]}"?')
        else:
            ignored.append(key)
    return found, ignored


def _misspelled(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that this key misspells: one edit, two swapped letters, or great similarity."""
    for other in known:
        n_same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(key, other, strict=False))))
        one, two = key[n_same:], other[n_same:]
        if two[1:] in (one, one[1:]) or one[1:] == two or one[1::-1] + one[2:] == two:
            return other
    return next(iter(difflib.get_close_matches(key, known, 1, cutoff=0.8)), None)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A value of the file, and the keys that lead to it."""

    path: Path
    text_of_file: str
    raw: Any = None
    keys: tuple[str, ...] = ()

    def at(self, key: str) -> _Entry:
        return replace(self, raw=self.raw[key], keys=(*self.keys, key))

    def typed(self, kind: type, what: str) -> Any:
        """Return the value if it is of this type; refuse any other value."""
        if isinstance(self.raw, kind):
            return self.raw
        raise self.wrong(f"must be {what}.")

    def table(self) -> dict[str, _Entry]:
        """Return the values of an object."""
        return {key: self.at(key) for key in self.typed(dict, 'an object, as in {"name": "value"}')}

    def texts(self) -> list[str]:
        """Return the texts of a list."""
        items = self.typed(list, 'a list of texts, such as ["-y", "name"]')
        return [replace(self, raw=item).text() for item in items]

    def words(self) -> list[str]:
        """Return a command, which OpenCode writes as one list with its arguments."""
        words = self.texts() if isinstance(self.raw, list) else [self.text()]
        if not words or not words[0]:
            raise self.wrong("is empty.")
        return [_with_home(words[0]), *words[1:]]

    def text(self) -> str:
        """Return a text, or a number as text, with its variables replaced."""
        if isinstance(self.raw, bool | int | float):
            return json.dumps(self.raw)

        def value(found: re.Match[str]) -> str:
            name, has_default, default = (found[1] or found[2] or found[3]).removeprefix("env:").partition(":-")
            home, folder = str(Path.home()), str(Path.cwd())
            known = {"userHome": home, "workspaceFolder": folder, "CWD": folder, "pathSeparator": os.sep, "/": os.sep}
            set_to = known.get(name, os.environ.get(name))
            if set_to is None and not (has_default or found[3]):
                if not name.isidentifier():
                    fix = f"Write the value in place of {printable(found[0])}; Tandem does not ask for it."
                    raise self.wrong(f"names {printable(name)}, which is no environment variable.", fix)
                fix = f"Set {printable(name)} before Tandem starts, or write its value there."
                raise self.wrong(f"names the variable {printable(name)}, which is not set.", fix)
            return set_to or default or (found[0] if found[3] else "")

        text = str(_VARIABLE.sub(value, self.typed(str, "a text")))
        if "\0" in text or text != text.encode(errors="ignore").decode():
            raise self.wrong("has a NUL or half of a surrogate pair.")
        return text

    def variables(self) -> dict[str, str]:
        """Return the variables of the file that the value names."""
        path = home_expanded(self.text())
        try:
            lines = read_user_text(path, str(path)).splitlines()
        except AppError as error:
            raise self.wrong(f"names a file that cannot be read: {error.message}") from error
        pairs = (line.strip().removeprefix("export ").partition("=") for line in lines if "=" in line)
        return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs if not name.startswith("#")}

    def wrong(self, what: str, fix: str = _DEFAULT_FIX, at: int | None = None) -> SettingsError:
        """Return the error for the value, or for the file at a position."""
        if at is None:
            at = 0
            for key in self.keys:
                # A name may contain escapes; then the line of its parent is close enough.
                at = max(at, self.text_of_file.find(f'"{key}"', at))
        line = self.text_of_file.count("\n", 0, at) + 1
        name = printable(".".join(self.keys)) or "the file"
        return SettingsError(f"{self.path}, line {line}: {name} {what}", fix)
