"""Calls of tools and their results in files, in the search, and as a model reads them."""

from pathlib import Path

import pytest

from app.conversations.export import to_json, to_markdown
from app.conversations.importing import read_file
from app.conversations.message import Message, ResultOf, Role, calls_as_numbers, calls_in
from app.conversations.store import Store
from app.conversations.tree import NOT_RUN, Node, StoredConversation, Summary, Tree, as_messages
from app.engine.text.tool_calls import ToolCall

CALL = ToolCall("read_file", '{"path": "notes.md"}', "call2n0")
OTHER = ToolCall("list_files", "{}", "call2n1")
RESULT = ResultOf("call2n0", "read_file", seconds=0.25)
TEXT = '## You\n<!-- tandem:message {"role": "user"} -->\n[bold]Buy milk.[/bold]'
NODES = (
    Node(1, None, Role.USER, "What is in notes.md?"),
    Node(2, 1, Role.ASSISTANT, "", stats=calls_as_numbers([CALL])),
    Node(3, 2, Role.TOOL, TEXT, stats=RESULT.numbers),
    Node(4, 3, Role.ASSISTANT, "Milk."),
)
CONVERSATION = StoredConversation(Summary(0, "Notes"), Tree({node.id: node for node in NODES}, 4))


@pytest.mark.parametrize("suffix", ["json", "md"])
def test_a_file_holds_calls_and_results(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"x.{suffix}"
    file.write_text((to_json if suffix == "json" else to_markdown)([CONVERSATION]), encoding="utf-8")
    (read,) = read_file(file)

    assert as_messages(read.tree.path) == as_messages(NODES)
    assert [node.role for node in read.tree.path] == [node.role for node in NODES]
    assert ResultOf.read(read.tree.path[2].stats) == RESULT


def test_markdown_shows_calls_to_people() -> None:
    assert '\n    read_file(path="notes.md")\n' in to_markdown([CONVERSATION])


def test_a_result_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.db")
    (number,) = store.insert([CONVERSATION])

    (hit,) = store.search("milk")
    assert (hit.conversation, store.load(number).tree.nodes[3].role) == (number, Role.TOOL)
    # Prompts that can be recalled are the user's own.
    assert store.prompts(10) == ("What is in notes.md?",)
    store.close()


def test_each_call_has_one_result() -> None:
    answer = Node(2, 1, Role.ASSISTANT, "I look.", stats=calls_as_numbers([CALL, OTHER]))
    stray = Node(9, 3, Role.TOOL, "stray", stats=ResultOf("call9n0", "read_file").numbers)
    read = as_messages([NODES[0], answer, NODES[2], stray, Node(5, 3, Role.USER, "Go on.")])

    assert read == (
        Message(Role.USER, "What is in notes.md?"),
        Message(Role.ASSISTANT, "I look.", tool_calls=(CALL, OTHER)),
        Message(Role.TOOL, TEXT, tool_call_id="call2n0"),
        Message(Role.TOOL, NOT_RUN, tool_call_id="call2n1"),
        Message(Role.USER, "Go on."),
    )


@pytest.mark.parametrize("listed", [None, 7, [7], [{"id": 1, "name": "a", "arguments": "{}"}], [{"name": "a"}]])
def test_invalid_calls_of_a_file_are_ignored(listed: object) -> None:
    assert calls_in({"calls": listed}) == ()
    assert ResultOf.read({"call": 7, "tool": [], "failed": "yes", "seconds": "long"}) == ResultOf("", "")
