"""Branches of a conversation, and its title."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.message import Message, Role
from app.conversations.titles import MAX_COLUMNS, make_title
from app.conversations.tree import Node, State, Tree, as_messages
from app.core.columns import fit, width


def tree_of(*links: tuple[int, int | None], leaf: int) -> Tree:
    roles = {0: Role.ASSISTANT, 1: Role.USER}
    return Tree({id_: Node(id_, parent, roles[id_ % 2], f"m{id_}") for id_, parent in links}, leaf)


# 1 is the first prompt, 2 and 4 two answers to it; 3 goes on after 2; 5 is the first prompt, edited.
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


def test_a_new_message_is_active_and_a_replaced_one_keeps_its_place() -> None:
    grown = BRANCHES.with_node(Node(6, 3, Role.ASSISTANT, "new", state=State.STOPPED))
    changed = grown.with_node(Node(2, 1, Role.ASSISTANT, "edited"))

    assert [node.text for node in changed.path] == ["m1", "edited", "m3", "new"]
    assert list(changed.nodes) == [1, 2, 3, 4, 5, 6]
    assert grown.without(6, 3) == BRANCHES


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
        # The prompt 3 goes; it has no answer.
        (3, [(1, None), (2, 1), (4, 1), (5, None)], 2),
        # The answer 2 has a reply, so it goes with its prompt and that prompt's other answer.
        (2, [(3, None), (5, None)], 3),
        (1, [(3, None), (5, None)], 3),
        # The answer 4 has none.
        (4, [(1, None), (2, 1), (3, 2), (5, None)], 3),
        (5, [(1, None), (2, 1), (3, 2), (4, 1)], 3),
    ],
)
def test_a_message_is_removed_and_later_ones_stay(removed: int, links: list[tuple[int, int | None]], leaf: int) -> None:
    left = BRANCHES.without_message(removed)
    assert ([(node.id, node.parent) for node in left.nodes.values()], left.leaf) == (links, leaf)


def test_without_its_only_prompt_a_tree_is_empty() -> None:
    assert tree_of((1, None), (2, 1), leaf=2).without_message(1) == Tree()
