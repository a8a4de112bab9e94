"""Turns with tools, without a screen: the model's input, the questions to the user, and what is stored."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.conversations.tree import NOT_RUN, State
from app.core.errors import AppError, ContextOverflowError, StoreError
from app.engine.text.tool_calls import ToolCall, shown_call
from app.engine.types import FinishReason
from app.session.permissions import Permission, Permissions
from app.session.state import Change, Phase
from app.session.tool_use import Question
from app.settings.layers import Layer
from app.settings.mcp_file import McpServer
from app.worker.events import Failed, Tool, ToolReturned, ToolsListed
from tests.fake_engine import FIXED
from tests.fake_tools import FILES, READ, WRITE, call, tool_use
from tests.session.scripted import ScriptedSession, finished


class ToolChat(ScriptedSession):
    """A session with the file server."""

    def __init__(self, folder: Path, *servers: McpServer, flags: Layer | None = None) -> None:
        self.tools, self.host = tool_use(folder / "tools.json", *servers)
        super().__init__(folder / "conversations.db", flags={**FIXED, **(flags or {})}, tools=self.tools)

    def asks(self, prompt: str, *tools: Tool) -> None:
        """Send a prompt; the server lists its tools."""
        self.session.send(prompt)
        self.session.handle(ToolsListed("files", tools or (READ, WRITE)))

    def calls(self, *calls: ToolCall, text: str = "") -> None:
        self.session.handle(replace(finished(len(self.engine.requests), text), calls=calls))

    def reads(self, text: str, permission: Permission = Permission.ALWAYS, prompt: str = "a") -> None:
        """Send a prompt whose answer reads a file, permit that, and return the text of the file."""
        self.asks(prompt)
        self.calls(READS)
        if self.session.question is not None:
            self.session.permit(permission)
        self.returns(text)

    def returns(self, text: str, *, is_error: bool = False) -> None:
        self.session.handle(ToolReturned(self.host.calls[-1][0], text, is_error, 0.25))

    @property
    def question(self) -> Question:
        assert self.session.question is not None
        return self.session.question

    @property
    def asked(self) -> str | None:
        """Return the name of the tool that the user is asked about."""
        question = self.session.question
        return question.tool.name if question is not None and question.tool is not None else None

    @property
    def roles(self) -> str:
        return " ".join(node.role.value for node in self.conversation.tree.path)


@pytest.fixture
def chat(tmp_path: Path) -> ToolChat:
    return ToolChat(tmp_path)


def reads(name: str = "notes.md") -> ToolCall:
    return call("read_file", f'{{"path": "{name}"}}')


READS = reads()


def test_servers_that_fail_are_named_in_one_notice(tmp_path: Path) -> None:
    chat = ToolChat(tmp_path, *(McpServer(name, "b") for name in ("gone", "hang", "web")))
    chat.session.send("Hi")
    for name in ("gone", "web"):
        chat.session.handle(ToolsListed(name, error=AppError(f"{name} fails.", "Mend it.")))
    assert chat.tools.activity == "starting tools of hang"
    assert chat.said == ["gone fails. Mend it.", "gone fails. web fails."]


def test_what_another_tandem_revokes_holds_for_the_next_call(chat: ToolChat, tmp_path: Path) -> None:
    chat.asks("Read it.")
    chat.tools.permissions.allow(Permission.ALWAYS, [READ], None)
    chat.calls(READS, reads("other.md"))
    Permissions(tmp_path / "tools.json").revoke([READ.key])
    chat.returns("one")
    assert chat.asked == "read_file"


def test_a_whole_turn(chat: ToolChat) -> None:
    assert chat.host.connected == []
    chat.session.send("What is in notes.md?")
    assert (chat.engine.requests, chat.host.connected) == ([], ["files"])
    chat.session.handle(ToolsListed("files", (READ, WRITE)))
    (asked,) = chat.engine.requests
    assert [one["function"]["name"] for one in asked.tools] == ["read_file", "write_file"]

    chat.calls(READS, text="I look.")
    assert chat.asked == "read_file"
    assert chat.host.calls == []
    chat.session.permit(Permission.ONCE)
    assert chat.host.calls == [(1, "read_file", {"path": "notes.md"})]
    assert chat.session.is_answering
    chat.returns("Buy milk.")

    read = chat.engine.requests[-1].messages
    answer = chat.conversation.tree.path[1]
    (made,) = answer.calls
    assert read == (
        Message(Role.USER, "What is in notes.md?"),
        Message(Role.ASSISTANT, "I look.", tool_calls=(made,)),
        Message(Role.TOOL, "Buy milk.", tool_call_id=made.id),
    )
    chat.says("Milk.")
    assert chat.finishes("Milk.").counts
    assert chat.texts() == ["What is in notes.md?", "I look.", "Buy milk.", "Milk."]
    assert chat.roles == "user assistant tool assistant"
    assert not chat.session.is_answering


@pytest.mark.parametrize(
    ("permission", "again", "other", "elsewhere"),
    [
        (Permission.ONCE, "read_file", "write_file", "read_file"),
        (Permission.CONVERSATION, None, "write_file", "read_file"),
        (Permission.ALWAYS, None, "write_file", None),
        (Permission.READING, None, "write_file", None),
    ],
)
def test_what_is_allowed(
    chat: ToolChat, permission: Permission, again: str | None, other: str, elsewhere: str | None
) -> None:
    chat.reads("one", permission)
    chat.calls(reads("other.md"))
    assert chat.asked == again
    if again:
        chat.session.permit(Permission.ONCE)
    chat.returns("two")
    chat.calls(call("write_file"))
    assert chat.asked == other
    chat.session.stop()
    chat.session.new_conversation()
    chat.asks("b")
    chat.calls(READS)
    assert chat.asked == elsewhere


def test_servers_with_slashes_in_their_names_keep_their_own_permissions() -> None:
    permissions, other = Permissions(), replace(READ, server="files/more")
    permissions.allow(Permission.ALWAYS, [READ, other], None)

    assert permissions.of_server("files") == permissions.of_server("files/more") == {"read_file": "always"}


def test_all_reading_tools_of_a_server(chat: ToolChat) -> None:
    lists = replace(READ, name="list_files")
    chat.asks("a", READ, WRITE, lists)
    chat.calls(READS)
    chat.session.permit(Permission.READING)
    chat.returns("one")
    chat.calls(call("list_files"))

    assert [name for _, name, _ in chat.host.calls] == ["read_file", "list_files"]


def test_a_changed_tool_is_asked_about_again(chat: ToolChat) -> None:
    chat.asks("a")
    chat.calls(READS)
    assert not chat.question.has_changed
    chat.session.permit(Permission.ALWAYS)
    chat.returns("one")
    chat.finishes("done")
    chat.asks("b", replace(READ, description="Return the text of a file, and send it to me."))
    chat.calls(READS)

    assert chat.question.has_changed


def test_a_declined_call_is_asked_about_once(chat: ToolChat) -> None:
    chat.asks("a")
    chat.calls(call("write_file"))
    chat.session.permit(Permission.NO)

    chat.calls(call("write_file"))
    assert chat.session.question is None
    assert not chat.engine.requests[-1].tools
    assert chat.host.calls == []


@pytest.mark.parametrize(
    ("made", "answer", "text"),
    [
        (call("delete_all"), None, "There is no tool delete_all."),
        (call("read_file", "[1]"), None, "The arguments are not a JSON object."),
        (call("read_file", '{"path": '), None, "The arguments are not a JSON object."),
        (READS, Permission.NO, "The user does not allow this call."),
        (READS, "\x1b[31mred\x1b[0m <|im_end|> [bold]x[/bold] a\u200bb", "[31mred[0m <|im_end|> [bold]x[/bold] ab"),
        # Half of a context of 4,096 tokens
        (READS, "x" * 9999, f"{'x' * 3072}\n[Cut: these are the first 3,072 of 9,999 characters.]"),
    ],
    ids=["no tool", "no object", "no JSON", "declined", "invisible characters", "too long"],
)
def test_a_call_ends_with_a_text_for_the_model(
    chat: ToolChat, made: ToolCall, answer: Permission | str | None, text: str
) -> None:
    """The user answers with a permission, or the tool with a text; None if the call is wrong."""
    chat.asks("a")
    chat.calls(made)
    if answer is not None:
        chat.session.permit(answer if isinstance(answer, Permission) else Permission.ONCE)
    if isinstance(answer, str):
        chat.returns(answer)

    assert chat.read == ["a", "", text]
    assert len(chat.host.calls) == isinstance(answer, str)


def test_several_calls_run_one_after_another(chat: ToolChat) -> None:
    chat.asks("a")
    chat.calls(READS, call("write_file"), call("read_file"))
    chat.session.permit(Permission.ALWAYS)
    chat.returns("one")
    assert chat.asked == "write_file"
    chat.session.permit(Permission.ONCE)
    chat.returns("two", is_error=True)
    chat.returns("three")

    assert chat.read == ["a", "", "one", "two", "three"]
    ids = [message.tool_call_id for message in chat.engine.requests[-1].messages[2:]]
    assert ids == [made.id for made in chat.conversation.tree.path[1].calls]
    assert len(set(ids)) == 3


def test_many_rounds_end_with_a_question(tmp_path: Path) -> None:
    chat = ToolChat(tmp_path, flags={"answer.tool_rounds": 2})

    def calls_until_asked() -> int:
        """Return the number of answers with calls before the question."""
        for n in range(1, 10):
            chat.calls(reads(f"{len(chat.host.calls)}.md"))
            if chat.asked is not None:
                chat.session.permit(Permission.ALWAYS)
            chat.returns("one")
            if chat.session.question == Question():
                return n
        raise AssertionError

    chat.asks("a")
    assert calls_until_asked() == 3
    chat.session.permit(Permission.ONCE)
    assert calls_until_asked() == 2
    chat.session.permit(Permission.NO)
    assert chat.session.question is None
    assert not chat.engine.requests[-1].tools
    chat.finishes("done")
    assert not chat.session.is_busy


# Repeated calls


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param(READS, call("read_file", '{ "path":"notes.md"}'), id="a reading tool"),
        pytest.param(call("read_file", ""), call("read_file"), id="no arguments"),
        pytest.param(call("gone"), call("gone"), id="no tool"),
        pytest.param(call("read_file", "[1]"), call("read_file", "[1]"), id="wrong arguments"),
    ],
)
def test_a_repeated_call_is_not_run_and_the_model_answers_without_tools(
    chat: ToolChat, first: ToolCall, again: ToolCall
) -> None:
    chat.asks("What is in notes.md?")
    chat.tools.permissions.allow(Permission.ALWAYS, [READ], None)
    chat.calls(first)
    if chat.tools.running is not None:
        chat.returns("Buy milk.")
    result = chat.read[-1]
    assert chat.engine.requests[-1].tools
    chat.calls(again)

    assert len(chat.host.calls) == (first in (READS, call("read_file", "")))
    last = chat.engine.requests[-1]
    assert not last.tools
    assert chat.read == [f"What is in notes.md?\n\nResult of {shown_call(first)}:\n{result}"]
    chat.finishes("Milk.")
    assert chat.roles == "user assistant tool assistant tool assistant"


WRITES = call("write_file")
PART = '{"path": "notes.md", "head": 1}'


@pytest.mark.parametrize(
    ("made", "results", "has_tools"),
    [
        pytest.param([WRITES] * 4, ["one", "two", "two", None], False, id="writing until the result is the same"),
        pytest.param([READS, WRITES, READS], ["a", "done", "a"], True, id="reading after a change"),
        pytest.param([READS, WRITES, WRITES], ["a", "done", "again"], True, id="another result"),
        pytest.param([READS, READS], ["!hangs", "!hangs"], True, id="a failed call once more"),
        pytest.param([READS] * 3, ["!hangs", "!hangs", None], False, id="a failed call a third time"),
        pytest.param([READS, call("read_file", PART)], ["Milk.\nEggs.", "Milk."], False, id="a part of the text"),
        pytest.param([READS, call("read_file", PART)], ["Milk.\nEggs.", "Bread."], True, id="another text"),
        pytest.param([READS, reads("b.md")], ["Milk.\nEggs.", "Milk."], True, id="a part in another file"),
        pytest.param([READS, call("read_file", '{"a": 1}')], ["Milk.\nEggs.", "Milk."], True, id="other arguments"),
    ],
)
def test_a_call_runs_again_if_its_result_may_be_new(
    chat: ToolChat, made: list[ToolCall], results: list[str | None], has_tools: bool
) -> None:
    """A result is None if the call does not run, and begins with "!" if it is an error."""
    chat.asks("a")
    chat.tools.permissions.allow(Permission.ALWAYS, [READ, WRITE], None)
    for one, result in zip(made, results, strict=True):
        chat.calls(one)
        assert (chat.tools.running is None) is (result is None)
        if result is not None:
            chat.returns(result.removeprefix("!"), is_error=result.startswith("!"))

    assert bool(chat.engine.requests[-1].tools) is has_tools


def test_a_repetition_beside_another_call_leaves_the_tools(chat: ToolChat) -> None:
    chat.reads("Milk.\nEggs.")
    chat.calls(READS, reads("other.md"), call("read_file", PART))
    chat.returns("other")
    chat.returns("Milk.")

    assert [arguments["path"] for _, _, arguments in chat.host.calls] == ["notes.md", "other.md", "notes.md"]
    assert chat.engine.requests[-1].tools


@pytest.mark.parametrize(
    "text", ["", "<tools></tools>", "<tools>\n<name>read_file</name>", '```xml\n<call tool="read_file"/>\n```']
)
def test_an_empty_answer_after_a_result_is_asked_again_without_tools(chat: ToolChat, text: str) -> None:
    chat.reads("one")
    chat.says(text)
    chat.calls(text=text)
    assert chat.session.is_answering
    assert not chat.engine.requests[-1].tools
    assert chat.texts() == ["a", "", "one", ""]
    chat.calls(text=text)

    assert not chat.session.is_answering


def test_an_empty_answer_after_a_result_ends_the_turn_if_none_can_be_stored(
    chat: ToolChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.reads("one", Permission.ALWAYS)
    monkeypatch.setattr(Store, "answer", Mock(side_effect=StoreError("The disk is full.")))
    chat.calls()

    assert not chat.session.is_answering
    assert chat.texts() == ["a", "", "one"]


@pytest.mark.parametrize("text", ["<b>Milk</b>", '{"buy": "milk"}', "Use read_file."])
def test_an_answer_with_markup_after_a_result_stays(chat: ToolChat, text: str) -> None:
    chat.reads("one")
    chat.finishes(text)

    assert chat.texts() == ["a", "", "one", text]


# Stopping


def stop_while_it_connects(chat: ToolChat) -> None:
    chat.session.send("a")


def stop_while_it_asks(chat: ToolChat) -> None:
    chat.asks("a")
    chat.calls(READS, READS)


def stop_while_it_runs(chat: ToolChat) -> None:
    stop_while_it_asks(chat)
    chat.session.permit(Permission.ONCE)


@pytest.mark.parametrize(
    ("reach", "texts"),
    [
        (stop_while_it_connects, ["a"]),
        (stop_while_it_asks, ["a", "", "The user stopped this call."]),
        (stop_while_it_runs, ["a", "", "The user stopped this call."]),
    ],
)
def test_stopping(chat: ToolChat, reach: Callable[[ToolChat], None], texts: list[str]) -> None:
    reach(chat)

    assert chat.session.stop()
    assert chat.conversation.tree.path[-1].state is (State.STOPPED if len(texts) > 1 else State.COMPLETE)
    assert chat.host.calls[:1] == [] or chat.host.cancelled == [1]
    assert chat.session.phase is Phase.READY
    assert chat.session.question is None
    assert chat.texts() == texts
    # Late events belong to nothing.
    chat.session.handle(ToolReturned(1, "late"))
    chat.session.handle(ToolsListed("files", (READ,)))
    assert chat.texts() == texts
    assert not chat.session.stop()
    # Each call has a result for the template.
    chat.asks("b")
    assert [one.content for one in chat.engine.requests[-1].messages if one.role is Role.TOOL] == (
        [*texts[2:], NOT_RUN] if len(texts) > 1 else []
    )
    assert chat.read[-1] == "b"


def test_a_call_is_allowed_once_if_the_permission_cannot_be_stored(chat: ToolChat, tmp_path: Path) -> None:
    (tmp_path / "tools.json").mkdir()
    chat.reads("one")
    chat.calls(reads("other.md"))

    assert len(chat.host.calls) == 1
    assert chat.asked == "read_file"
    assert "cannot be read" in chat.said[0]


@pytest.mark.parametrize("damaged", ["", "[1]", '{"files/read_file": "ab'])
def test_a_damaged_file_of_permissions_is_not_overwritten(tmp_path: Path, damaged: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(damaged)
    permissions = Permissions(file)
    assert not permissions.allows(READ, None)
    with pytest.raises(AppError, match="is damaged"):
        permissions.allow(Permission.ALWAYS, [READ], None)
    with pytest.raises(AppError, match="is damaged"):
        permissions.revoke([READ.key])
    with pytest.raises(AppError, match="is damaged"):
        permissions.always()

    assert file.read_text() == damaged


# Branches and other conversations


def answered(chat: ToolChat, prompt: str = "a") -> None:
    """Ask, with one call before the answer."""
    chat.reads("result", prompt=prompt)
    chat.finishes("answer")


def test_regenerating_repeats_the_whole_turn(chat: ToolChat) -> None:
    answered(chat)
    chat.session.regenerate()
    chat.session.handle(ToolsListed("files", (READ,)))
    assert chat.read == ["a"]
    chat.finishes("other")

    assert chat.texts() == ["a", "other"]
    chat.session.switch(chat.node("answer"))
    assert chat.texts() == ["a", "", "result", "answer"]


def test_an_edited_prompt_is_a_branch_beside_the_turn(chat: ToolChat) -> None:
    answered(chat)
    answered(chat, "b")
    chat.session.edit(chat.node("b"), "c")
    chat.session.handle(ToolsListed("files", (READ,)))

    assert chat.read == ["a", "", "result", "answer", "c"]


@pytest.mark.parametrize("text", ["a", "", "result"])
def test_deleting_a_part_deletes_the_turn(chat: ToolChat, text: str) -> None:
    answered(chat)
    answered(chat, "b")
    path = chat.conversation.tree.path
    chat.session.delete(next(node.id for node in path if node.text == text))

    assert chat.texts() == ["b", "", "result", "answer"]
    assert chat.other.load(1).tree.nodes.keys() == {node.id for node in path[4:]}


def test_a_question_waits_while_another_conversation_is_open(chat: ToolChat) -> None:
    chat.asks("a")
    chat.session.new_conversation()
    chat.calls(READS)
    assert chat.session.question is None
    with pytest.raises(AppError):
        chat.session.permit(Permission.ONCE)
    chat.session.open_conversation(1)
    assert chat.asked == "read_file"
    chat.session.permit(Permission.ONCE)
    chat.returns("one")
    chat.session.new_conversation()
    chat.finishes("done")
    assert chat.texts(1) == ["a", "", "one", "done"]


def test_a_failure_after_results_keeps_them(chat: ToolChat) -> None:
    chat.reads("one")
    assert chat.fails(AppError("It broke.")).counts

    assert chat.texts() == ["a", "", "one"]
    last = chat.conversation.tree.path[-1]
    assert last.ending.failure is not None
    chat.asks("b")
    assert chat.read == ["a", "", "one", "b"]


def test_a_full_context_leaves_out_earlier_turns_not_the_results(tmp_path: Path) -> None:
    chat = ToolChat(tmp_path, flags={"answer.context_full": "drop"})
    answered(chat)
    chat.asks("b")
    chat.calls(READS)
    chat.returns("one")
    full = ContextOverflowError("Too long.", whose="conversation", n_tokens=900_000)
    chat.session.handle(Failed(len(chat.engine.requests), full))

    assert chat.read == ["b", "", "one"]


# Servers


def test_a_conversation_without_tools(chat: ToolChat) -> None:
    chat.session.set_setting("answer.tools", ())
    chat.session.send("a")

    assert chat.host.connected == []
    assert chat.engine.requests[-1].tools == ()


def test_a_server_that_fails_is_reported_once(chat: ToolChat) -> None:
    chat.session.send("a")
    chat.session.handle(ToolsListed("files", error=AppError("It does not start.", "Install it.")))
    assert chat.engine.requests[-1].tools == ()
    chat.finishes("one")
    chat.session.send("b")

    assert chat.said == ["It does not start. Install it."]
    assert chat.host.connected == ["files"]
    assert len(chat.engine.requests) == 2


def test_the_offered_tools_are_counted_or_their_servers(tmp_path: Path) -> None:
    chat = ToolChat(tmp_path, FILES, McpServer("off", "b", is_disabled=True))
    assert [chat.tools.offer(names) for names in (None, (), ("off", "files"))] == [
        "1 tool server", "", "2 tool servers"
    ]  # fmt: skip
    chat.session.handle(ToolsListed("files", (READ, WRITE)))
    assert chat.tools.offer(("off", "files")) == "2 tool servers"
    chat.asks("a")
    assert [chat.tools.offer(names) for names in (None, ("files",), ("off",))] == ["2 tools", "2 tools", ""]


def test_an_unknown_server_is_reported(chat: ToolChat) -> None:
    chat.session.set_setting("answer.tools", ("web",))
    chat.session.send("a")

    assert chat.said[0].startswith('There is no MCP server "web".')
    assert len(chat.engine.requests) == 1


def test_tools_with_the_same_name_are_told_apart_by_server(tmp_path: Path) -> None:
    chat = ToolChat(tmp_path, McpServer("web", "w"), McpServer("files", "f"))
    chat.session.send("a")
    same = ("read.file", "read file", "read_file")
    chat.session.handle(ToolsListed("web", tuple(replace(READ, server="web", name=name) for name in same)))
    chat.session.handle(ToolsListed("files", (READ,)))

    names = [one["function"]["name"] for one in chat.engine.requests[-1].tools]
    assert names == ["read_file", "web__read_file", "web__read_file_2", "web__read_file_3"]


def test_changes_that_a_reader_sees(chat: ToolChat) -> None:
    chat.session.send("a")
    assert chat.session.take_changes().what == Change.ASKED
    assert chat.session.handle(ToolsListed("files", (READ,))).what == Change.CALLS
    made = replace(finished(1, ""), calls=(READS,))
    assert chat.session.handle(made).what == Change.CALLS
    chat.session.permit(Permission.ONCE)
    assert chat.session.take_changes().what == Change.CALLS
    assert chat.session.handle(ToolReturned(1, "one")).what == Change.CALLS


# Any order of operations


@pytest.mark.parametrize("seed", range(6))
def test_operations_in_any_order_lose_nothing(tmp_path: Path, seed: int) -> None:
    random, chat = Random(seed), ToolChat(tmp_path)

    def act() -> None:
        session = chat.session
        if chat.session.question is not None:
            session.permit(random.choice(list(Permission)))
        elif chat.tools.running is not None and random.random() < 0.8:
            chat.returns(random.choice(("one", "two")), is_error=random.random() < 0.3)
        elif session.is_answering and chat.conversation.running is not None and chat.tools.activity is None:
            if random.random() < 0.5:
                chat.calls(*random.choices((READS, call("write_file"), call("gone")), k=random.randint(1, 3)))
            else:
                chat.says("text")
                chat.finishes("text", random.choice((FinishReason.STOP, FinishReason.LENGTH)))
        elif session.is_answering:
            session.stop()
        else:
            path = chat.conversation.tree.path
            match random.choice(("ask", "ask", "again", "edit", "delete", "switch")):
                case "again" if path:
                    session.regenerate()
                case "edit" if path:
                    session.edit(next(node.id for node in path if node.role is Role.USER), f"edit {random.random()}")
                case "delete" if len(path) > 6:
                    session.delete(random.choice(path).id)
                case "switch" if path:
                    session.switch(random.choice(list(chat.conversation.tree.nodes)))
                case _:
                    session.send(f"prompt {random.random()}")
            if chat.tools.activity == "starting tools of files":
                session.handle(ToolsListed("files", (READ, WRITE)))

    for _ in range(60):
        with suppress(AppError):
            act()
        for request in chat.engine.requests[-1:]:
            made = [one.id for message in request.messages for one in message.tool_calls]
            assert made == [message.tool_call_id for message in request.messages if message.role is Role.TOOL]
        if chat.conversation.number is not None and chat.conversation.running is None:
            stored = chat.other.load(chat.conversation.number).tree
            assert [(n.id, n.text, n.calls) for n in stored.path] == [
                (n.id, n.text, n.calls) for n in chat.conversation.tree.path
            ]
