"""The tools screen: servers, what they offer, and where they are on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input

from app.core.errors import AppError
from app.core.paths import mcp_file
from app.core.printable import one_line, printable
from app.core.units import counted
from app.session.tool_use import ToolUse
from app.settings.layers import Origin
from app.settings.live import LiveSettings, Scope
from app.settings.mcp_file import McpServer
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.key_names import for_chat, key
from app.ui.text import MARK, cell
from app.ui.widgets.choice_list import ChoiceList
from app.ui.widgets.inputs import FilterInput, SearchLine
from app.worker.events import ToolsListed, tool_key

_NAME_CELLS, _STATE_CELLS = 20, 28
"""Widths of a name and of its state."""
_UPDATE_S = 0.5
SETTING = "answer.tools"


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server, where it is on, its tools if it was started, and its allowed tools with where they are allowed."""

    server: McpServer
    is_on: bool
    is_on_everywhere: bool
    listed: ToolsListed | None
    allowed: tuple[tuple[str, str], ...]


class ServerList(ChoiceList[ServerRow]):
    """A line for each server; the chosen server shows its tools, or why it fails."""

    def line(self, at: int, width: int) -> Content:
        row, is_chosen = self.rows[at], at == self.index
        state = "off" if not row.is_on else "on" if row.is_on_everywhere else "on in this conversation"
        state = "off in this conversation" if row.is_on_everywhere and not row.is_on else state
        tools = (
            "not started"
            if row.listed is None
            else "fails"
            if row.listed.error
            else counted(len(row.listed.tools), "tool")
        )
        name = Content.styled(printable(row.server.name), "bold" if is_chosen else "")
        mark = f" {MARK} " if is_chosen else "   "
        return Content.assemble(
            mark, cell(name, _NAME_CELLS), " ", cell(Content(state), _STATE_CELLS), " ", (tools, "$quiet")
        )

    def details(self, at: int, width: int) -> Sequence[Content]:
        """Return the tools of the chosen server, read-only tools first, or why it fails."""
        listed, allowed = self.rows[at].listed, dict(self.rows[at].allowed)
        if listed is None or listed.error is not None:
            now = key("tools.start")
            error = listed.error if listed is not None else None
            text = for_chat(error.sentences) if error else f"It starts with the next prompt; {now} starts it now."
            names = f"Runs without a question: {', '.join(map(one_line, allowed))}" if allowed else ""
            return [Content.styled(printable(one), "" if error else "$quiet") for one in (text, names) if one]
        tools = sorted(listed.tools, key=lambda tool: (not tool.reads_only, tool.name))
        return [
            Content.assemble(
                one_line(tool.name), "" if tool.reads_only else (" (may change something)", "$quiet"),
                f" allowed {allowed[tool.name]}" if tool.name in allowed else "",
                (f"  {' '.join(printable(tool.description).split())[:width]}", "$quiet"),
            ).truncate(width, ellipsis=True)
            for tool in tools
        ]  # fmt: skip


class ToolsScreen(SubScreen[None]):
    """Turns servers on and off."""

    HEADING = "Tools"
    AUTO_FOCUS = "FilterInput"
    BINDINGS: ClassVar[list[BindingType]] = bindings(
        "tools.everywhere", "tools.ask_again", "tools.start", "tools.leave"
    )

    servers = query_one(ServerList)
    filter_input = query_one(FilterInput)

    def __init__(self, tools: ToolUse, live: LiveSettings, on_change: Callable[[], object]) -> None:
        super().__init__()
        self._tools, self._live, self._on_change = tools, live, on_change
        self._servers: Sequence[McpServer] = ()

    def compose_body(self) -> ComposeResult:
        yield SearchLine(FilterInput("type to filter", "tools.toggle"))
        yield ServerList(select_at_once=True)

    def on_mount(self) -> None:
        self._show()
        self.set_interval(_UPDATE_S, self._show)

    def _show(self) -> None:
        try:
            servers, problem = self._tools.servers(), ""
        except AppError as error:
            servers, problem = (), for_chat(error.sentences)
        self._servers = servers
        here, everywhere = self._on(here=True), self._on(here=False)
        faults = {s.name: ToolsListed(s.name, error=AppError(s.fault)) for s in servers if s.fault}
        listed, allowed = faults | self._tools.listed, self._tools.permissions.of_server
        typed = self.filter_input.value.strip().lower()
        rows = [
            ServerRow(s, s.name in here, s.name in everywhere, listed.get(s.name), tuple(allowed(s.name).items()))
            for s in servers
            if typed in s.name.lower()
        ]
        if rows != self.servers.rows or not rows:
            none = f"There are no MCP servers. Add them to {mcp_file()}, as for Claude Desktop or LM Studio."
            self.servers.show_rows(rows, self.servers.index, problem or ("Nothing found." if servers else none))

    @on(Input.Changed)
    def _filter(self) -> None:
        self._show()

    @property
    def idle_keys(self) -> Collection[str]:
        row = self.servers.row
        has_allowed = row is not None and bool(row.allowed)
        idle = {
            "tools.toggle": row is None,
            "tools.everywhere": row is None,
            "tools.ask_again": not has_allowed,
            "tools.start": not self._servers,
        }
        return {identity for identity, is_idle in idle.items() if is_idle}

    def _on(self, *, here: bool) -> tuple[str, ...]:
        names = self._live.resolved(None if here else {})[SETTING]
        if isinstance(names, tuple):
            return tuple(map(str, names))
        return tuple(server.name for server in self._servers if not server.is_disabled)

    @on(FilterInput.Pressed)
    @on(ServerList.Selected)
    def _toggle(self) -> None:
        if (row := self.servers.row) is not None:
            self._set(row.server.name, Scope.CONVERSATION, on=not row.is_on)

    def action_everywhere(self) -> None:
        if (row := self.servers.row) is not None:
            is_own = self._live.resolved().origin(SETTING) is Origin.CONVERSATION
            here = self._on(here=True)
            self._set(row.server.name, Scope.ALL, on=not row.is_on_everywhere)
            if is_own:
                # The change for all has removed this conversation's choice for the other servers.
                self._live.set(SETTING, here, Scope.CONVERSATION)
                self._set(row.server.name, Scope.CONVERSATION, on=not row.is_on_everywhere)

    def _set(self, name: str, scope: Scope, *, on: bool) -> None:
        others = tuple(one for one in self._on(here=scope is Scope.CONVERSATION) if one != name)
        try:
            self._live.set(SETTING, (*others, name) if on else others, scope)
        except AppError as error:
            self.hint.say(error.sentences)
        self._on_change()
        self._show()

    def action_ask_again(self) -> None:
        """Revoke the permissions of the chosen server's tools."""
        if (row := self.servers.row) is not None and row.allowed:
            try:
                self._tools.permissions.revoke(tool_key(row.server.name, tool) for tool, _ in row.allowed)
                self.hint.say(f"Tandem asks again before a tool of {row.server.name} runs.")
            except AppError as error:
                self.hint.say(error.sentences)
            self._show()

    def action_start(self) -> None:
        """Start the servers that are on, including failed servers."""
        try:
            self._tools.check(self._on(here=True))
            self.hint.say("Starting the servers that are on ...")
        except AppError as error:
            self.hint.say(error.sentences)
