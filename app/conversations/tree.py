"""A conversation as a tree of messages: every edit and every new answer is a branch, and one path is the active one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from app.conversations.ending import UNKNOWN, Ending
from app.conversations.message import Message, Role

Document = Mapping[str, Any]
"""A small JSON object, such as the settings of a conversation or the numbers of an answer."""


class State(Enum):
    """How far a message got."""

    WRITING = "writing"
    """An answer on its way, here or in another Tandem."""
    COMPLETE = "complete"
    STOPPED = "stopped"
    """The user stopped it."""
    CUT = "cut"
    """Tandem ended before the answer did."""
    FAILED = "failed"

    @property
    def can_continue(self) -> bool:
        """Whether the answer ended before its end."""
        return self in (State.STOPPED, State.CUT, State.FAILED)


TELLING = (State.CUT, State.FAILED)
"""The answers that are asked why they are not whole; the others' states say everything."""
_LONGEST_NAME = 200
"""Characters of a model name that is shown; an imported file may hold more."""


def model_in(numbers: Document) -> str:
    """Return the target model's name from the numbers of an answer; "" where it is not known."""
    name = numbers.get("target")
    return name[:_LONGEST_NAME] if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True)
class Node:
    """One message in its place.

    Attributes:
        id: Of the message; greater than its parent's.
        parent: What it replies to; None for the first of a branch.
        role: Who speaks.
        text: What was said, without reasoning.
        reasoning: The model's thinking.
        state: How far it got.
        created: Seconds since 1970.
        ending: Why an answer is not whole, or why a prompt has none, as far as that is known.
        model: Name of the target model that wrote an answer; "" where it is not known.
    """

    id: int
    parent: int | None
    role: Role
    text: str
    reasoning: str = ""
    state: State = State.COMPLETE
    created: float = 0.0
    ending: Ending = UNKNOWN
    model: str = ""

    @property
    def ended_state(self) -> State:
        """The state in a file, where no one is writing it."""
        return State.CUT if self.state is State.WRITING else self.state

    def says_as(self, other: Node) -> bool:
        """Whether another one is the same message, and as far."""
        return (self.id, self.state, self.text) == (other.id, other.state, other.text)


@dataclass(frozen=True)
class Tree:
    """The messages of a conversation and which branch is active.

    Attributes:
        nodes: By id, parents before their children, siblings in the order they were made.
        leaf: The last message of the active branch; None while nothing was said.
    """

    nodes: Mapping[int, Node] = field(default_factory=dict)
    leaf: int | None = None

    @cached_property
    def path(self) -> tuple[Node, ...]:
        """The active branch, first message first."""
        return self.path_to(self.leaf)

    def path_to(self, node_id: int | None) -> tuple[Node, ...]:
        """The messages that lead to one, itself included. Raises KeyError for an unknown message."""
        found = []
        while node_id is not None:
            node = self.nodes[node_id]
            found.append(node)
            node_id = node.parent
        return tuple(reversed(found))

    def siblings(self, node_id: int) -> tuple[Node, ...]:
        """The branches at the place of a message, itself among them, oldest first."""
        return tuple(self._children[self.nodes[node_id].parent])

    def answer_before(self, node_id: int) -> Node | None:
        """Return the nearest answer above a message in its branch; None without one."""
        parent = self.nodes[node_id].parent
        while parent is not None and self.nodes[parent].role is not Role.ASSISTANT:
            parent = self.nodes[parent].parent
        return self.nodes[parent] if parent is not None else None

    def has_replies(self, node_id: int) -> bool:
        """Whether anything was said after a message."""
        return node_id in self._children

    def replies(self, node_id: int) -> tuple[Node, ...]:
        """What was said directly after a message, oldest first."""
        return tuple(self._children.get(node_id, ()))

    @property
    def opening(self) -> str:
        """The prompt that a conversation is called after, "" without any.

        That is the first one; where it was never answered, the newest of those that were put in its place.
        """
        first = next((node for node in self.nodes.values() if node.role is Role.USER), None)
        if first is None:
            return ""
        beside = self.siblings(first.id)
        return next((node for node in beside if self._is_answered(node.id)), beside[-1]).text

    def _is_answered(self, node_id: int) -> bool:
        replies = self._children.get(node_id, ())
        return any(reply.text.strip() and reply.state is not State.FAILED for reply in replies)

    def newest_leaf(self, node_id: int) -> int:
        """The end of the branch through a message, always taking the newest turn."""
        while children := self._children.get(node_id):
            node_id = children[-1].id
        return node_id

    def switched(self, node_id: int) -> Tree:
        """The tree with a branch through the message active; unchanged if it already is on the active one."""
        if self.nodes[node_id] in self.path:
            return self
        return replace(self, leaf=self.newest_leaf(node_id))

    def with_node(self, node: Node) -> Tree:
        """The tree with a message put in, active from then on, or with one of the same id replaced in its place."""
        is_new = node.id not in self.nodes
        return Tree({**self.nodes, node.id: node}, node.id if is_new else self.leaf)

    def without(self, node_id: int, leaf: int | None) -> Tree:
        """The tree without a message that has no replies, and another leaf active."""
        return Tree({key: node for key, node in self.nodes.items() if key != node_id}, leaf)

    @cached_property
    def _children(self) -> dict[int | None, list[Node]]:
        found: dict[int | None, list[Node]] = {}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node)
        return found


@dataclass(frozen=True, slots=True)
class Typed:
    """What somebody has typed.

    Attributes:
        text: What the model reads of it; where nothing was said, as it stood in the line.
        said: Whether it is a prompt; else it gave way to something else.
    """

    text: str
    said: bool = True


@dataclass(frozen=True, slots=True)
class Summary:
    """One line in the list of conversations.

    Attributes:
        id: Of the conversation; 0 for one that is not in a store.
        title: One line; empty while nothing was said.
        named: Whether the user chose the title.
        pinned: Whether it stands above the others.
        created: Seconds since 1970.
        updated: When something was last said.
    """

    id: int
    title: str
    named: bool = False
    pinned: bool = False
    created: float = 0.0
    updated: float = 0.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """Everything about one conversation but the numbers of its answers.

    Attributes:
        summary: Its line in the list.
        tree: What was said.
        settings: System prompt, sampling, pair; whoever reads them checks them.
        draft: What was typed and not sent.
    """

    summary: Summary
    tree: Tree = field(default_factory=Tree)
    settings: Document = field(default_factory=dict)
    draft: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation as it travels between a store and a file.

    Attributes:
        conversation: All of it.
        stats: The numbers of its answers, by message.
    """

    conversation: Conversation
    stats: Mapping[int, Document] = field(default_factory=dict)


def said(nodes: Iterable[Node]) -> tuple[Message, ...]:
    """The messages as a model reads them: without the space behind them, and without those that have no text."""
    return tuple(Message(node.role, node.text.rstrip(), node.reasoning.strip()) for node in nodes if node.text.strip())
