"""Tools in the chat: the call during writing, the question, and the result below it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Role, calls_as_numbers
from app.conversations.store import Store
from app.session.permissions import Permission, Permissions
from app.session.tool_use import ToolUse
from app.settings.mcp_file import McpServer
from app.ui.text import MARK
from app.ui.tools.screen import ToolsScreen
from app.worker.events import ToolReturned, ToolsListed
from tests.fake_engine import FIXED
from tests.fake_tools import FILES, READ, WRITE, FakeToolHost, call, tool_use
from tests.settings.in_memory import in_memory
from tests.ui.driver import Chat, open_chat
from tests.ui.transcript.test_parts import ROUND, D, says

READS = call("read_file", '{"path": "notes.md"}')
QUESTION = "Run read_file of files? It says that it only reads."


class ToolChat:
    """A chat with tools without servers."""

    def __init__(self, chat: Chat, host: FakeToolHost) -> None:
        self.chat, self.host = chat, host

    async def asks(self, prompt: str = "What is in notes.md?") -> None:
        """Send a prompt, and let the model call a tool."""
        await self.chat.enter(prompt, "starting tools")
        self.chat.engine.emit(ToolsListed("files", (READ, WRITE)))
        await self.chat.until(lambda: self.chat.engine.requests)
        self.chat.engine.says("I look into it.")
        self.chat.engine.calls(READS)
        await self.chat.shows('read_file(path="notes.md")')

    async def returns(self, text: str, *, is_error: bool = False) -> None:
        n_asked = len(self.chat.engine.requests)
        self.chat.engine.emit(ToolReturned(self.host.calls[-1][0], text, is_error, 0.25))
        await self.chat.until(lambda: len(self.chat.engine.requests) > n_asked)


@asynccontextmanager
async def tool_chat(size: tuple[int, int] = (80, 24)) -> AsyncIterator[ToolChat]:
    tools, host = tool_use()
    async with open_chat(tools=tools, size=size, store=Store) as chat:
        yield ToolChat(chat, host)


async def test_a_whole_turn() -> None:
    async with tool_chat() as it:
        chat = it.chat
        await chat.shows("1 tool server")
        await it.asks()
        await chat.shows(QUESTION)
        assert it.host.calls == []
        await chat.press("1", shows="running read_file")
        assert QUESTION not in chat.text
        await it.returns("Buy milk.\n\x1b[31m[bold]Call[/bold] Eve.")
        await chat.answer("Milk, and a call.")
        await chat.shows("Milk, and a call.")

        assert chat.said == [
            "You",
            "What is in notes.md?",
            "Answer",
            "I look into it.",
            'read_file(path="notes.md")',
            "▸ read_file  2 lines, 0.2 s",
            "Answer",
            "Milk, and a call.",
        ]
        assert "2 tools" in chat.text
        await chat.click("lines", shows="[31m[bold]Call[/bold] Eve.")
        assert chat.screen.focused is chat.screen.view.prompt


async def test_a_command_answers_a_question() -> None:
    async with tool_chat() as it:
        await it.asks()
        await it.chat.shows(QUESTION)
        await it.chat.enter("/allow no", "failed: The user does not allow this call.")
        assert it.host.calls == []


async def test_keys_that_answer_nothing_are_named_or_go_to_the_prompt() -> None:
    async with tool_chat() as it:
        await it.asks()
        await it.chat.shows(QUESTION)
        await it.chat.press("5", shows="Press 1 to 4 or 0.")
        await it.chat.press("h", "i", "1")

        assert it.chat.prompt == "hi1"
        assert it.host.calls == []
        await it.chat.press("backspace", "backspace", "backspace")
        await it.chat.press("0", shows="failed: The user does not allow this call.")
        assert it.host.calls == []


@pytest.mark.parametrize("keys", [["escape"], ["1", "escape"]], ids=["at the question", "in the call"])
async def test_escape_stops_a_call(keys: list[str]) -> None:
    async with tool_chat() as it:
        await it.asks()
        await it.chat.shows(QUESTION)
        await it.chat.press(*keys, shows="failed: The user stopped this call.")
        await it.chat.ready()

        assert QUESTION not in it.chat.text


async def test_all_arguments_are_shown() -> None:
    async with tool_chat() as it:
        lines = "\\n".join(f"line {n}" for n in range(200))
        await it.chat.enter("a", "starting tools")
        it.chat.engine.emit(ToolsListed("files", (replace(WRITE, name="write\nfile"),)))
        await it.chat.until(lambda: it.chat.engine.requests)
        it.chat.engine.finishes(calls=(call("write_file", f'{{"path": "{lines}"}}'),))
        await it.chat.shows("Run write file of files? It may change something.")
        shown = it.chat.screen.view.question.query_one("VerticalScroll")
        await it.chat.press("down", "down", "up")

        assert (shown.scroll_y, shown.max_scroll_y > 8) == (1, True)


async def test_the_screen_of_tools() -> None:
    web = McpServer("web", "serve-web", is_disabled=True)
    tools, host = tool_use(None, FILES, web)
    live = in_memory(FIXED)
    async with open_chat(tools=tools, live=live) as chat:
        await chat.enter("/tools", "not started")
        assert isinstance(chat.app.screen, ToolsScreen)
        assert [row.split() for row in chat.rows if "not started" in row] == [
            [MARK, "files", "on", "not", "started"],
            ["web", "off", "not", "started"],
        ]
        assert "ctrl+x" not in chat.text
        await chat.press("ctrl+r")
        assert host.connected == ["files"]
        chat.engine.emit(ToolsListed("files", (READ, WRITE)))
        await chat.shows("write_file (may change something)")
        await chat.press("enter", shows="off in this conversation")
        assert not chat.screen.session.settings["answer.tools"]
        assert chat.screen.session.conversation.settings == {"answer": {"tools": "none"}}
        await chat.press("down", "ctrl+a")
        assert chat.screen.session.settings["answer.tools"] == ("web",)
        # Other conversations have both.
        assert live.resolved({})["answer.tools"] == ("files", "web")
        await chat.press("f", "i")
        assert [row.split()[1] for row in chat.rows if "in this conversation" in row] == ["files"]
        await chat.in_front("escape")


async def test_the_screen_revokes_what_is_allowed(tmp_path: Path) -> None:
    tools, _ = tool_use(tmp_path / "tools.json")
    tools.permissions.allow(Permission.ALWAYS, [READ], None)
    tools.permissions.allow(Permission.CONVERSATION, [WRITE], 1)
    async with open_chat(tools=tools) as chat:
        await chat.enter("/tools", "Runs without a question: read_file, write_file")
        tools.take_list(ToolsListed("files", (READ, WRITE)))
        await chat.shows(
            "read_file allowed always", "ctrl+x reset", "write_file (may change something) allowed in a conversation"
        )
        await chat.press("ctrl+x", shows="Tandem asks again before a tool of files runs.")

        assert tools.permissions.of_server("files") == {}
        assert (tmp_path / "tools.json").read_text() == "{}"


async def test_a_wrong_entry_is_shown_before_its_server_starts() -> None:
    tools, _ = tool_use(None, McpServer("typo", fault='typo.evn is no key of a server. Did you mean "env"?'))
    async with open_chat(tools=tools) as chat:
        await chat.enter("/tools", 'Did you mean "env"?')


async def test_no_servers() -> None:
    tools = ToolUse(FakeToolHost(), lambda: (), Permissions())
    async with open_chat(tools=tools) as chat:
        await chat.enter("/tools", "There are no MCP servers.")
        await chat.until(lambda: "enter on/off" not in chat.rows[-1])
        assert not {"ctrl+a", "ctrl+r"} & set(chat.rows[-1].split())


async def test_a_question_in_another_conversation_is_announced_and_marked() -> None:
    async with tool_chat((120, 30)) as it:
        chat = it.chat
        await chat.enter("What is in notes.md?", "starting tools")
        await chat.press("ctrl+n")
        chat.engine.emit(ToolsListed("files", (READ, WRITE)))
        await chat.until(lambda: chat.engine.requests)
        await chat.shows('answering "What is in notes.md?"')
        chat.engine.calls(READS)
        await chat.shows(
            '"What is in notes.md?" asks whether a tool may run; ctrl+o opens it.',
            '"What is in notes.md?" waits for your answer',
            "? What is in notes.md?",
        )
        await chat.press("ctrl+o", "enter", shows=QUESTION)
        assert "waiting for your answer" in chat.status
        await chat.press("x", "backspace", "1", shows="running read_file")


async def test_the_steps_of_a_turn_stay_and_count_on_after_a_call() -> None:
    async with tool_chat((90, 40)) as it:
        chat, inspector = it.chat, it.chat.screen.view.inspector
        await chat.press("f3")
        await it.asks()
        says(chat, ("one ", D), details=replace(ROUND, number=1))
        await chat.shows(QUESTION)
        await chat.press("1", shows="running read_file")
        await it.returns("Milk.")
        says(chat, ("two ", D), details=replace(ROUND, number=1))
        await chat.until(lambda: [step.number for step in inspector.steps] == [1, 2])


async def test_a_question_that_was_left_is_asked_again(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    store = Store(file)
    number = store.create()
    asked = store.add(number, Role.USER, "What is in notes.md?", parent=None)
    store.add(number, Role.ASSISTANT, "", parent=asked.id, stats=calls_as_numbers([replace(READS, id="one")]))
    store.close()
    async with open_chat(tools=tool_use()[0], store=lambda: Store(file), continues=True) as chat:
        await chat.shows("this call was not run; ctrl+g asks again")
        # The tokens are unknown, so the call stays.
        await chat.press("f3")
        assert 'read_file(path="notes.md")' in chat.said
        await chat.press("ctrl+g", shows="starting tools")
        chat.engine.emit(ToolsListed("files", (READ, WRITE)))
        await chat.shows(QUESTION)
        assert "was not run" not in chat.text
        await chat.press("0")
        await chat.answer("No notes.")
        assert "continues" not in chat.text
