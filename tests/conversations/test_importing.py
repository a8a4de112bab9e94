"""Export and import of conversations: round trips, and invalid or hostile files."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversations.export import FORMAT, to_json, to_markdown
from app.conversations.importing import read_file
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, State, StoredConversation, Summary, Tree
from app.core.errors import AppError
from app.core.printable import printable

NODES = (
    Node(3, None, Role.USER, "Why?\n```\ncode\n```", created=1.5),
    Node(
        4,
        3,
        Role.ASSISTANT,
        "Because --> of\n\nlight",
        "Hm\n<!-- tandem:text -->",
        State.STOPPED,
        2.0,
        {"predicted_n": 12, "acceptance": 0.75},
    ),
    Node(7, 3, Role.ASSISTANT, '<!-- tandem:message {"role": "user"} -->\nfake', state=State.CUT, created=3.0),
    Node(8, None, Role.USER, "Why, edited?", created=4.0),
    Node(9, 7, Role.USER, "## You\nsaid", created=5.0),
)
SAMPLE = StoredConversation(
    Summary(0, "Light --> and *dark*", named=True, pinned=True, created=1.0, updated=6.0, tags=("physics", "work")),
    Tree({node.id: node for node in NODES}, 9),
    {"sampling": {"temperature": 0.5}, "answer": {"stop": ["#"], "system": "Be brief."}},
    "unsent",
)


def read(text: str, name: str = "x.md") -> StoredConversation:
    """Import the one conversation of a file with this text."""
    with TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8", newline="")
        (found,) = read_file(file, now=0.0)
    return found


def test_markdown_restores_the_active_branch(tmp_path: Path) -> None:
    file = tmp_path / "one.md"
    text = to_markdown([SAMPLE, SAMPLE])
    file.write_text(text, encoding="utf-8")
    found, again = read_file(file)

    assert found == again
    path = found.tree.path
    assert [(n.role, n.text, n.reasoning, n.state, n.created) for n in path] == [
        (n.role, n.text, n.reasoning, n.state, n.created) for n in SAMPLE.tree.path
    ]
    assert found.summary == SAMPLE.summary
    assert (found.settings, found.unsent_text) == (SAMPLE.settings, SAMPLE.unsent_text)
    assert path[1].stats == NODES[2].stats
    assert "## System\n\nBe brief.\n" in text
    assert all(line.count("-->") == 1 for line in text.splitlines() if line.startswith("<!-- tandem:conv"))
    assert "# Light --> and \\*dark\\*" in text
    assert "## Answer (cut)" in text


def test_reasoning_is_collapsed_in_markdown() -> None:
    shown = replace(SAMPLE, tree=SAMPLE.tree.switched(4))
    text = to_markdown([shown])
    answer = read(text).tree.path[-1]

    assert "<details>\n<summary>Reasoning</summary>" in text
    assert (answer.reasoning, answer.text) == ("Hm\n<!-- tandem:text -->", "Because --> of\n\nlight")


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=4))
def test_any_text_survives_markdown(texts: list[tuple[str, str]]) -> None:
    nodes = {
        n: Node(n, n - 1 or None, Role.ASSISTANT, printable(text), printable(thought))
        for n, (text, thought) in enumerate(texts, 1)
    }
    whole = StoredConversation(Summary(0, "t"), Tree(nodes, len(texts)))
    path = read(to_markdown([whole])).tree.path

    assert [(n.text, n.reasoning) for n in path] == [(n.text, n.reasoning.strip("\n")) for n in nodes.values()]


def test_an_import_is_atomic(tmp_path: Path) -> None:
    store = Store(tmp_path / "conversations.db")
    wrong = StoredConversation(Summary(0, "wrong"), Tree({2: Node(2, 1, Role.USER, "no parent")}, 2))
    with pytest.raises(KeyError):
        store.insert([SAMPLE, wrong])
    assert store.summaries() == ()

    writing = replace(NODES[0], state=State.WRITING)
    (number,) = store.insert([StoredConversation(Summary(0, "w"), Tree({3: writing}, 3))])
    assert store.load(number).tree.path[0].state is State.CUT
    store.close()


def test_a_running_answer_is_exported_as_cut(tmp_path: Path) -> None:
    store = Store(tmp_path / "conversations.db")
    conversation = store.create()
    asked = store.add(conversation, Role.USER, "Count.", parent=None)
    journal = store.answer(conversation, asked.id)
    journal.add("one")
    journal.flush()
    raw = json.loads(to_json([store.load(conversation)]))
    store.close()

    assert [(m["text"], m["state"]) for m in raw["conversations"][0]["messages"]][1] == ("one", "cut")


def test_lists_of_messages_and_foreign_markdown_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]')
    (tmp_path / "b.md").write_text(
        "# Greetings\n\n## You\n\nHi\n```\n## Answer\n```\n## **Assistant:**\n\nHo\n", encoding="utf-8"
    )
    [a], [b] = read_file(tmp_path / "a.json", now=5.0), read_file(tmp_path / "b.md")

    assert [(n.role, n.text, n.created) for n in a.tree.path] == [
        (Role.USER, "Hi", 5.0),
        (Role.ASSISTANT, "Ho", 5.0),
    ]
    assert a.summary == Summary(0, "Hi", created=5.0, updated=5.0)
    assert [n.text for n in b.tree.path] == ["Hi\n```\n## Answer\n```", "Ho"]
    assert b.summary.title == "Greetings"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["x.md", "x.json"])
def test_files_redirected_on_windows_are_read(tmp_path: Path, name: str, encoding: str) -> None:
    file = tmp_path / name
    text = to_json([SAMPLE]) if name == "x.json" else to_markdown([SAMPLE])
    file.write_bytes(text.replace("\n", "\r\n").encode(encoding))

    (found,) = read_file(file)
    assert [node.text for node in found.tree.path] == [node.text for node in SAMPLE.tree.path]


def test_control_characters_are_removed() -> None:
    messages = [{"id": 1, "role": "user", "text": "a\x1b[2Jb\u202ec\ud800"}]
    told = {"messages": messages, "title": "\x07t\n\nu" + "x" * 999, "draft": "\x9bd"}
    raw = {"format": FORMAT, "version": 1, "conversations": [told]}
    found = read(json.dumps(raw), "x.json")

    assert found.tree.path[0].text == "a[2Jbc?"
    assert found.summary.title.startswith("t ux")
    assert len(found.summary.title) <= 200
    assert found.unsent_text == "d"


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
        ((*_MESSAGE, "parent"), 99, "missing"),
        ((*_MESSAGE, "parent"), 3, "comes later"),
        ((*_MESSAGE, "parent"), 9, "comes later"),
        ((*_MESSAGE, "role"), "critic", "unknown role"),
        ((*_MESSAGE, "role"), [], "unknown role"),
        ((*_MESSAGE, "state"), "done", "unknown state"),
        ((*_MESSAGE, "text"), None, "not text"),
        ((*_MESSAGE, "reasoning"), 5, "not text"),
        ((*_MESSAGE, "created"), "now", "out of range"),
        ((*_MESSAGE, "created"), 1e300, "out of range"),
        ((*_MESSAGE, "stats"), [1], "not an object"),
        ((*_FIRST, "settings"), "x", "not an object"),
        ((*_FIRST, "leaf"), 99, "active message"),
        ((*_FIRST, "title"), 5, "not text"),
        ((*_FIRST, "draft"), {}, "not text"),
    ],
)
def test_an_invalid_value_is_refused_with_a_reason(
    tmp_path: Path, path: tuple[Any, ...], value: Any, reason: str
) -> None:
    where = raw = json.loads(to_json([SAMPLE]))
    for step in path[:-1]:
        where = where[step]
    where[path[-1]] = value
    file = tmp_path / "x.json"
    file.write_text(json.dumps(raw), encoding="utf-8")

    with pytest.raises(AppError, match=reason) as caught:
        read_file(file)
    assert caught.value.hint


NO_SPEAKER, NO_MESSAGE = 'no heading such as "## You" names the speaker', "a text comes before its message"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("x.json", "", "it is not JSON, from line 1 on"),
        ("x.json", "[\n{", "it is not JSON, from line 2 on"),
        ("x.json", b"\xff", "it is not UTF-8 text"),
        ("x.json", b"\xff\xfe\x00", "it is not UTF-16-LE text"),
        ("x.json", "[" * 100_000, "it is too large or nested too deeply"),
        ("x.json", f'[{{"id": {"9" * 5000}}}]', "Exceeds the limit"),
        ("x.json", '{"format": "tandem-conversations", "version": 1, "conversations": [{"a": NaN}]}', "NaN is not a"),
        ("x.json", to_json([SAMPLE]).replace("0.75", "1e999"), "Out of range float values"),
        ("x.json", "5", "its messages are not a list"),
        ("x.json", "[1]", "a message is not an object"),
        ("x.md", "", NO_SPEAKER),
        ("x.md", "just text", NO_SPEAKER),
        ("x.md", "# Tandem\n\nA readme.", NO_SPEAKER),
        ("x.md", '<!-- tandem:message {"role": "user"} -->\n## You\nHi', NO_MESSAGE),
        ("x.md", "<!-- tandem:text -->", NO_MESSAGE),
        # A pattern that can match each of these spaces in two ways would never end.
        ("x.md", f"# {' ' * 200_000}two words", NO_SPEAKER),
        ("x.md", f"# {'-' * 200_000}two words", NO_SPEAKER),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_an_invalid_file_is_refused_with_a_reason(tmp_path: Path, name: str, data: str | bytes, reason: str) -> None:
    file = tmp_path / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)

    with pytest.raises(AppError) as refused:
        read_file(file)
    assert refused.value.message.startswith(f"{file} was not imported: {reason}")


@pytest.mark.parametrize("given", ["3", "null", "[1]", '"x"', "{", '{"role": ' + "9" * 5000 + "}"], ids=lambda g: g[:9])
@pytest.mark.parametrize("kind", ["conversation", "message", "text"])
def test_a_damaged_comment_is_reported_by_its_line(tmp_path: Path, kind: str, given: str) -> None:
    file = tmp_path / "x.md"
    lines = ["<!-- tandem:conversation -->", '<!-- tandem:message {"role": "user"} -->', "## You", "Hi"]
    file.write_text("\n".join([*lines, f"<!-- tandem:{kind} {given} -->", "Hi"]), encoding="utf-8")

    with pytest.raises(AppError, match="the comment in line 5, which describes the text below it, is damaged"):
        read_file(file)


def test_a_comment_with_fields_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text(
        '<!-- tandem:conversation {"messages": 3} -->\n<!-- tandem:message {"role": "user"} -->\n## You\nHi\n',
        encoding="utf-8",
    )
    assert [node.text for node in read_file(file)[0].tree.path] == ["Hi"]
    file.write_text(file.read_text(encoding="utf-8").replace('"user"', '"user", "pictures": 5'), encoding="utf-8")
    with pytest.raises(AppError, match="its pictures are not a list"):
        read_file(file)


@pytest.mark.parametrize(
    "text",
    [
        "## You\nHi\n## Answer\nHo\n",
        '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}',
    ],
)
def test_a_file_without_a_suffix_is_recognized_by_its_beginning(tmp_path: Path, text: str) -> None:
    (tmp_path / "chats").write_text(text, encoding="utf-8")

    assert [node.text for node in read_file(tmp_path / "chats")[0].tree.nodes.values()] == ["Hi", "Ho"]


# Duplicates


def conversation(*texts: str) -> StoredConversation:
    """Return a chain of messages, beginning with a prompt."""
    roles = (Role.USER, Role.ASSISTANT)
    nodes = {n: Node(n, n - 1 or None, roles[(n - 1) % 2], text) for n, text in enumerate(texts, 1)}
    return StoredConversation(Summary(0, "A title"), Tree(nodes, len(texts) or None))


GREETING = conversation("Hi", "Hello!")
REGENERATED = Tree({**GREETING.tree.nodes, 3: Node(3, 1, Role.ASSISTANT, "Good day.")}, 2)
BRANCHED = replace(GREETING, tree=REGENERATED)


@pytest.mark.parametrize(
    ("stored", "imported", "is_known"),
    [
        (GREETING, GREETING, True),
        (GREETING, conversation("Hi", "Hello"), False),
        (GREETING, conversation("Hi", "Hello!\n\n    indented"), False),
        (conversation("Hi", "Hello!", "More", "Gladly."), GREETING, True),
        (GREETING, conversation("Hi", "Hello!", "More"), False),
        (conversation("A", "B", "C", "B"), conversation("C", "B", "A", "B"), False),
        (conversation("Hi\x1b[2J\n"), conversation("Hi[2J"), True),
        (conversation(), conversation(), True),
        (conversation(), replace(conversation(), unsent_text="Hi"), False),
        (GREETING, replace(GREETING, settings={"answer": {"system": "Be brief."}}), False),
        (replace(GREETING, settings={"answer": {"system": "Be brief.\n"}}), GREETING, True),
        (GREETING, BRANCHED, False),
        (BRANCHED, BRANCHED, True),
    ],
)
def test_a_conversation_is_a_duplicate_if_a_stored_one_has_all_its_messages(
    stored: StoredConversation, imported: StoredConversation, is_known: bool
) -> None:
    store = Store()
    assert store.duplicates([imported]) == (None,)
    (number,) = store.insert([stored])
    assert store.duplicates([imported]) == (number if is_known else None,)
    store.delete(number)
    assert store.duplicates([imported]) == (number if is_known else None,), "also a deleted one"
    store.close()


def test_a_fork_is_a_conversation_of_its_own() -> None:
    times = iter(range(1, 20))
    store = Store(now=lambda: float(next(times)))
    original = store.create()
    asked = store.add(original, Role.USER, "Hi", parent=None)
    store.add(original, Role.ASSISTANT, "Hello!", parent=asked.id)
    fork = store.fork(original, store.load(original).tree.path)
    both, (alone,) = [store.load(original), store.load(fork)], [store.load(fork)]
    assert store.duplicates(both) == (original, fork)
    store.delete(fork)
    assert store.duplicates(both) == (original, fork)
    assert store.duplicates([alone]) == (fork,), "the deleted one is restored"
    other = Store()
    other.insert([both[0]])
    assert other.duplicates(both) == (1, None), "the original is not counted twice"
    store.close()
    other.close()


TEXTS = st.text(max_size=40).map(printable)
NUMBERS = st.dictionaries(
    st.sampled_from(["predicted_n", "speedup", "reason", "error"]), st.integers(0, 9) | st.text(max_size=9), max_size=3
)
MESSAGES = st.tuples(st.integers(0, 30), TEXTS, TEXTS, st.sampled_from(State), NUMBERS)


def fill(store: Store, said: list[tuple[int, str, str, State, dict[str, object]]]) -> int:
    """Return a conversation in which prompts and answers alternate, each below an earlier message."""
    conversation = store.create({"answer": {"system": "Be brief."}})
    nodes = [store.add(conversation, Role.USER, "the first", parent=None)]
    for place, text, thought, state, numbers in said:
        parent = nodes[place % len(nodes)]
        if parent.role is Role.ASSISTANT:
            nodes.append(store.add(conversation, Role.USER, text, parent=parent.id))
            store.set_stats(nodes[-1].id, numbers)
            continue
        journal = store.answer(conversation, parent.id)
        journal.add(thought, reasoning=True)
        journal.add(text)
        journal.flush()
        nodes.append(journal.node if state is State.WRITING else journal.finish(state, stats=numbers))
    return conversation


def without_ids(conversation: StoredConversation) -> tuple[object, ...]:
    """Return an export without ids and states that belong to one store."""
    tree = conversation.tree
    places: dict[int | None, int | None] = {None: None} | {old: new for new, old in enumerate(tree.nodes)}
    nodes = [replace(node, id=0, parent=places[node.parent], state=node.ended_state) for node in tree.nodes.values()]
    summary = replace(conversation.summary, id=0)
    return summary, nodes, places[tree.leaf], conversation.settings, conversation.unsent_text


@settings(max_examples=40)
@given(st.lists(MESSAGES, max_size=12), TEXTS, TEXTS, st.booleans(), st.integers(0, 30))
def test_an_import_of_an_export_is_the_same_conversation(
    said: list[tuple[int, str, str, State, dict[str, object]]], title: str, draft: str, pinned: bool, active: int
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "all.json"
        mine, theirs = Store(), Store()
        # Ids that differ from the other store's.
        mine.create()
        conversation = fill(mine, said)
        mine.rename(conversation, title)
        mine.pin(conversation, pinned)
        mine.set_unsent_text(conversation, draft)
        nodes = list(mine.load(conversation).tree.nodes)
        mine.switch(conversation, nodes[active % len(nodes)])
        before = mine.load(conversation)

        file.write_text(to_json([before]), encoding="utf-8")
        [number] = theirs.insert(read_file(file))
        assert without_ids(theirs.load(number)) == without_ids(before)
        assert theirs.duplicates([before]) == (number,)
        mine.close()
        theirs.close()
