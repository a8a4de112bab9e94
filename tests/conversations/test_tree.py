"""Messages as a tree: branches, titles, included files, and how an answer ended."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.attached import Attachment, compose, split
from app.conversations.message import Ending, Message, Role
from app.conversations.store import Store
from app.conversations.titles import MAX_COLUMNS, make_title
from app.conversations.tree import Node, State, Tree, as_messages
from app.core.columns import fit, width
from app.core.errors import AppError, ContextOverflowError, DoesNotFitError


def tree_of(*links: tuple[int, int | None], leaf: int) -> Tree:
    roles = {0: Role.ASSISTANT, 1: Role.USER}
    return Tree({id_: Node(id_, parent, roles[id_ % 2], f"m{id_}") for id_, parent in links}, leaf)


# 1 is the first prompt, 2 and 4 are answers to it; 3 replies to 2; 5 is the edited first prompt.
BRANCHES = tree_of((1, None), (2, 1), (3, 2), (4, 1), (5, None), leaf=3)


def test_the_active_path_leads_from_the_first_message_to_the_leaf() -> None:
    assert [node.id for node in BRANCHES.path] == [1, 2, 3]
    assert Tree().path == ()


def test_siblings_are_the_branches_of_a_parent() -> None:
    assert [node.id for node in BRANCHES.siblings(2)] == [2, 4]
    assert [node.id for node in BRANCHES.siblings(1)] == [1, 5]
    assert [node.id for node in BRANCHES.siblings(3)] == [3]


def test_switching_goes_to_the_end_of_the_other_branch() -> None:
    other = BRANCHES.switched(4)

    assert other.leaf == 4
    assert other.switched(2).leaf == 3
    assert BRANCHES.switched(2) is BRANCHES
    assert BRANCHES.switched(5).switched(1).leaf == 4


def test_a_model_reads_the_path_without_empty_messages() -> None:
    tree = Tree().with_node(Node(1, None, Role.USER, "Hi")).with_node(Node(2, 1, Role.ASSISTANT, "", "thinking"))

    assert as_messages(tree.path) == (Message(Role.USER, "Hi"),)
    cut = tree.with_node(Node(3, 1, Role.ASSISTANT, "Hello, \n", state=State.CUT))
    assert as_messages(cut.path)[-1] == Message(Role.ASSISTANT, "Hello,")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Why is the sky blue?", "Why is the sky blue?"),
        ("\n\n  ## Plan for *Tuesday* \n- milk", "Plan for Tuesday"),
        ("```python\nx = 1\n```\nWhat does `x` do?", "What does x do?"),
        ("~~~\ndef f(): pass\n~~~", "def f(): pass"),
        ("- [ ] 1. **Buy** [bread](http://x.y)", "Buy bread"),
        ("> quoted <b>bold</b> text", "quoted bold text"),
        ("---\n***\nafter the rule", "after the rule"),
        ("a * b * c and snake_case_name", "a * b * c and snake_case_name"),
        ("???", "???"),
        (" \n\t", ""),
        ("", ""),
        ("\x1b[31mred\u202e alert", "[31mred alert"),
        (
            "Write a function that sorts a list of numbers with quicksort",
            "Write a function that sorts a list of numbers…",
        ),
        ("東京" * 30, "東京" * 11 + "東…"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert make_title(text, 48) == title


@given(st.text(), st.integers(min_value=1, max_value=60))
def test_titles_fit_their_columns(text: str, columns: int) -> None:
    assert width(make_title(text)) <= MAX_COLUMNS
    assert "\n" not in make_title(text)
    assert width(fit(text, columns)) <= max(columns, 1)


@pytest.mark.parametrize(
    ("removed", "links", "leaf"),
    [
        # The prompt 3 is removed; it has no answer.
        (3, [(1, None), (2, 1), (4, 1), (5, None)], 2),
        # The answer 2 has a reply, so its prompt is removed with both answers.
        (2, [(3, None), (5, None)], 3),
        (1, [(3, None), (5, None)], 3),
        # The answer 4 has no replies.
        (4, [(1, None), (2, 1), (3, 2), (5, None)], 3),
        (5, [(1, None), (2, 1), (3, 2), (4, 1)], 3),
    ],
)
def test_a_message_is_removed_and_later_ones_stay(removed: int, links: list[tuple[int, int | None]], leaf: int) -> None:
    left = BRANCHES.without_message(removed)
    assert ([(node.id, node.parent) for node in left.nodes.values()], left.leaf) == (links, leaf)


def test_without_its_only_prompt_a_tree_is_empty() -> None:
    assert tree_of((1, None), (2, 1), leaf=2).without_message(1) == Tree()


FULL = ContextOverflowError("It has 272 tokens.", "Shorten it, or --ctx 512.", whose="prompt", n_tokens=272, n_ctx=256)


@pytest.mark.parametrize(
    ("failure", "stored"),
    [
        (FULL, {"message": "It has 272 tokens.", "kind": "context", "whose": "prompt", "n_tokens": 272}),
        (DoesNotFitError("It needs 3 GB.", ("an offer",)), {"message": "It needs 3 GB.", "kind": "memory"}),
        (AppError("It broke.", "Load a smaller pair."), {"message": "It broke.", "hint": "Load a smaller pair."}),
    ],
)
def test_a_failure_is_stored_with_the_facts_for_its_fix(failure: AppError, stored: dict[str, object]) -> None:
    numbers = Ending(failure=failure).numbers
    assert numbers == {"error": stored}

    again = Ending.read(json.loads(json.dumps(numbers))).failure
    assert again is not None
    assert (type(again), again.message) == (type(failure), failure.message)
    assert Ending(failure=again).numbers == numbers


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        (
            {"reason": "repetition", "repeats": 4, "at_limit": True},
            {"reason": "repetition", "repeats": 4, "at_limit": True},
        ),
        ({"reason": "bored", "repeats": True, "at_limit": 1}, {}),
        *(({"error": error}, {}) for error in (5, {}, {"message": 5}, {"message": " "}, {"kind": "context"})),
        # Earlier versions stored the fix as text.
        ({"error": {"message": "Full.", "hint": "Press f4."}}, {"error": {"message": "Full.", "hint": "Press f4."}}),
        ({"error": {"message": "Full.", "kind": []}}, {"error": {"message": "Full.", "hint": ""}}),
        (
            {"error": {"message": "Full.", "kind": "context", "whose": 5, "n_tokens": "many"}},
            {"error": {"message": "Full.", "kind": "context", "whose": "", "n_tokens": 0}},
        ),
    ],
)
def test_an_ending_of_a_file_is_read_without_invalid_values(stored: dict[str, object], kept: dict[str, object]) -> None:
    assert Ending.read(stored).numbers == kept


NAMES = st.text("ab.md/~ é", min_size=1).filter(lambda name: name.strip() == name)
TEXTS = st.text(st.sampled_from("a`\n:@ ~é"), max_size=60)


@given(st.lists(st.builds(Attachment, NAMES, TEXTS, st.booleans()), max_size=3), TEXTS)
def test_split_reverses_compose(attachments: list[Attachment], text: str) -> None:
    question = " ".join(["why", *(each.reference for each in attachments), text])
    message = compose(question, attachments)
    found_question, found = split(message)
    assert found_question == question
    assert [(each.name, each.text) for each in found] == [(each.name, each.text) for each in attachments]


@given(st.text(st.sampled_from("a:`\n@[]md. "), max_size=80))
def test_compose_reverses_split_for_any_text(text: str) -> None:
    assert compose(*split(text)) == text


@pytest.mark.parametrize(
    "written", ["code:\n```py\nx = 1\n```\n\nwhat does it do?", "main.py:\n```py\nx = 1\n```\n\nwhat does it do?"]
)
def test_typed_markdown_is_no_attachment(written: str) -> None:
    assert split(written) == (written, ())


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    message = compose("@a.md", [Attachment("a.md", "```\ncode\n```")])
    assert message == "a.md:\n````md\n```\ncode\n```\n````\n\n@a.md"


def test_a_title_is_made_from_the_question() -> None:
    store = Store()
    number = store.create()
    store.add(number, Role.USER, compose("sum up @a.md", [Attachment("a.md", "secret")]), parent=None)
    assert store.summaries()[0].title == "sum up @a.md"
    assert store.rename(number, "") == "sum up @a.md"
