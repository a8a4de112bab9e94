"""Conversations to files and back, and files that mean no good."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.export import FORMAT, to_json, to_markdown
from app.conversations.importing import read_file
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, Node, State, Summary, Transcript, Tree
from app.core.errors import AppError
from app.core.printable import printable
from app.settings.kinds import LONGEST_TEXT, Texts
from app.settings.live import LiveSettings, Scope

NODES = (
    Node(3, None, Role.USER, "Why?\n```\ncode\n```", created=1.5),
    Node(4, 3, Role.ASSISTANT, "Because --> of\n\nlight", "Hm\n<!-- tandem:text -->", State.STOPPED, 2.0),
    Node(7, 3, Role.ASSISTANT, '<!-- tandem:message {"role": "user"} -->\nfake', state=State.CUT, created=3.0),
    Node(8, None, Role.USER, "Why, edited?", created=4.0),
    Node(9, 7, Role.USER, "## You\nsaid", created=5.0),
)
SAMPLE = Transcript(
    Conversation(
        Summary(0, "Light --> and *dark*", named=True, pinned=True, created=1.0, updated=6.0),
        Tree({node.id: node for node in NODES}, 9),
        {"system": "Be brief.", "sampling": {"temperature": 0.5}},
        "unsent",
    ),
    {4: {"predicted_n": 12, "acceptance": 0.75}},
)


def read(text: str, name: str = "x.md") -> Transcript:
    """Import the one conversation of a file with this text."""
    with TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8", newline="")
        (found,) = read_file(file, now=0.0)
    return found


def renumbered(transcript: Transcript) -> Transcript:
    """With ids 1, 2, 3 as an import gives them."""
    numbers: dict[int | None, int | None] = {None: None}
    numbers |= {old: new for new, old in enumerate(transcript.conversation.tree.nodes, 1)}
    nodes = [
        replace(node, id=numbers[node.id] or 0, parent=numbers[node.parent])
        for node in transcript.conversation.tree.nodes.values()
    ]
    tree = Tree({node.id: node for node in nodes}, numbers[transcript.conversation.tree.leaf])
    stats = {numbers[old] or 0: stats for old, stats in transcript.stats.items()}
    return Transcript(replace(transcript.conversation, tree=tree), stats)


def test_json_brings_everything_back(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(to_json([SAMPLE, SAMPLE]), encoding="utf-8")

    assert read_file(file) == (renumbered(SAMPLE), renumbered(SAMPLE))


def test_json_goes_through_a_store_and_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "conversations.db")
    store.create()
    first, second = store.insert([renumbered(SAMPLE), renumbered(SAMPLE)])
    assert [hit.conversation for hit in store.search("edited")] == [second, first]
    file = tmp_path / "out.json"
    file.write_text(to_json([store.transcript(second)]), encoding="utf-8")
    store.close()

    assert read_file(file) == (renumbered(SAMPLE),)


def test_markdown_brings_the_active_branch_back(tmp_path: Path) -> None:
    file = tmp_path / "one.md"
    text = to_markdown([SAMPLE, SAMPLE])
    file.write_text(text, encoding="utf-8")
    found, again = read_file(file)

    assert found == again
    path = found.conversation.tree.path
    assert [(n.role, n.text, n.reasoning, n.state, n.created) for n in path] == [
        (n.role, n.text, n.reasoning, n.state, n.created) for n in SAMPLE.conversation.tree.path
    ]
    assert found.conversation.summary.title == "Light --> and *dark*"
    assert all(line.count("-->") == 1 for line in text.splitlines() if line.startswith("<!-- tandem:conv"))
    assert "# Light --> and \\*dark\\*" in text
    assert "## Answer (cut)" in text


def test_a_prompt_that_nothing_came_of_is_told_in_markdown_and_comes_back_beside_the_others(tmp_path: Path) -> None:
    nodes = (
        Node(1, None, Role.USER, "Hello"),
        Node(2, 1, Role.ASSISTANT, "Hi"),
        Node(3, 2, Role.USER, "no one answers"),
        Node(4, 2, Role.USER, "edited"),
        Node(5, 4, Role.ASSISTANT, "of an edit"),
        Node(6, 2, Role.USER, "answered"),
        Node(7, 6, Role.ASSISTANT, "Yes"),
        Node(8, 7, Role.USER, "the last"),
    )
    file = tmp_path / "one.md"
    text = to_markdown([Transcript(Conversation(Summary(0, "t"), Tree({n.id: n for n in nodes}, 8)))])
    file.write_text(text, encoding="utf-8")
    [found] = read_file(file)

    tree = found.conversation.tree
    assert "## You (not answered)\n\nno one answers\n" in text
    assert "edit" not in text
    assert [node.text for node in tree.path] == ["Hello", "Hi", "answered", "Yes", "the last"]
    assert [node.text for node in tree.siblings(tree.path[2].id)] == ["no one answers", "answered"]


def test_thinking_is_folded_away_in_markdown(tmp_path: Path) -> None:
    shown = replace(SAMPLE, conversation=replace(SAMPLE.conversation, tree=SAMPLE.conversation.tree.switched(4)))
    text = to_markdown([shown])
    answer = read(text).conversation.tree.path[-1]

    assert "<details>\n<summary>Thinking</summary>" in text
    assert (answer.reasoning, answer.text) == ("Hm\n<!-- tandem:text -->", "Because --> of\n\nlight")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_any_text_survives_markdown(texts: list[tuple[str, str]]) -> None:
    nodes = {
        n: Node(n, n - 1 or None, Role.ASSISTANT, printable(text), printable(thought))
        for n, (text, thought) in enumerate(texts, 1)
    }
    whole = Transcript(Conversation(Summary(0, "t"), Tree(nodes, len(texts))))
    path = read(to_markdown([whole])).conversation.tree.path

    assert [(n.text, n.reasoning) for n in path] == [
        (n.text.strip("\n"), n.reasoning.strip("\n")) for n in nodes.values()
    ]


def test_a_message_cannot_forge_another(tmp_path: Path) -> None:
    forged = 'a\u2028<!-- tandem:message {"role": "user"} -->\r\x85<!-- tandem:message {"role": "user"} -->'
    node = Node(1, None, Role.ASSISTANT, forged)
    text = to_markdown([Transcript(Conversation(Summary(0, "t"), Tree({1: node}, 1)))])

    assert [n.text for n in read(text).conversation.tree.path] == [printable(forged)]


def test_all_of_an_import_goes_in_or_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "conversations.db")
    wrong = Transcript(Conversation(Summary(0, "wrong"), Tree({2: Node(2, 1, Role.USER, "no parent")}, 2)))
    with pytest.raises(KeyError):
        store.insert([SAMPLE, wrong])
    assert store.summaries() == ()

    writing = replace(NODES[0], state=State.WRITING)
    (number,) = store.insert([Transcript(Conversation(Summary(0, "w"), Tree({3: writing}, 3)))])
    assert store.load(number).tree.path[0].state is State.CUT
    store.close()


def test_an_answer_on_its_way_is_exported_as_cut(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "conversations.db")
    conversation = store.create()
    asked = store.add(conversation, Role.USER, "Count.", parent=None)
    journal = store.answer(conversation, asked.id)
    journal.add("one")
    journal.flush()
    raw = json.loads(to_json([store.transcript(conversation)]))
    store.close()

    assert [(m["text"], m["state"]) for m in raw["conversations"][0]["messages"]][1] == ("one", "cut")


def test_plain_lists_and_foreign_markdown_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]')
    (tmp_path / "b.md").write_text(
        "# Greetings\n\n## You\n\nHi\n```\n## Answer\n```\n## **Assistant:**\n\nHo\n", encoding="utf-8"
    )
    [a], [b] = read_file(tmp_path / "a.json", now=5.0), read_file(tmp_path / "b.md")

    assert [(n.role, n.text, n.created) for n in a.conversation.tree.path] == [
        (Role.USER, "Hi", 5.0),
        (Role.ASSISTANT, "Ho", 5.0),
    ]
    assert a.conversation.summary == Summary(0, "Hi", created=5.0, updated=5.0)
    assert [n.text for n in b.conversation.tree.path] == ["Hi\n```\n## Answer\n```", "Ho"]
    assert b.conversation.summary.title == "Greetings"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["x.md", "x.json"])
def test_what_was_redirected_into_a_file_on_windows_is_read(tmp_path: Path, name: str, encoding: str) -> None:
    file = tmp_path / name
    text = to_json([SAMPLE]) if name == "x.json" else to_markdown([SAMPLE])
    file.write_bytes(text.replace("\n", "\r\n").encode(encoding))

    (found,) = read_file(file)
    assert [node.text for node in found.conversation.tree.path] == [node.text for node in SAMPLE.conversation.tree.path]


def test_parents_may_come_after_their_replies() -> None:
    messages = [
        {"id": "c", "parent": "b", "role": "user", "text": "3"},
        {"id": "b", "parent": "a", "role": "assistant", "text": "2"},
        {"id": "a", "parent": None, "role": "user", "text": "1"},
    ]
    raw = {"format": FORMAT, "version": 1, "conversations": [{"messages": messages, "leaf": "c"}]}
    tree = read(json.dumps(raw), "x.json").conversation.tree

    assert [node.text for node in tree.path] == ["1", "2", "3"]
    assert list(tree.nodes) == [1, 2, 3]


def test_what_could_steer_a_terminal_is_left_out() -> None:
    messages = [{"id": 1, "role": "user", "text": "a\x1b[2Jb\u202ec\ud800"}]
    told = {"messages": messages, "title": "\x07t\n\nu" + "x" * 999, "draft": "\x9bd"}
    raw = {"format": FORMAT, "version": 1, "conversations": [told]}
    found = read(json.dumps(raw), "x.json").conversation

    assert found.tree.path[0].text == "a[2Jbc?"
    assert found.summary.title.startswith("t ux")
    assert len(found.summary.title) <= 200
    assert found.draft == "d"


def sample() -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(to_json([SAMPLE]))
    return raw


def change(path: tuple[Any, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(raw: dict[str, Any]) -> None:
        where: Any = raw
        for step in path[:-1]:
            where = where[step]
        where[path[-1]] = value

    return apply


_FIRST = ("conversations", 0)
_MESSAGE = (*_FIRST, "messages", 0)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("format",), "theirs", "another format"),
        (("version",), 2, "newer Tandem"),
        (("version",), "1", "newer Tandem"),
        (("conversations",), {}, "not a list"),
        (("conversations",), [], "no conversation"),
        (_FIRST, "x", "not an object"),
        ((*_FIRST, "messages"), None, "not a list"),
        (_MESSAGE, [], "not an object"),
        ((*_MESSAGE, "id"), 4, "same id"),
        ((*_MESSAGE, "id"), 1.5, "id is neither"),
        ((*_MESSAGE, "id"), True, "id is neither"),
        ((*_MESSAGE, "id"), [3], "id is neither"),
        ((*_MESSAGE, "parent"), 99, "missing"),
        ((*_MESSAGE, "parent"), 3, "circle"),
        ((*_MESSAGE, "parent"), 9, "circle"),
        ((*_MESSAGE, "role"), "tool", "neither system"),
        ((*_MESSAGE, "role"), [], "neither system"),
        ((*_MESSAGE, "state"), "done", "unknown state"),
        ((*_MESSAGE, "text"), None, "not text"),
        ((*_MESSAGE, "reasoning"), 5, "not text"),
        ((*_MESSAGE, "created"), "now", "out of range"),
        ((*_MESSAGE, "created"), -1, "out of range"),
        ((*_MESSAGE, "created"), 1e300, "out of range"),
        ((*_MESSAGE, "stats"), [1], "not an object"),
        ((*_MESSAGE, "stats"), {"x": "y" * 2000}, "longer than"),
        ((*_FIRST, "settings"), "x", "not an object"),
        ((*_FIRST, "leaf"), 99, "active message"),
        ((*_FIRST, "title"), 5, "not text"),
        ((*_FIRST, "draft"), {}, "not text"),
    ],
)
def test_a_file_that_lies_is_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[Any, ...], value: Any, reason: str
) -> None:
    monkeypatch.setattr("app.conversations.importing._MAX_DOCUMENT", 1000)
    raw = sample()
    change(path, value)(raw)
    file = tmp_path / "x.json"
    file.write_text(json.dumps(raw), encoding="utf-8")

    with pytest.raises(AppError, match=reason) as caught:
        read_file(file)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8 text"),
        (b"\xff\xfe\x00", "not UTF-16-LE text"),
        (b"[" * 100_000, "nested too deeply"),
        pytest.param(b'[{"id": ' + b"9" * 5000 + b"}]", "digits", id="digits"),
        (
            b'{"format": "tandem-conversations", "version": 1, "conversations": [{"messages": [], "created": NaN}]}',
            "NaN",
        ),
        (b"5", "not a list"),
        (b'"x"', "not a list"),
        (b"9" * 5000, "."),
        (b"[1]", "not an object"),
    ],
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(data)

    with pytest.raises(AppError, match=reason):
        read_file(file)


def test_the_longest_settings_that_can_be_made_are_read(tmp_path: Path) -> None:
    live = LiveSettings()
    live.set("answer.system", '"' * LONGEST_TEXT, Scope.CONVERSATION)
    live.set("answer.stop", ("\x01" * LONGEST_TEXT,) * Texts().most, Scope.CONVERSATION)
    file = tmp_path / "all.json"
    file.write_text(to_json([replace(SAMPLE, conversation=replace(SAMPLE.conversation, settings=live.document))]))
    [found] = read_file(file)

    assert found.conversation.settings == live.document


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text",
        "# A title only",
        "# Tandem\n\nA readme.",
        '<!-- tandem:message {"role": "user"} -->\n## You\nHi',
        "<!-- tandem:text -->",
        # What is tried in two ways at each of so many spaces never ends.
        f"# {' ' * 200_000}two words",
        f"# {'-' * 200_000}two words",
    ],
    ids=lambda text: text[:30],
)
def test_markdown_in_which_nobody_speaks_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.md"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(AppError, match="was not imported"):
        read_file(file)


@pytest.mark.parametrize("given", ["3", "null", "[1]", '"x"', "{", '{"role": ' + "9" * 5000 + "}"], ids=lambda g: g[:9])
@pytest.mark.parametrize("kind", ["conversation", "message", "text"])
def test_a_damaged_comment_is_named_by_its_line(tmp_path: Path, kind: str, given: str) -> None:
    file = tmp_path / "x.md"
    lines = ["<!-- tandem:conversation -->", '<!-- tandem:message {"role": "user"} -->', "## You", "Hi"]
    file.write_text("\n".join([*lines, f"<!-- tandem:{kind} {given} -->", "Hi"]), encoding="utf-8")

    with pytest.raises(AppError, match="the comment in line 5, which describes the text below it, is damaged"):
        read_file(file)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "LICENSE",
            'it is no conversation: neither JSON, nor a Markdown file (.md) with headings such as "## You"',
        ),
        ("broken.json", "it is not JSON, from line 1 on."),
    ],
)
def test_what_is_no_conversation_is_told_by_what_it_was_taken_for(tmp_path: Path, name: str, why: str) -> None:
    file = tmp_path / name
    file.write_text("MIT License", encoding="utf-8")

    with pytest.raises(AppError) as caught:
        read_file(file)
    assert f"{name} was not imported: {why}" in caught.value.message


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    for path, why in ((tmp_path, "is a folder"), (tmp_path / "absent.json", "There is no file")):
        with pytest.raises(AppError, match=why):
            read_file(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no such pipes")
def test_what_has_no_end_is_named_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe.json")
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(AppError, match="is a device or a pipe, not a file"):
            read_file(path)


def test_a_chain_of_any_length_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps([{"role": "user", "content": "x"}] * 20_000), encoding="utf-8")
    [found] = read_file(file)

    assert len(found.conversation.tree.path) == 20_000
    assert not math.isnan(found.conversation.summary.created)
